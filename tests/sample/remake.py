"""Regenerate the sample's recorded run: `cd tests && python -m sample.remake [FOLDER]` (default: in the package)."""

import hashlib
import json
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from evalscribe.sample import outputs_folder, snapshot_folder, suite_folder
from sample.grading import TIMED, Graded, given_files, grade

RUN = {"_id": "smp7q2kax0d4m81v", "model": "sample-model-1", "provider": "example", "experiment": "default"}


def eval_paths() -> list[str]:
    """Return the `category/name` of every eval in the suite."""
    return sorted(path.parent.relative_to(suite_folder()).as_posix() for path in suite_folder().glob("*/*/TASK.txt"))


def eval_id(eval_path: str) -> str:
    """Return a stable opaque id, like those of a source."""
    return "ev" + hashlib.sha256(eval_path.encode()).hexdigest()[:22]


@contextmanager
def silent_index() -> Iterator[str]:
    """Yield the URL of a package index that accepts connections but never responds."""
    with socket.create_server(("127.0.0.1", 0), backlog=50) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/simple"


def grade_all(answers: bool = False) -> dict[str, Graded | None]:
    """Grade the outputs or reference answers of every eval; `None` where the model gave no output."""
    with tempfile.TemporaryDirectory() as scratch, silent_index() as index, ThreadPoolExecutor(2) as pool:

        def one(eval_path: str) -> Graded | None:
            files = suite_folder() / eval_path / "answer" if answers else outputs_folder() / eval_path
            return grade(eval_path, files, Path(scratch) / eval_path, index) if files.exists() else None

        return dict(zip(eval_paths(), pool.map(one, eval_paths()), strict=True))


def texts(folder: Path) -> dict[str, str]:
    """Return the text of every file below a folder by relative path."""
    files = (path for path in sorted(folder.rglob("*.*")) if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in files}


def summary(graded: dict[str, Graded | None]) -> dict[str, object]:
    """Return the content of `failed_evals.json`: the run with its failed evals."""
    failed = {path: result.failed for path, result in graded.items() if result and result.failed}
    passed = sum(1 for result in graded.values() if result and not result.failed)
    return {
        "run": {**RUN, "status": {"kind": "completed", "durationMs": 412_000}},
        "totalEvals": len(graded),
        "passedCount": passed,
        "failedCount": len(failed),
        "failedEvals": [
            {
                "_id": eval_id(path),
                "evalPath": path,
                "category": path.split("/")[0],
                "name": path.split("/")[1],
                "failureReason": reason,
                "failedStep": {"name": step, "failureReason": reason},
            }
            for path, (step, reason) in failed.items()
        ],
    }


def debug_info(path: str, result: Graded) -> dict[str, object]:
    """Return the content of `debug/<evalId>.json`: one failed eval."""
    assert result.failed
    source = suite_folder() / path
    given = {file.name: file.read_text("utf-8") for file in given_files(path)}
    notes = {name: text for name, text in texts(source).items() if name.endswith(".txt") or name.startswith("answer/")}
    status = {"kind": "failed", "failureReason": result.failed[1], "durationMs": sum(TIMED[s] for s, _ in result.steps)}
    category, name = path.split("/")
    return {
        "eval": {
            "_id": eval_id(path),
            "evalPath": path,
            "category": category,
            "name": name,
            "status": status,
            "task": notes["TASK.txt"],
        },
        "run": {**RUN, "runId": None, "status": {"kind": "completed", "durationMs": 412_000}},
        "steps": [step(name, reason) for name, reason in result.steps],
        "outputFiles": dict(sorted({**texts(outputs_folder() / path), "run.log": result.log}.items())),
        "evalSourceFiles": dict(sorted({**notes, **given}.items())),
    }


def step(name: str, reason: str | None) -> dict[str, object]:
    status: dict[str, object] = {"kind": "failed", "failureReason": reason} if reason else {"kind": "passed"}
    return {"name": name, "status": {**status, "durationMs": TIMED[name]}}


def snapshot(graded: dict[str, Graded | None]) -> dict[str, str]:
    """Return the text of every file of the recorded run by name."""
    debug = {f"debug/{eval_id(path)}.json": debug_info(path, r) for path, r in graded.items() if r and r.failed}
    files = {"failed_evals.json": summary(graded), **debug}
    return {name: json.dumps(content, indent=1, ensure_ascii=False) + "\n" for name, content in files.items()}


def write(folder: Path) -> None:
    """Replace the recorded run in `folder`."""
    files = snapshot(grade_all())
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "debug").mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text, "utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else snapshot_folder())
