"""Apply a recommendation of the sample, run the suite again, and check whether the report says that it held."""

import json
import shutil
from pathlib import Path

import pytest

from evalscribe.model.finding import FollowUp
from evalscribe.model.report import Report
from evalscribe.sample import outputs_folder, snapshot_folder
from sample.grading import grade
from sample.remake import eval_id, silent_index
from support.command import InProcessCommand, Workspace
from support.messages_server import MessagesServer
from support.report_pages import report_at
from support.requirements import skip_or_fail
from support.suite_repository import SuiteRepository, patch

EVAL = "style/002-loop"
BRANCH = "evalscribe/R2-smp7q2ka"


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Workspace:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return Workspace(folder, InProcessCommand(folder, monkeypatch, capsys))


@pytest.fixture
def changed_suite(workspace: Workspace, tmp_path: Path) -> SuiteRepository:
    """The suite with R2 of its report applied and merged."""
    suite = SuiteRepository(tmp_path / "suite")
    workspace.run("analyze", "sample", "--judge", "rules", "--date", "2026-11-02", "--quiet")
    with MessagesServer(patch()) as server:
        access = {
            "ANTHROPIC_API_KEY": "key",
            "ANTHROPIC_BASE_URL": server.url,
            "EVALSCRIBE_JUDGE": "anthropic/claude-opus-5-5",
        }
        workspace.run("apply", "smp7q2ka", "R2", "--repo", suite.root, **access)
        workspace.run("apply", "smp7q2ka", "R2", "--repo", suite.root, "--yes", **access)
    suite.git("merge", "-q", BRANCH)
    return suite


def another_run(folder: Path, *, without: str | None) -> Path:
    """Copy the recorded run under another id; the eval `without` is no longer among its failures."""
    shutil.copytree(snapshot_folder(), folder)
    file = folder / "failed_evals.json"
    run = json.loads(file.read_text())
    run["run"]["_id"] = "smp9m41tc6e2w8ra"
    if without is not None:
        run["failedEvals"] = [one for one in run["failedEvals"] if one["evalPath"] != without]
        run["passedCount"], run["failedCount"] = run["passedCount"] + 1, run["failedCount"] - 1
        (folder / "debug" / f"{eval_id(without)}.json").unlink()
    file.write_text(json.dumps(run))
    return folder


def next_report(workspace: Workspace, run: Path) -> Report:
    workspace.run("analyze", run, "--judge", "rules", "--quiet")
    (path,) = [path for path in workspace.reports if path.name.startswith("smp9m41t")]
    return report_at(path)


def follow_up_of(report: Report, eval: str) -> FollowUp:
    (follow_up,) = [one for one in report.follow_ups if eval in one.evals]
    return follow_up


def test_applied_change_makes_the_eval_pass_and_is_reported_as_held(
    workspace: Workspace, changed_suite: SuiteRepository, tmp_path: Path
) -> None:
    work = tmp_path / "work" / EVAL
    with silent_index() as index:
        graded = grade(EVAL, outputs_folder() / EVAL, work, index, changed_suite.suite)
    assert graded.failed is None, graded.log
    report = next_report(workspace, another_run(tmp_path / "run", without=EVAL))
    follow_up = follow_up_of(report, EVAL)
    assert (follow_up.outcome, follow_up.report) == ("held", "smp7q2ka_2026-11-02.md")
    assert follow_up.text.startswith("R2, Make `PLW2901` a warning: `ruff.toml`")
    assert EVAL in report.resolved


def test_change_is_reported_as_not_held_when_the_eval_fails_again(
    workspace: Workspace, changed_suite: SuiteRepository, tmp_path: Path
) -> None:
    report = next_report(workspace, another_run(tmp_path / "run", without=None))
    assert follow_up_of(report, EVAL).outcome == "did not hold"
    (entry,) = [entry for entry in report.entries if EVAL in entry.paths]
    assert entry.recurrence.kind == "fix-in-doubt"


def test_change_is_proved_before_it_is_applied(workspace: Workspace, tmp_path: Path) -> None:
    if shutil.which("bwrap") is None:
        skip_or_fail("bubblewrap")
    suite = SuiteRepository(tmp_path / "suite")
    workspace.run("analyze", "sample", "--judge", "rules", "--date", "2026-11-02", "--quiet")
    with MessagesServer(patch()) as server:
        access = {
            "ANTHROPIC_API_KEY": "key",
            "ANTHROPIC_BASE_URL": server.url,
            "EVALSCRIBE_JUDGE": "anthropic/claude-opus-5-5",
        }
        shown = workspace.run("apply", "smp7q2ka", "R2", "--repo", suite.root, "--prove", **access).out
        assert "Proved: with this change 1 eval would pass." in shown
        assert (
            f"  {EVAL}: with this change the reference passes 3 of 3 times and the output passes 3 of 3 times" in shown
        )
        workspace.run("apply", "smp7q2ka", "R2", "--repo", suite.root, "--yes", **access)
    report = next(path for path in workspace.reports if path.name.startswith("smp7q2ka"))
    assert ", proved by replay, commit `" in report.read_text()
    workspace.run("analyze", "sample", "--judge", "rules", "--quiet")
    assert "+1 (proved)" in report.read_text()
    workspace.run("prove", "sample", EVAL)
    assert "+1 (proved)" in report.read_text(), "another proof keeps what was tried"
    assert "reproduced by replay" in report.read_text()
    follow_up = follow_up_of(next_report(workspace, another_run(tmp_path / "run", without=EVAL)), EVAL)
    assert follow_up.outcome == "held"
    assert "proved by replay" in follow_up.text
