"""Unusual payloads of the current Convex runner through the command line."""

import json
from pathlib import Path

import pytest

from support.command import Workspace

MISSING = {
    "001-single_column_index": "the model's output is no longer stored, nor is run.log",
    "002-userspace_filter": "output files were never stored",
    "003-multicolumn_equality": "the stored output is empty: no file of the model, no run.log",
    "004-range_condition": "run.log was not stored",
    "005-creation_time": "reference answer and grader are not stored",
    "006-three_level_join": "reference answer and grader are not stored; the task's text is not stored",
    "007-aggregation": "3 output files are not stored as text: `convex/lib.mjs`, `public/logo.png`, `yarn.lock`",
}


EARLIER_REPORT = """# Run Analysis: earlier

- **Run**: `jn7aaaaaaaaaaaaaaaaaaaaaaaaaaaa1`
- **Experiment**: web_search
- **Date**: 2026-01-02

## Failures

### 002-queries/011-denormalize_pagination
**Classification**: MODEL_FAULT
- Failed step: eslint
"""


def write_run(odd: Path, folder: Path, run_id: str, model: str, provider: str) -> Path:
    """Write one failure of `odd/steps` as a run of another model."""
    summary = json.loads((odd / "steps/failed_evals.json").read_text())
    summary["failedEvals"] = [one for one in summary["failedEvals"] if one["name"] == "011-denormalize_pagination"]
    summary |= {"failedCount": 1.0, "totalEvals": 2.0, "passedCount": 1.0}
    summary["run"] |= {"_id": run_id, "model": model, "provider": provider}
    eval_id = summary["failedEvals"][0]["_id"]
    (folder / "debug").mkdir(parents=True)
    (folder / "failed_evals.json").write_text(json.dumps(summary))
    (folder / f"debug/{eval_id}.json").write_text((odd / f"steps/debug/{eval_id}.json").read_text())
    return folder


@pytest.fixture
def odd(real_data: Path) -> Path:
    return real_data / "convex-runs-current/odd"


def test_report_names_evidence_that_is_no_longer_stored(workspace: Workspace, odd: Path) -> None:
    done = workspace.run("analyze", odd / "stored", "--judge", "rules", "--json")
    findings = {finding["eval"].rpartition("/")[2]: finding for finding in json.loads(done.out)["findings"]}
    page = workspace.report.read_text()
    assert findings.keys() == MISSING.keys()
    for name, missing in MISSING.items():
        missing_text = findings[name]["missing"]
        group_size = sum(one["group"] == findings[name]["group"] for one in findings.values())
        assert (
            (f"{missing} ({findings[name]['eval']})" in missing_text) if group_size > 1 else (missing_text == missing)
        ), name
        assert f"Missing: {missing_text}." in page or f"Missing: {missing_text} (" in page
    again = workspace.run("analyze", odd / "stored", "--judge", "rules", "--json")
    assert json.loads(again.out)["changed"] is False


@pytest.mark.parametrize("name", MISSING)
def test_explain_separates_missing_from_unread_evidence(workspace: Workspace, odd: Path, name: str) -> None:
    explanation = workspace.run("explain", odd / "stored", name, "--judge", "rules").out
    evidence, _, budget = explanation.partition("Not read at first, for the token budget")
    for phrase in MISSING[name].split("; "):
        assert f"missing: {phrase}" in evidence
        assert phrase not in budget


def test_missing_evidence_is_never_quoted(workspace: Workspace, odd: Path) -> None:
    done = workspace.run("analyze", odd / "stored", "--judge", "rules", "--json")
    for finding in json.loads(done.out)["findings"]:
        if finding["eval"].endswith(("001-single_column_index", "002-userspace_filter", "003-multicolumn_equality")):
            assert {citation["role"] for citation in finding["citations"]} <= {"task", "expected", "grader"}


def test_lost_step_rows_do_not_hide_the_failed_step(workspace: Workspace, odd: Path) -> None:
    done = workspace.run("analyze", odd / "steps", "--judge", "rules", "--json")
    steps = {finding["eval"].rpartition("/")[2]: finding["step"] for finding in json.loads(done.out)["findings"]}
    assert set(steps.values()) == {"eslint", "tsc"}
    assert len(steps) == 7
    assert "| – |" not in workspace.report.read_text()
    assert "grading never began" not in workspace.run("explain", odd / "steps", "008-group_by", "--judge", "rules").out


def test_step_named_only_in_the_log_is_reported(workspace: Workspace, odd: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    summary = json.loads((odd / "steps/failed_evals.json").read_text())
    summary["failedEvals"] = summary["failedEvals"][:1]
    summary |= {"failedCount": 1, "totalEvals": 1, "passedCount": 0}
    entry = summary["failedEvals"][0]
    debug = json.loads((odd / f"steps/debug/{entry['_id']}.json").read_text())
    del entry["failureReason"], debug["eval"]["status"]["failureReason"]
    (folder / "debug").mkdir(parents=True)
    (folder / "failed_evals.json").write_text(json.dumps(summary))
    (folder / f"debug/{entry['_id']}.json").write_text(json.dumps(debug))
    document = json.loads(workspace.run("analyze", folder, "--judge", "rules", "--json").out)
    assert [finding["step"] for finding in document["findings"]] == ["eslint"]


def test_key_order_in_payloads_does_not_change_findings(workspace: Workspace, odd: Path) -> None:
    documents = [
        json.loads(workspace.run("analyze", odd / name, "--judge", "rules", "--json").out)
        for name in ("keys-sorted", "keys-unsorted")
    ]
    assert documents[0]["findings"] == documents[1]["findings"]
    assert documents[1]["changed"] is False


def test_reports_of_every_provider_go_to_the_maintainers_model_folder(workspace: Workspace, odd: Path) -> None:
    rows = json.loads((odd / "providers.json").read_text())
    folders = {row["folder"] for row in rows}
    for folder in folders:
        before = workspace.folder / "reports" / folder / "jn7aaaaa_2026-01-02.md"
        before.parent.mkdir(parents=True)
        before.write_text(EARLIER_REPORT)
    for number, row in enumerate(rows):
        run_id = f"jn7{number:02}8v26vj5zktbewhmkvf0y9a93qvc"
        run = write_run(odd, workspace.folder / f"run{number}", run_id, row["model"], row["provider"])
        document = json.loads(workspace.run("analyze", run, "--judge", "rules", "--json").out)
        path = Path(document["report_path"]).relative_to(workspace.folder / "reports")
        assert str(path.parent) == row["folder"]
        recurrence = document["findings"][0]["recurrence"]
        assert recurrence["kind"] != "new"
        assert "jn7aaaaa_2026-01-02.md" in recurrence["reports"]
    listed = workspace.run("reports", "list", "anthropic/claude-opus-4.6").out
    assert listed.count("anthropic/claude-opus-4-6/") == 6
    workspace.run("reports", "check")


def test_provider_option_overrides_the_vendor_of_the_model(workspace: Workspace, odd: Path) -> None:
    run = write_run(
        odd, workspace.folder / "run", "jn7008v26vj5zktbewhmkvf0y9a93qvc", "anthropic/claude-4.6", "openrouter"
    )
    workspace.run("analyze", run, "--judge", "rules", "--provider", "mine")
    assert workspace.report.parent == workspace.folder / "reports/mine/anthropic/claude-4.6"
    workspace.run("analyze", run, "--judge", "rules")
    assert len(workspace.reports) == 1, "a run has one report"


@pytest.mark.parametrize(
    "model", ["../../etc/x", "..\\..\\x", "a/../../b", "/abs/x", "a\n/b", "%2e%2e/x", "C:/x", "~/x"]
)
def test_hostile_model_name_stays_below_the_reports_folder(workspace: Workspace, odd: Path, model: str) -> None:
    run = write_run(odd, workspace.folder / "run", "jn7008v26vj5zktbewhmkvf0y9a93qvc", model, "../up")
    before = set(workspace.folder.parent.rglob("*.md"))
    workspace.run("analyze", run, "--judge", "rules")
    new = set(workspace.folder.parent.rglob("*.md")) - before
    (page,) = workspace.reports
    assert new == {page, workspace.folder / "reports" / "labels.md"}


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ("all-passed", "All 12 evals passed."),
        ("pending", "The run has not ended. No failed eval is listed (no eval was started)."),
        ("running", "The run has not ended. No failed eval is listed (3 of the 5 evals that were started passed, 2"),
        (
            "preflight",
            "The run did not complete: stopped before the first eval, because a test request to the provider",
        ),
        ("zero-tokens", "The run did not complete: all evals ran, but one of them used no tokens, so the"),
        ("stuck", "The run did not complete: the runner stopped without a message and the run was closed later; the"),
    ],
)
def test_run_without_failures_states_the_reason(workspace: Workspace, odd: Path, state: str, message: str) -> None:
    done = workspace.run("analyze", odd / "states" / state, "--judge", "rules")
    assert done.out.startswith(message)
    assert not workspace.reports
    run = json.loads(workspace.run("analyze", odd / "states" / state, "--judge", "rules", "--json").out)["run"]
    assert (run["status_reason"] or "") in done.out
    assert bool(run["status_reason"]) is (run["status"] == "failed")


def test_report_of_a_stopped_run_begins_with_the_reason(workspace: Workspace, odd: Path) -> None:
    workspace.run("analyze", odd / "infrastructure", "--judge", "rules", "--quiet")
    first = workspace.report.read_text().partition(" evals failed\n")[2]
    assert first.startswith("**The run did not complete** (stopped in the middle by an outage in one step, so later")
