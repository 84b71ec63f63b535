"""`evalscribe gc` deletes runs that are in no collection, and prints what it deleted."""

import json

import pytest

from evalscribe.model.run import Eval, Run
from evalscribe.sources.export import render_line
from support.command import InProcessCommand
from support.example_records import make_record


@pytest.fixture
def filled(inside: InProcessCommand) -> InProcessCommand:
    run = Run(id="r1", provider="example", model="m", failures=(Eval(id="e", category="", name="e"),))
    lines = [render_line(run), *(render_line(make_record(n, "failed")) for n in range(3))]
    (inside.folder / "runs.jsonl").write_text("\n".join(lines))
    inside.run("import", "runs.jsonl")
    return inside


def test_gc_deletes_runs_in_no_collection(filled: InProcessCommand) -> None:
    assert filled.run("gc").out == "There is nothing to delete.\n"
    filled.run("collections", "remove", "r1")
    would = filled.run("gc", "--dry-run").out
    assert "Would delete evals: 3" in would
    document = json.loads(filled.run("gc", "--json").out)
    assert document["dry_run"] is False
    assert {one["kind"]: one["rows"] for one in document["forgotten"] if one["rows"]} == {
        "runs": 1,
        "evals": 3,
        "transcripts": 3,
        "documents": 3,
        "texts": 1,
    }
    assert filled.run("gc").out == "There is nothing to delete.\n"
    assert filled.run("import", "runs.jsonl").out


def test_gc_keeps_analysed_runs(filled: InProcessCommand) -> None:
    filled.run("analyze", "r1", "--judge", "rules")
    filled.run("collections", "remove", "r1")
    assert filled.run("gc").out == "There is nothing to delete.\n"
