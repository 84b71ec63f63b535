"""A killed import leaves its run marked as incomplete until an import of the same file ends."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from evalscribe.collections.importing import MOST_RECORDS
from support.command import InProcessCommand

EVALS = MOST_RECORDS + 20
RUN = {"id": "part-1", "provider": "example", "model": "m", "experiment": "desk"}
OTHER = {"id": "whole-1", "provider": "example", "model": "n", "experiment": "desk"}
IMPORTS = """
import asyncio, sys
from pathlib import Path
from evalscribe.collections.importing import import_file
from evalscribe.model.rubric import Collection
from evalscribe.sources.address import RunOverrides
from evalscribe.sources.formats import open_records
from evalscribe.workspace import Workspace

def wait(evals, progress):
    print(evals, flush=True)
    sys.stdin.read()

with Workspace() as workspace:
    records = open_records(Path("part.jsonl"), RunOverrides())
    desk = Collection(id="desk", name="desk")
    asyncio.run(import_file(workspace.store.runs, workspace.store.collections, records, desk, wait))
"""
"""An import that reports its progress after each batch and then waits until its input ends."""


def write(path: Path, run: dict[str, str], evals: int = EVALS) -> None:
    """Write a run with random reasons, so that a truncated gzip file still has a readable beginning."""
    lines = []
    for n in range(evals):
        outcome = {"status": "failed", "reason": os.urandom(500).hex()}
        lines.append({"eval": {"id": f"{run['id']}-{n}", "category": "c", "name": f"n{n}", **outcome}})
    path.write_text("".join(f"{json.dumps(line)}\n" for line in ({"run": run}, *lines)))


@pytest.fixture
def killed(inside: InProcessCommand) -> InProcessCommand:
    """A workspace whose import was killed after the first of two batches."""
    write(inside.folder / "part.jsonl", RUN)
    command = [sys.executable, "-c", IMPORTS]
    with subprocess.Popen(command, cwd=inside.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"%d\n" % MOST_RECORDS
        process.kill()
    return inside


def status(inside: InProcessCommand) -> tuple[str, int]:
    query = (
        "SELECT r.status, count(*) FROM runs r JOIN agent_runs a ON a.run_id = r.id WHERE r.id = 'part-1' GROUP BY 1"
    )
    (row,) = json.loads(inside.run("sql", query, "--collection", "desk", "--json").out)["rows"]
    return row[0], row[1]


def test_killed_import_marks_its_run_incomplete_until_imported_again(killed: InProcessCommand) -> None:
    assert status(killed) == ("importing", MOST_RECORDS)
    assert "INCOMPLETE: its import has not completed" in killed.run("collections", "show", "desk").out
    page = killed.run("analyze", "part-1", "--judge", "rules", code=65).out
    assert "Only a part of the run was imported" in page
    assert "(its import has not completed" in page
    write(killed.folder / "whole.jsonl", OTHER, 3)
    compared = killed.run("compare", "part-1", "whole.jsonl", "--judge", "rules", "--no-report").out
    assert "is incomplete: its import has not completed" in compared

    done = killed.run("import", "part.jsonl", "--collection", "desk").out
    assert f"20 new, {MOST_RECORDS} same" in done
    assert status(killed) == ("completed", EVALS)
    assert "INCOMPLETE" not in killed.run("collections", "show", "desk").out
    page = killed.run("analyze", "part-1", "--judge", "rules").out
    assert "Only a part" not in page


def test_truncated_file_leaves_its_run_marked_incomplete(inside: InProcessCommand) -> None:
    write(inside.folder / "part.jsonl", RUN)
    packed = gzip.compress((inside.folder / "part.jsonl").read_bytes())
    (inside.folder / "part.jsonl").write_bytes(packed[:-60])
    inside.run("import", "part.jsonl", "--collection", "desk", code=65)
    assert status(inside)[0] == "importing"
    (inside.folder / "part.jsonl").write_bytes(packed)
    inside.run("import", "part.jsonl", "--collection", "desk")
    assert status(inside) == ("completed", EVALS)


def test_partly_imported_run_without_failures_is_not_reported_as_passed(inside: InProcessCommand) -> None:
    run = {**RUN, "status": "importing"}
    passed = {"eval": {"id": "e0", "category": "c", "name": "n", "status": "passed"}}
    (inside.folder / "part.jsonl").write_text(f"{json.dumps({'run': run})}\n{json.dumps(passed)}\n")
    inside.run("import", "part.jsonl", "--collection", "desk")
    assert "Only a part of the run was imported" in inside.run("analyze", "part-1", "--judge", "rules", code=65).out


def test_complete_import_is_not_marked_incomplete(inside: InProcessCommand) -> None:
    write(inside.folder / "part.jsonl", RUN)
    inside.run("import", "part.jsonl", "--collection", "desk")
    assert status(inside) == ("completed", EVALS)
