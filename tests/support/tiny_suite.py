"""A suite of five evals with shell graders, and a snapshot of a run of it."""

import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

RUN = {"_id": "tiny0run0000000000000000", "model": "tiny-model", "provider": "tiny", "experiment": "default"}
CONFIG = """\
[replay]
command = "sh {suite}/{eval}/test.sh {attempt}"
suite = "suite"
time_limit = 20
"""
EQUALS = '[ "$(cat answer.txt)" = {0} ] || {{ echo "Error: wants {0}, got $(cat answer.txt)"; exit 1; }}\n'


FLAKY = '[ "$1" -ne 2 ] || { echo "Error: a bad moment"; exit 1; }\n'


class TinyEval(NamedTuple):
    reference: str
    output: str
    grader: str
    said: str
    """Output of the grader in the recorded run."""


EVALS = {
    "sums/001-broken": TinyEval("4", "4", EQUALS.format("5"), "Error: wants 5, got 4"),
    "sums/002-fair": TinyEval("4", "3", EQUALS.format("4"), "Error: wants 4, got 3"),
    "sums/003-flaky": TinyEval(
        "4", "4", '[ "$1" -ne 2 ] || { echo "Error: a bad moment"; exit 1; }\n', "Error: a bad moment"
    ),
    "sums/004-gone": TinyEval("4", "4", EQUALS.format("4"), "Error: disk is away"),
    "sums/005-other": TinyEval("4", "3", 'echo "Error: no such tool"; exit 1\n', "Error: wants 4, got 3"),
}
PROVED = {
    "sums/001-broken": "reference fails",
    "sums/002-fair": "reproduced",
    "sums/003-flaky": "flaky",
    "sums/004-gone": "not reproducible",
    "sums/005-other": "inconclusive",
}


def write(folder: Path, evals: dict[str, TinyEval] | None = None) -> Path:
    """Write the suite, its settings and a run into a folder. Return the folder of the run's snapshot."""
    evals = EVALS if evals is None else evals
    (folder / "evalscribe.toml").write_text(CONFIG)
    run = folder / "run"
    shutil.rmtree(run, ignore_errors=True)
    (run / "debug").mkdir(parents=True)
    for n, (path, one) in enumerate(evals.items()):
        place = folder / "suite" / path
        (place / "answer").mkdir(parents=True, exist_ok=True)
        (place / "answer" / "answer.txt").write_text(one.reference)
        (place / "test.sh").write_text(one.grader)
        (run / "debug" / f"{eval_id(n)}.json").write_text(json.dumps(_payload(n, path, one)))
    (run / "failed_evals.json").write_text(json.dumps(_summary(list(evals))))
    return run


def eval_id(n: int) -> str:
    return f"tiny0eval{n:015d}"


def _summary(paths: list[str]) -> dict[str, Any]:
    return {
        "run": {**RUN, "status": {"kind": "completed", "durationMs": 1000}},
        "totalEvals": len(paths),
        "passedCount": 0,
        "failedCount": len(paths),
        "failedEvals": [
            {
                "_id": eval_id(n),
                "evalPath": path,
                "category": path.split("/")[0],
                "name": path.split("/")[1],
                "failureReason": "tests failed",
                "failedStep": {"name": "tests", "failureReason": "tests failed"},
            }
            for n, path in enumerate(paths)
        ],
    }


def _payload(n: int, path: str, one: TinyEval) -> dict[str, Any]:
    failed = {"kind": "failed", "failureReason": "tests failed"}
    category, name = path.split("/")
    log = f"=== Eval: {path} ===\n[cmd] sh test.sh\n{one.said}\n[error] tests: sh failed\n"
    info = {"_id": eval_id(n), "evalPath": path, "category": category, "name": name}
    return {
        "eval": {**info, "status": failed, "task": "Add."},
        "run": {**RUN, "runId": None, "status": {"kind": "completed"}},
        "steps": [{"name": "tests", "status": failed}],
        "outputFiles": {"answer.txt": one.output, "run.log": log},
        "evalSourceFiles": {"TASK.txt": "Add.", "answer/answer.txt": one.reference, "test.sh": one.grader},
    }
