"""The real runs as evidence, for tests and benchmarks."""

import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evalscribe.model.evidence import Evidence
from evalscribe.sources.address import Links
from evalscribe.sources.convex_payload import decode_evidence, decode_run
from support.fork_server import fork_server
from support.waiting import PATIENCE_S

RECORDED, CURRENT = "convex-runs", "convex-runs-current"
"""Folders with the six runs: as they were recorded, and as the current runner would have written them."""


def run_folders(data: Path, shape: str = RECORDED) -> list[Path]:
    return sorted(folder for folder in (data / shape).iterdir() if (folder / "failed_evals.json").exists())


def derivable(folder: Path) -> dict[str, bool]:
    """Return whether a run in the current form contains the evidence for each label.

    Keys are eval paths; `*` stands for all other evals.
    """
    told = json.loads((folder.parent / "derivable.json").read_text())[folder.name]
    return {path: known["derivable"] for path, known in told.items()}


def gold(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the maintainers' verdicts, keyed by eval id."""
    failures = json.loads((folder / "gold.json").read_text())["failures"]
    return {failure["evalId"]: failure for failure in failures}


def analysed_by_rules(data: Path, temporary: pytest.TempPathFactory) -> Path:
    """Analyse the recorded runs once for all workers. Return the folder with the store and the reports.

    Copy the folder before you change anything in it.
    """
    own = temporary.getbasetemp()
    shared = own.parent if os.environ.get("PYTEST_XDIST_WORKER") else own
    folder = shared / "real-runs"
    with open(shared / "real-runs.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            making = shared / "real-runs-in-the-making"
            making.mkdir(exist_ok=True)
            for run in run_folders(data):
                command = ["-m", "evalscribe", "analyze", str(run), "--judge", "rules", "--quiet"]
                fork_server.run(command, making, timeout=PATIENCE_S).check_returncode()
            making.rename(folder)
    return folder


def payloads(folder: Path) -> Iterator[tuple[str, Evidence]]:
    """Yield the stored payload of each failed eval of a run, and its evidence."""
    for eval in decode_run(json.loads((folder / "failed_evals.json").read_text()), Links()).failures:
        text = (folder / "debug" / f"{eval.id}.json").read_text()
        evidence = decode_evidence(json.loads(text), eval)
        assert isinstance(evidence, Evidence)
        yield text, evidence


def failures(data: Path) -> Iterator[Evidence]:
    """Yield the evidence of every failed eval of every run."""
    for folder in run_folders(data):
        yield from (evidence for _, evidence in payloads(folder))
