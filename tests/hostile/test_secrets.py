"""Keys of every kind in every field of a run reach neither the workspace, nor the output, nor a bug log."""

import base64
import json
import random
import sqlite3
import string
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from support.convex_server import RUN_ID as SERVED_RUN
from support.convex_server import Deployment, debug, success, summary
from support.hostile_runs import Command, evalscribe, failed, payload, snapshot

RANDOM = random.Random(7)


def chars(count: int) -> str:
    """Random letters and digits, at least one of each."""
    return "".join(RANDOM.choices(string.ascii_letters + string.digits, k=count - 2)) + "7a"


CORES = {
    kind: chars(40) for kind in ("anthropic", "openai", "github", "convex", "jwt", "url", "assigned", "bearer", "pem")
}
KEYS = {
    "anthropic": "sk-ant-" + "api03-" + CORES["anthropic"],
    "openai": "sk-" + "proj-" + CORES["openai"],
    "github": "ghp_" + CORES["github"],
    "convex": "prod:" + "happy-animal-123|" + CORES["convex"],
    "jwt": "eyJhbGciOiJI." + "eyJzdWIiOiIx." + CORES["jwt"],
    "url": "https://user:" + CORES["url"] + "@a.example/x",
    "assigned": 'API_TOKEN="' + CORES["assigned"] + '"',
    "bearer": "Authorization: Bearer " + CORES["bearer"],
    "pem": "-----BEGIN " + "PRIVATE KEY-----\n" + CORES["pem"] + "\n-----END PRIVATE KEY-----",
}
ALL = " ; ".join(KEYS.values())


def leaking(folder: Path) -> Path:
    """A run with every key in every field."""
    content = payload(failed("e1", name="n"))
    content["eval"] |= {"failedStep": {"name": "tests", "failureReason": ALL}, "task": ALL}
    content["steps"] = [{"name": f"tests {ALL}", "status": {"kind": "failed", "failureReason": ALL}}]
    log = f"=== Eval: cat/n ===\n[error] tests: AssertionError: {ALL}\n{json.dumps(ALL)}\n"
    content["outputFiles"] = {"run.log": log, "a.py": ALL, **{f"{key}.py": key for key in KEYS.values()}}
    content["evalSourceFiles"] = {"TASK.txt": ALL, "GAPS.txt": ALL, "answer/a.py": ALL, "test_a.py": ALL, ALL: ALL}
    named = {f"k{n}": payload(failed(f"k{n}", key, key)) for n, key in enumerate(KEYS.values())}
    for one in named.values():
        one["eval"]["failedStep"] = {"name": ALL, "failureReason": ALL}
    status = {"kind": "failed", "failureReason": ALL}
    return snapshot(folder, {"e1": content, **named}, model=ALL, provider=ALL, experiment=ALL, status=status)


def everything(folder: Path, *outputs: bytes) -> bytes:
    """All names and contents below a folder, with the bodies in the store decompressed."""
    paths = list(folder.rglob("*"))
    contents = [path.read_bytes() for path in paths if path.is_file()]
    stored = [zlib.decompress(body) for path in paths if path.name == "store.db" for body in bodies(path)]
    assert stored
    return b"\n".join([*outputs, *contents, *stored, *(str(path).encode() for path in paths)])


def bodies(store: Path) -> Iterator[bytes]:
    with closing(sqlite3.connect(store)) as opened:
        for table in ("runs", "evidence", "texts", "verdicts"):
            yield from (body for (body,) in opened.execute(f"SELECT body FROM {table}"))


def leaked_keys(folder: Path, *outputs: bytes) -> list[str]:
    """Kinds of keys that occur in the folder or the outputs, plain or in base64."""
    text = everything(folder, *outputs)
    return [
        kind for kind, core in CORES.items() if core.encode() in text or base64.b64encode(core.encode())[:40] in text
    ]


def test_no_key_in_any_field_reaches_output_or_files(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = leaking(tmp_path / "given" / "run")
    work = tmp_path / "work"
    work.mkdir()
    first = evalscribe(work, "analyze", str(run), "--judge", "rules", TMPDIR=str(work))
    monkeypatch.setattr("tempfile.tempdir", str(work))
    others = (
        ("analyze", str(run), "--judge", "rules", "--json", "--fresh"),
        ("explain", str(run), "e1", "--judge", "rules"),
        ("explain", str(run), "none", "--judge", "rules"),
        ("fetch", str(run), "-o", "copy"),
        ("reports", "list"),
    )
    ended = [first, *(command(work, *other) for other in others)]
    assert [done.returncode for done in ended] == [0, 0, 0, 66, 0, 0]
    assert leaked_keys(work, *(stream for done in ended for stream in (done.stdout, done.stderr))) == []
    assert (work / "copy" / "debug" / "e1.json").read_text().count("[redacted:") > 50


@pytest.mark.parametrize("key", ["prod:happy-animal-123|" + chars(40), "odd|key+with/" + chars(30)])
def test_deploy_key_echoed_by_the_deployment_is_stored_nowhere(
    key: str, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = key.partition("|")[2]
    listed = summary(["e1"])
    listed["run"]["model"] = f"m {key}"
    evidence = debug("e1", outputFiles={"a.py": f"x = {key!r}\n{core}\n", "run.log": key})
    server = Deployment()
    server.answer = lambda path, _: success(listed if path.endswith("query") else evidence)
    monkeypatch.setenv("CONVEX_DEPLOY_KEY", key)
    done = command(tmp_path, "analyze", SERVED_RUN, "--judge", "rules", "--deployment", server.url)
    server.close()
    assert done.returncode == 0, done.stderr
    assert core.encode() not in everything(tmp_path, done.stdout, done.stderr)


def test_bug_log_contains_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from evalscribe.cli.exits import exit_code

    def command() -> None:
        raise RuntimeError(ALL)

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    # A store that another test of this process opened and damaged would be reported as the reason.
    monkeypatch.setattr("evalscribe.store.database._opened", {})
    assert exit_code(command) == 70
    (log,) = tmp_path.glob("evalscribe-bug-*.log")
    assert "redacted" in log.read_text()
    assert not any(core in log.read_text() for core in CORES.values())
