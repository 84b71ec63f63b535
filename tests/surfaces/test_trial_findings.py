"""Trials of a task share a finding, keep their own verdicts, and are corrected together."""

import json
import re
import shutil
from pathlib import Path

import pytest

from support.command import InProcessCommand, Workspace
from support.report_clones import Clone, clone_of_server

TRIALS = ("region-revenue#1", "region-revenue#2")
NOTE = "the task does not say which orders count"
RULES = ("--judge", "rules", "--no-discuss")


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    new_clone = clone_of_server(tmp_path)
    (new_clone.folder / ".gitignore").write_text(".evalscribe\njobs\n")
    return new_clone


@pytest.fixture
def jobs(clone: Clone, real_data: Path) -> Path:
    """Jobs in which trials 1 and 2 of `region-revenue` got different wrong numbers."""
    jobs = Path(shutil.copytree(real_data / "formats" / "harbor" / "jobs", clone.folder / "jobs"))
    second = next(folder for folder in jobs.glob("model/region-revenue__*") if started(folder).endswith("2"))
    changed = [path for path in (second / "verifier").iterdir() if replace(path, "2682.72", "999.99")]
    assert changed
    return jobs


def started(folder: Path) -> str:
    """Return a trial's name with its number; trials are numbered by start time."""
    task = folder.name.partition("__")[0]
    begun = {
        path: json.loads((path / "result.json").read_text())["started_at"] for path in folder.parent.glob(f"{task}__*")
    }
    return f"{task}#{sorted(begun, key=lambda path: begun[path]).index(folder) + 1}"


def replace(path: Path, old: str, new: str) -> bool:
    text = path.read_text()
    path.write_text(text.replace(old, new))
    return old in text


@pytest.fixture
def workspace(
    clone: Clone, jobs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Workspace:
    workspace = Workspace(clone.folder, InProcessCommand(clone.folder, monkeypatch, capsys))
    workspace.run("analyze", jobs / "model", *RULES, "--date", "2026-11-23")
    clone.git("add", "-A")
    clone.commit_staged("bot", "2026-11-23")
    return workspace


def findings(workspace: Workspace) -> dict[str, dict[str, object]]:
    """Return the findings in the report's data file, by eval."""
    return {one["eval"]: one for one in json.loads(workspace.report.with_suffix(".json").read_text())["findings"]}


def test_each_trial_keeps_its_own_verdict(workspace: Workspace, jobs: Path) -> None:
    page = workspace.report.read_text()
    part = page.partition("### 2. ")[2].partition("\n### ")[0]
    assert part.startswith("`region-revenue`, trials 1, 2 of 3\n**MODEL_FAULT** · ")
    first, second = re.findall(r"^- Trial \d: .*$", part, re.MULTILINE)
    assert first.startswith("- Trial 1: "), part
    assert "2682.72" in first
    assert "999.99" not in first
    assert "999.99" in second
    assert "2682.72" not in second

    workspace.run("import", jobs / "model")
    query = "SELECT number, path, error FROM findings ORDER BY number, path"
    rows = json.loads(workspace.run("sql", query, "--json").out)["rows"]
    assert [number for number, *_ in rows] == [1, 1, 1, 2, 2, 3, 4]
    by_eval = findings(workspace)
    for number, path, error in rows:
        assert (number, error) == (by_eval[path]["n"], by_eval[path]["error"])
        assert f"Error   {error}" in workspace.run("explain", jobs / "model", path, "--judge", "rules").out


def correct_by_command(workspace: Workspace) -> None:
    output = workspace.run("review", "label", workspace.report, "2", "AMBIGUOUS_TASK", "--note", NOTE).out
    assert "Finding 2, `region-revenue`, trials 1, 2 of 3: MODEL_FAULT → AMBIGUOUS_TASK" in output


def correct_by_hand(workspace: Workspace) -> None:
    head, heading, rest = workspace.report.read_text().partition("### 2. ")
    line = re.compile(r"^\*\*MODEL_FAULT\*\*(.*)$", re.MULTILINE)
    rest = line.sub(rf"**AMBIGUOUS_TASK**\1\nReviewer: {NOTE}", rest, count=1)
    workspace.report.write_text(head + heading + rest)


@pytest.mark.parametrize("correct", [correct_by_command, correct_by_hand])
def test_correction_of_several_trials_is_kept(workspace: Workspace, clone: Clone, jobs: Path, correct: object) -> None:
    assert callable(correct)
    correct(workspace)
    clone.git("add", "-A")
    clone.commit_staged("Ada", "2026-11-24")
    clone.git("push", "-q")
    synced = json.loads(workspace.run("review", "sync", "--json").out)
    assert synced["new"] == len(TRIALS), synced

    again = workspace.run("analyze", jobs / "model", *RULES, "--full").out
    assert "**AMBIGUOUS_TASK** · test_revenues · judge said MODEL_FAULT: " in again
    assert f"Reviewer: {NOTE}" in again
    assert "No longer among the failures" not in again
    assert "2 by a reviewer, 3 certain, 2 uncertain" in again
    by_eval = findings(workspace)
    assert [by_eval[path]["classification"] for path in TRIALS] == ["AMBIGUOUS_TASK", "AMBIGUOUS_TASK"]
    assert by_eval["region-revenue#3"]["classification"] == "MODEL_FAULT"
    workspace.run("reports", "check")

    later = Path(shutil.copytree(jobs / "model", jobs / "later"))
    for path in (later / "result.json", *later.glob("*/result.json")):
        path.write_text(path.read_text().replace("2026-11-22", "2026-11-25"))
        replace(path, "c70ffda2", "d81ffda2")
    workspace.run("analyze", later, *RULES, "--date", "2026-11-25")
    (newer,) = (path.read_text() for path in workspace.reports if path.name.startswith("d81ffda2"))
    assert "repeat of 2026-11-23" in newer


def test_trial_analysed_alone_is_not_a_repeat_of_itself(workspace: Workspace, jobs: Path) -> None:
    one = next(jobs.glob("model/region-revenue__*"))
    output = workspace.run("analyze", one, *RULES, "--full").out
    assert "1 of 1 eval failed" in output
    assert "repeat" not in output
    assert "before" not in output.partition("## Patterns")[2]
