"""A recommendation of the sample becomes a change, the change another run, and the next report says whether it held."""

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
def changed(workspace: Workspace, tmp_path: Path) -> SuiteRepository:
    """The suite after R2 of its report was applied; the change is merged."""
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
    """The recorded run under another id, `without` an eval that passes now."""
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


def about(report: Report, eval: str) -> FollowUp:
    (found,) = [one for one in report.follow_ups if eval in one.evals]
    return found


def test_what_was_agreed_to_lets_the_eval_pass_and_the_next_report_says_that_it_held(
    workspace: Workspace, changed: SuiteRepository, tmp_path: Path
) -> None:
    work = tmp_path / "work" / EVAL
    with silent_index() as index:
        graded = grade(EVAL, outputs_folder() / EVAL, work, index, changed.suite)
    assert graded.failed is None, graded.log
    report = next_report(workspace, another_run(tmp_path / "run", without=EVAL))
    held = about(report, EVAL)
    assert (held.outcome, held.report) == ("held", "smp7q2ka_2026-11-02.md")
    assert held.text.startswith("R2, Make `PLW2901` a warning: `ruff.toml`")
    assert EVAL in report.resolved


def test_where_the_eval_fails_again_it_did_not_hold(
    workspace: Workspace, changed: SuiteRepository, tmp_path: Path
) -> None:
    report = next_report(workspace, another_run(tmp_path / "run", without=None))
    assert about(report, EVAL).outcome == "did not hold"
    (entry,) = [entry for entry in report.entries if EVAL in entry.paths]
    assert entry.recurrence.kind == "fix-in-doubt"


def test_a_change_is_proved_before_it_is_agreed_to(workspace: Workspace, tmp_path: Path) -> None:
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
    held = about(next_report(workspace, another_run(tmp_path / "run", without=EVAL)), EVAL)
    assert held.outcome == "held"
    assert "proved by replay" in held.text
