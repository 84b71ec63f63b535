"""The process that hosts user Python code: calls are isolated and processes are cleaned up."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from evalscribe.experiments.python_host import MOST_ABANDONED, ChildProcess, HostReply, PythonHost
from support.machine_speed import cpu_below
from support.waiting import PATIENCE_S, until, wait_until, with_longer_limits

Hosted = Callable[[str], PythonHost]

BAD = """
import asyncio, ctypes, os, subprocess, sys, time
KEYS = []
def slow(input): time.sleep(0.4); return os.getpid()
async def slow_async(input): await asyncio.sleep(0.4); return os.getpid()
def leave(input): os._exit(7)
def segfault(input): ctypes.string_at(0)
def exits(input): sys.exit("enough")
async def exits_async(input): sys.exit("enough")
def loops(input):
    print("began")
    while True: time.sleep(0.01)
async def sleeps(input):
    print("began")
    await asyncio.sleep(3600)
async def holds_up(input): time.sleep(3600)
def quick(input): return os.getpid()
def starts(input): return [os.getpid(), subprocess.Popen(["sleep", "3600"]).pid]
def noisy(input):
    for n in range(30_000): print(n)
"""


async def call_user(host: PythonHost, name: str, value: Any = 1, timeout_s: float = PATIENCE_S) -> HostReply:
    return await host.call(f"user:{name}", "component", {"input": value, "context": {}}, timeout_s)


async def test_call_that_kills_its_process_fails_and_the_others_are_retried(hosted: Hosted) -> None:
    host = hosted(BAD)
    names = ("slow", "leave", "slow_async", "segfault")
    slow, left, slow_async, crashed = await asyncio.gather(*(call_user(host, name) for name in names))
    assert left.error == "its process ended (exit code 7)"
    assert crashed.error == "its process ended (SIGSEGV)"
    assert "Segmentation fault" in crashed.log
    assert slow.error is None
    assert slow_async.error is None
    assert len({slow.value, slow_async.value}) == 2  # each was retried in a process of its own
    assert (await call_user(host, "quick")).error is None


MEDDLES = """
import gc, json, time
def channel(): return next(o._channel for o in gc.get_objects() if type(o).__name__ == "Child")
def says(input):
    channel().sendall(input.encode())
    time.sleep(3600)
def patches(input):
    json.dumps = lambda *_, **__: '{"value": 1}'
    return 1
def slow(input): time.sleep(0.4); return "mine"
"""
NO_REPLIES = (
    "[]",
    '{"id": {}}',
    '{"id": 1, "ms": NaN, "value": 1}',
    '{"id": 1, "ms": 1, "log": 5, "value": 1}',
    f'{{"id": 1, "ms": 1{"0" * 400}, "value": 1}}',
    '{"id": 1, "ms": -1, "value": 1}',
)


async def test_call_that_corrupts_the_process_connection_fails_alone(hosted: Hosted) -> None:
    host = hosted(MEDDLES)
    wrong = [call_user(host, "says", f"{line}\n") for line in NO_REPLIES]
    slow, patched, *corrupted = await asyncio.gather(call_user(host, "slow"), call_user(host, "patches"), *wrong)
    assert (slow.error, slow.value) == (None, "mine")
    assert patched.error == "its process sent an invalid reply"
    assert {one.error for one in corrupted} == {"its process sent an invalid reply"}


async def test_call_cannot_forge_the_reply_of_another(hosted: Hosted) -> None:
    host = hosted(MEDDLES)
    forged = "".join(f'{{"id": {number}, "ms": 1, "value": "forged"}}\n' for number in range(100))
    slow, says = await asyncio.gather(call_user(host, "slow"), call_user(host, "says", forged, 1.0))
    assert (slow.value, says.timed_out) == ("mine", True)


async def test_system_exit_is_an_error_and_keeps_the_process(hosted: Hosted) -> None:
    host = hosted(BAD)
    before = await call_user(host, "quick")
    for name in ("exits", "exits_async"):
        assert re.fullmatch(r"SystemExit: enough \(user\.py:\d+\)", (await call_user(host, name)).error or "")
    assert (await call_user(host, "quick")).value == before.value


async def test_timed_out_calls_keep_their_log_and_other_calls_continue(hosted: Hosted) -> None:
    async def calls(limit_s: float) -> tuple[HostReply, HostReply]:
        host = hosted(BAD)
        pid = (await call_user(host, "quick")).value
        late, also_late, slow = await asyncio.gather(
            call_user(host, "loops", timeout_s=limit_s),
            call_user(host, "sleeps", timeout_s=limit_s),
            call_user(host, "slow"),
        )
        assert slow.value == pid
        return late, also_late

    late, also_late = await with_longer_limits(calls, lambda replies: all(reply.log for reply in replies))
    assert late.timed_out
    assert also_late.timed_out
    assert (late.log, also_late.log) == ("began\n", "began\n")


async def test_process_is_replaced_after_too_many_abandoned_threads(hosted: Hosted) -> None:
    host = hosted(BAD)
    pid = (await call_user(host, "quick")).value
    slow = asyncio.create_task(call_user(host, "slow"))
    loops = (
        with_longer_limits(lambda limit_s: call_user(host, "loops", timeout_s=limit_s), lambda reply: reply.log)
        for _ in range(MOST_ABANDONED)
    )
    await asyncio.gather(*loops)
    assert (await call_user(host, "quick")).value != pid
    assert (await slow).value == pid  # calls in the old process finish there
    await until(lambda: not alive(int(str(pid))), "its end")


async def test_blocking_async_function_times_out_and_others_continue(hosted: Hosted) -> None:
    host = hosted(BAD)
    await call_user(host, "quick")
    late, slow = await asyncio.gather(call_user(host, "holds_up", timeout_s=0.3), call_user(host, "slow_async"))
    assert late.timed_out
    assert slow.error is None


async def test_log_keeps_its_last_20000_characters(hosted: Hosted) -> None:
    log = (await call_user(hosted(BAD), "noisy")).log
    assert len(log) == 20_000
    assert log.endswith("29998\n29999\n")


async def test_close_ends_the_process_and_its_subprocesses(hosted: Hosted) -> None:
    host = hosted(BAD)
    pids = (await call_user(host, "starts")).value
    await host.close()
    assert isinstance(pids, list)
    await asyncio.to_thread(wait_until_ended, [int(str(pid)) for pid in pids])


DAEMON = """
import os, subprocess, sys
AGAIN = "import os, sys, time; os.setsid(); os.fork() and os._exit(0); print(os.getpid(), flush=True); time.sleep(3600)"
def starts(input):
    with subprocess.Popen([sys.executable, "-S", "-E", "-c", AGAIN], stdout=subprocess.PIPE) as started:
        return int(started.stdout.readline())
def environment(input): return {name: value for name, value in os.environ.items() if name in input}
"""


async def test_close_ends_daemons_whose_parents_have_exited(hosted: Hosted) -> None:
    host = hosted(DAEMON)
    pid = int(str((await call_user(host, "starts")).value))
    assert alive(pid)
    await host.close()
    await asyncio.to_thread(wait_until_ended, [pid])


async def test_component_environment_excludes_internal_variables(
    hosted: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = (
        "EVALSCRIBE_STORE_URL",
        "GITHUB_TOKEN",
        "GH_TOKEN",
        "CONVEX_DEPLOY_KEY",
        "ACTIONS_RUNTIME_TOKEN",
        "GITHUB_ENV",
    )
    theirs = ("OPENAI_API_KEY", "GITHUB_SHA")
    for name in (*ours, *theirs):
        monkeypatch.setenv(name, "told")
    environment = (await call_user(hosted(DAEMON), "environment", [*ours, *theirs])).value
    assert environment == dict.fromkeys(theirs, "told")


def wait_until_ended(pids: Sequence[int]) -> None:
    """Wait until all processes have ended; on their own they would sleep for an hour."""
    wait_until(lambda: not any(alive(pid) for pid in pids), "the end of what was started")


def test_process_and_its_subprocesses_end_when_the_parent_is_killed(tmp_path: Path) -> None:
    (tmp_path / "user.py").write_text(BAD)
    program = f"""
import asyncio
from pathlib import Path
from evalscribe.experiments.python_host import PythonHost

async def main():
    host = PythonHost(Path({str(tmp_path)!r}), 2)
    reply = await host.call("user:starts", "component", {{"input": 1, "context": {{}}}}, 20)
    print(*reply.value, flush=True)
    await host.call("user:holds_up", "component", {{"input": 1, "context": {{}}}}, 60)

asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert all(alive(pid) for pid in pids)
        parent.send_signal(signal.SIGKILL)
    wait_until_ended(pids)


async def test_user_modules_do_not_shadow_standard_modules(tmp_path: Path) -> None:
    for name in ("json", "asyncio", "http", "plain"):
        (tmp_path / f"{name}.py").write_text(f"NAME = 'the user''s {name}'\n")
    (tmp_path / "user.py").write_text("def fn(input):\n    import plain\n    return plain.NAME\n")
    host = PythonHost(tmp_path, 1)
    assert (await call_user(host, "fn")).value == "the users plain"
    await host.close()


async def test_decorated_scorer_is_described_and_called(hosted: Hosted) -> None:
    host = hosted(
        "from evalscribe import ScorerRequest, scorer\n\n"
        "@scorer(name='polite', depends_on=('json_valid',), config={'word': 'please'})\n"
        "def fn(request: ScorerRequest) -> bool:\n    return 'please' in str(request.output)\n\n"
        "def bare(request): pass\n"
    )
    described = await host.check("user:fn", "scorer")
    assert (described.name, described.depends_on, described.config) == ("polite", ("json_valid",), {"word": "please"})
    payload: Any = {"input": 1, "output": "yes please", "config": {}}
    reply = await host.call("user:fn", "scorer", payload, 20)
    assert isinstance(reply.value, dict)
    assert (reply.value["status"], reply.value["passed"]) == ("ok", True)


@pytest.mark.benchmark
async def test_many_calls_stay_below_their_cpu_limit(hosted: Hosted, tmp_path: Path) -> None:
    """The limit is generous because machines differ; tests/benchmarks measures the actual cost."""
    host = hosted("def fn(input): return input")
    await call_user(host, "fn")
    with cpu_below(500 * 0.002):
        await asyncio.gather(*(call_user(host, "fn", {"text": "x" * 500}) for _ in range(500)))


async def test_ended_child_is_not_alive_and_ends_twice_safely(tmp_path: Path) -> None:
    (tmp_path / "user.py").write_text(BAD)
    child = await ChildProcess.start(tmp_path, 1, os.environ)
    await child.load("user:quick", "component")
    await child.end()
    await child.end()
    assert not child.alive


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
