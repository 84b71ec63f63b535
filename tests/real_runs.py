"""The real runs as evidence, for tests and benchmarks."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evalscribe.evidence import Document, Evidence
from evalscribe.run import Eval, Step


def run_folders(data: Path) -> list[Path]:
    return sorted(folder for folder in (data / "convex-runs").iterdir() if (folder / "failed_evals.json").exists())


def gold(folder: Path) -> dict[str, dict[str, Any]]:
    failures = json.loads((folder / "gold.json").read_text())["failures"]
    return {failure["evalId"]: failure for failure in failures}


def payloads(folder: Path) -> Iterator[tuple[str, Evidence]]:
    """Each failed eval's payload as stored, and as evidence."""
    for listed in json.loads((folder / "failed_evals.json").read_text())["failedEvals"]:
        text = (folder / "debug" / f"{listed['_id']}.json").read_text()
        yield text, evidence(json.loads(text), listed)


def evidence(payload: dict[str, Any], listed: dict[str, Any]) -> Evidence:
    step = listed.get("failedStep") or {}
    one = Eval(
        id=listed["_id"],
        category=listed["category"],
        name=listed["name"],
        failed_step=step.get("name"),
        reason=step.get("failureReason") or listed.get("failureReason"),
    )
    steps = tuple(
        Step(name=s["name"], status=s["status"]["kind"], error=s["status"].get("failureReason"))
        for s in payload["steps"]
    )
    return Evidence(eval=one, steps=steps, documents=tuple(_documents(payload)))


def _documents(payload: dict[str, Any]) -> Iterator[Document]:
    yield Document(role="task", path="TASK.txt", text=payload["eval"].get("task") or "")
    for path, text in (payload.get("outputFiles") or {}).items():
        yield Document(role="log" if path == "run.log" else "output", path=path, text=text)
    for path, text in (payload.get("evalSourceFiles") or {}).items():
        if path == "TASK.txt":
            continue
        role = "expected" if path.startswith("answer/") else "known_gaps" if path == "GAPS.txt" else "grader"
        yield Document(role=role, path=path, text=text)
