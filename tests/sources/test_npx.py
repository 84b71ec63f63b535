"""Calls of `npx convex run`; `npx` is a small real program, placed first on PATH."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from evalscribe.errors import AccessError, EvalscribeError, NotFoundError, UnavailableError, UsageError
from evalscribe.model.evidence import Evidence, UnreadableEvidence
from evalscribe.sources.address import Links
from evalscribe.sources.npx import open_npx
from support.convex_server import EVAL_IDS, RUN_ID, debug, summary
from support.waiting import until, with_longer_limits

KEY = "prod:fabulous-panther-525|dGVzdGtleQ=="
LOG = "import json, os, sys; open('calls', 'a').write(json.dumps([os.getcwd(), sys.argv[1:]]) + '\\n')\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "evalScores"
    folder.mkdir()
    (folder / "package.json").write_text('{"dependencies": {"convex": "1"}}')
    (folder / "node_modules/convex").mkdir(parents=True)
    return folder


@pytest.fixture
def npx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Path of the `npx` program; each test writes its body."""
    program = tmp_path / "bin" / "npx"
    program.parent.mkdir()
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    return program


def write(npx: Path, body: str) -> None:
    npx.write_text(f"#!{sys.executable}\n{LOG}{body}\n")
    npx.chmod(0o755)


def printing(folder: Path, answers: dict[str, object]) -> str:
    (folder / "answers").write_text(json.dumps(answers))
    return (
        "answer = json.load(open('answers')).get(list(json.loads(sys.argv[-1]).values())[0])\n"
        "print('[LOG] something', file=sys.stderr)\n"
        "if answer is not None: print(json.dumps(answer, indent=2))"
    )


async def test_both_functions_run_in_the_folder_with_exact_arguments(npx: Path, folder: Path) -> None:
    write(npx, printing(folder, {RUN_ID: summary(EVAL_IDS[:2]), EVAL_IDS[0]: debug()}))
    source = open_npx(folder, RUN_ID, Links())
    run = await source.run()
    evidence = await asyncio.gather(*(source.evidence(eval) for eval in run.failures))
    await source.close()
    assert (run.id, run.failed) == (RUN_ID, 2)
    assert isinstance(evidence[0], Evidence)
    assert isinstance(evidence[1], UnreadableEvidence), "nothing printed is null: no such eval"
    calls = [json.loads(line) for line in (folder / "calls").read_text().splitlines()]
    start = ["--no-install", "convex", "run", "--prod"]
    assert calls[0] == [str(folder), [*start, "debugQueries:getFailedEvalsForRun", json.dumps({"runId": RUN_ID})]]
    assert [*start, "debug:getEvalDebugInfo", json.dumps({"evalId": EVAL_IDS[0]})] in [call[1] for call in calls]


async def test_run_id_with_shell_syntax_is_not_executed(npx: Path, folder: Path) -> None:
    write(npx, "")
    with pytest.raises(NotFoundError):
        await open_npx(folder, "x'; touch pwned; '", Links()).run()
    assert not (folder / "pwned").exists()


@pytest.mark.parametrize(
    ("body", "expected", "says"),
    [
        pytest.param("", NotFoundError, RUN_ID, id="nothing printed is a missing run"),
        pytest.param("print('null')", NotFoundError, RUN_ID, id="null"),
        pytest.param("sys.exit('No CONVEX_DEPLOYMENT set, run npx convex dev')", AccessError, "login", id="no login"),
        pytest.param(f"sys.exit('bad {KEY} here')", UnavailableError, "[redacted:convex-key]", id="key on stderr"),
        pytest.param("sys.exit(3)", UnavailableError, "no reason", id="silent failure"),
        pytest.param("print('Need to install convex')", UnavailableError, "something other", id="no JSON"),
        pytest.param("os.kill(os.getpid(), 9)", UnavailableError, "no reason", id="killed"),
    ],
)
async def test_bad_npx_output_or_exit_raises_the_matching_error(
    npx: Path, folder: Path, body: str, expected: type[EvalscribeError], says: str
) -> None:
    write(npx, body)
    with pytest.raises(expected) as caught:
        await open_npx(folder, RUN_ID, Links()).run()
    assert says in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 2
    assert "dGVzdGtleQ" not in str(caught.value)


async def test_failed_call_for_one_eval_leaves_the_other_readable(npx: Path, folder: Path) -> None:
    answers: dict[str, object] = {RUN_ID: summary(EVAL_IDS[:2]), EVAL_IDS[1]: debug()}
    write(npx, f"if {EVAL_IDS[0]!r} in sys.argv[-1]: sys.exit('Uncaught Error: no zip')\n{printing(folder, answers)}")
    source = open_npx(folder, RUN_ID, Links())
    run = await source.run()
    evidence = [await source.evidence(eval) for eval in run.failures]
    assert isinstance(evidence[0], UnreadableEvidence)
    assert "no zip" in evidence[0].reason
    assert isinstance(evidence[1], Evidence)


PARENT = """
import subprocess
child = subprocess.Popen(['sleep', '3600'])
open('pids.new', 'w').write(f'{os.getpid()} {child.pid}')
os.replace('pids.new', 'pids')
"""
"""Start a child that holds the output open, and write the ids of both processes."""
HANGS = f"{PARENT}child.wait()"


def processes(folder: Path) -> list[int]:
    """Return the ids of npx and of its child; empty if the child does not run yet."""
    pids = folder / "pids"
    return [int(pid) for pid in pids.read_text().split()] if pids.exists() else []


def runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def all_ended(folder: Path) -> None:
    npx, child = processes(folder)
    await until(lambda: not runs(npx) and not runs(child), "npx and its child are gone")


async def test_hanging_npx_is_stopped_at_its_time_limit(npx: Path, folder: Path) -> None:
    write(npx, HANGS)

    async def hangs(limit_s: float) -> None:
        with pytest.raises(UnavailableError, match="did not end"):
            await open_npx(folder, RUN_ID, Links(), timeout=limit_s).run()

    await with_longer_limits(hangs, lambda _: processes(folder))
    await all_ended(folder)


async def test_cancelling_kills_npx_and_its_child(npx: Path, folder: Path) -> None:
    write(npx, HANGS)
    task = asyncio.create_task(open_npx(folder, RUN_ID, Links()).run())
    await until(lambda: processes(folder), "the tool runs")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await all_ended(folder)


async def test_cancelling_while_npx_starts_kills_its_child(
    npx: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(npx, HANGS)
    start = asyncio.create_subprocess_exec

    async def returns_late(*command: str, **options: Any) -> asyncio.subprocess.Process:
        process = await start(*command, **options)
        await until(lambda: processes(folder), "the tool runs")
        task.cancel()
        # On a busy machine, asyncio returns this late: the tool runs before its pipes are connected.
        await asyncio.sleep(0)
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", returns_late)
    task = asyncio.create_task(open_npx(folder, RUN_ID, Links()).run())
    with pytest.raises(asyncio.CancelledError):
        await task
    await all_ended(folder)


async def test_child_of_an_npx_that_has_ended_is_killed(npx: Path, folder: Path) -> None:
    write(npx, PARENT)
    task = asyncio.create_task(open_npx(folder, RUN_ID, Links()).run())
    await until(lambda: processes(folder) and not psutil.pid_exists(processes(folder)[0]), "npx has ended")
    assert runs(processes(folder)[1]), "the child holds the output open"
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await all_ended(folder)


async def test_missing_npx_raises_usage_error(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match=r"Node\.js"):
        await open_npx(folder, RUN_ID, Links()).run()


def test_folder_without_package_json_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"package\.json"):
        open_npx(tmp_path, RUN_ID, Links())
    with pytest.raises(UsageError, match="is not a folder"):
        open_npx(tmp_path / "none", RUN_ID, Links())
