"""Snapshots of runs in which any field can be an attack, and a command that reads them in its own process."""

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from support.fork_server import fork_server
from support.waiting import PATIENCE_S

RUN_ID = "jn7hostile0a4xxa9s37nhh83rxw913ph"
Command = Callable[..., subprocess.CompletedProcess[bytes]]
LOG = "=== Eval: {path} ===\n[error] tests: AssertionError: expected 1 to be 2\n"


def failed(eval_id: str, category: str = "cat", name: str = "task", **changes: object) -> dict[str, Any]:
    step = {"name": "tests", "failureReason": "Tests failed"}
    path = f"{category}/{name}"
    entry = {"_id": eval_id, "category": category, "name": name, "evalPath": path, "failedStep": step}
    return {**entry, **changes}


def payload(entry: Mapping[str, Any], **changes: object) -> dict[str, Any]:
    """Return the payload of one failed eval. `changes` replaces parts of it."""
    status = {"kind": "failed", "failureReason": "Tests failed", "outputStorageId": "kg29"}
    return {
        "eval": {**entry, "task": "Write a.py so that f() returns 2.\n", "status": status},
        "evalSourceFiles": {
            "TASK.txt": "Write a.py so that f() returns 2.\n",
            "test_a.py": "def test_a():\n    assert f() == 2\n",
            "answer/a.py": "def f():\n    return 2\n",
        },
        "outputFiles": {"a.py": "def f():\n    return 1\n", "run.log": LOG.format(path=entry["evalPath"])},
        "steps": [{"name": "tests", "status": {"kind": "failed", "failureReason": "Tests failed"}}],
        **changes,
    }


def summary(entries: list[dict[str, Any]], run: Mapping[str, object] | None = None) -> dict[str, Any]:
    header = {"_id": RUN_ID, "provider": "example", "model": "m-1", "experiment": "default"}
    count = len(entries)
    return {
        "run": {**header, "status": {"kind": "completed"}, **(run or {})},
        "failedEvals": entries,
        "passedCount": 5,
        "failedCount": count,
        "totalEvals": 5 + count,
    }


def snapshot(folder: Path, payloads: Mapping[str, dict[str, Any]] | None = None, **run: object) -> Path:
    """Write a snapshot with these evals and return its folder.

    Each eval is listed as its payload describes it. By default, the snapshot has a single ordinary eval.
    """
    payloads = {"e1": payload(failed("e1"))} if payloads is None else payloads
    (folder / "debug").mkdir(parents=True)
    listed = []
    for eval_id, content in payloads.items():
        known = {key: content["eval"][key] for key in ("category", "name", "evalPath", "failedStep")}
        listed.append({"_id": eval_id, **known})
        (folder / "debug" / f"{eval_id}.json").write_text(json.dumps(content))
    (folder / "failed_evals.json").write_text(json.dumps(summary(listed, run)))
    return folder


def evalscribe(folder: Path, *arguments: str | bytes, **environ: str) -> subprocess.CompletedProcess[bytes]:
    """Run the evalscribe command in a folder."""
    program = ["-m", "evalscribe", *arguments]
    return fork_server.run(program, folder, {**os.environ, **environ}, timeout=PATIENCE_S, text=False)


def analyze_snapshot(command: Command, folder: Path, run: Path) -> tuple[dict[str, Any], str]:
    """Return the JSON document of an analysis by rules, and the text of its report."""
    done = command(folder, "analyze", str(run), "--judge", "rules", "--json", "--quiet")
    assert done.returncode == 0, done.stderr.decode()
    said = json.loads(done.stdout)
    return said, Path(said["report_path"]).read_text()


ESCAPES = "\x1b]0;pwned\x07\x1b[2J\x9b31m\x7f\u202e\u2066\x08"
SHELL = "$(touch pwned);`touch pwned`'\"&&touch pwned"


def hostile(folder: Path) -> Path:
    """Write a snapshot with escape codes in every field of the run and its evidence."""
    content = payload(failed("e1", f"c{ESCAPES}", f"n{ESCAPES} {SHELL}"))
    content["eval"]["failedStep"] = {"name": f"s{ESCAPES}", "failureReason": ESCAPES * 3}
    content["steps"] = [{"name": f"s{ESCAPES}", "status": {"kind": "failed", "failureReason": ESCAPES}}]
    log = f"=== Eval: {content['eval']['evalPath']} ===\n[error] s: {ESCAPES} AssertionError: {ESCAPES}\n"
    content["outputFiles"] = {f"a{ESCAPES}.py": f"x = '{ESCAPES}'\n", "run.log": log}
    content["evalSourceFiles"] = {
        "TASK.txt": ESCAPES,
        f"answer/a{ESCAPES}.py": f"y = '{ESCAPES}'\n",
        "GAPS.txt": ESCAPES,
    }
    status = {"kind": "failed", "failureReason": ESCAPES}
    unread = payload(failed("e2", name=f"u{ESCAPES}"))
    run = snapshot(folder, {"e1": content, "e2": unread}, model=f"m{ESCAPES}", experiment=ESCAPES, status=status)
    (run / "debug" / "e2.json").write_text(json.dumps({"error": ESCAPES}))
    return run
