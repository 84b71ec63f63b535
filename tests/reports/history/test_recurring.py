"""Recurring failures of evals over all reports."""

from collections.abc import Callable

from evalscribe.model.repository import ReportFile
from evalscribe.reports import recurring

MakeFile = Callable[..., ReportFile]
MakeText = Callable[..., str]
MakePage = Callable[..., tuple[str, str]]
"""Page and data."""
DONE = "## Actions taken\n- fixed the grader of 001-a\n"


def test_row_has_first_and_last_report_labels_and_outcomes_of_actions(file: MakeFile, free: MakeText) -> None:
    files = [
        file("p/m/b_2026-01-02.md", free({"c/001-a": "KNOWN_GAP", "c/002-b": "MODEL_FAULT"}, after=DONE)),
        file("p/m/a_2026-01-01.md", free({"001-a": "OVERLY_STRICT"}, after=DONE)),
        file("p/m/c_2026-01-03.md", free({"c/002-b": "MODEL_FAULT"})),
        file("p/other/d_2026-01-04.md", free({"c/001-a": "MODEL_FAULT"}, after=DONE)),
    ]
    first, second, other = recurring.recurring_in_reports(files).rows
    assert (first.model, first.eval, first.times, first.first.date, first.last.date) == (
        ("p/m", "c/001-a", 2, "2026-01-01", "2026-01-02")
    )
    assert first.labels == ("KNOWN_GAP", "OVERLY_STRICT")
    assert [(action.report.date, action.outcome) for action in first.actions] == [
        ("2026-01-02", "held"),
        ("2026-01-01", "held"),
    ]
    assert (second.eval, second.times, second.actions) == ("c/002-b", 2, ())
    assert (other.model, [action.outcome for action in other.actions]) == ("p/other", ["not yet seen"])


def test_fix_did_not_hold_if_any_model_fails_again_for_the_same_cause(file: MakeFile, ours: MakePage) -> None:
    acted = ours("c/001-a", "MODEL_FAULT", "MODEL_FAULT", actions="- 2026-01-02: fixed the server of `c/001-a`.")
    again = ours("c/001-a", "MODEL_FAULT", "MODEL_FAULT", run_id="run2bbbbbbbbbbbb", date="2026-01-05")
    clean = ours("c/009-z", "MODEL_FAULT", "MODEL_FAULT", run_id="run3cccccccccccc", date="2026-01-06")

    def outcome_with(*others: ReportFile) -> str:
        (row,) = [one for one in recurring.recurring_in_reports([file("p/m/a.md", acted), *others]).rows if one.actions]
        (action,) = row.actions
        assert (action.model, action.text) == ("p/m", "2026-01-02: fixed the server of `c/001-a`")
        return action.outcome

    assert outcome_with() == "not yet seen"
    assert outcome_with(file("p/m/b.md", clean)) == outcome_with(file("p/other/b.md", clean)) == "held"
    assert outcome_with(file("p/m/b.md", again)) == outcome_with(file("p/other/b.md", again)) == "did not hold"
    assert outcome_with(file("p/m/b.md", again), file("p/other/c.md", clean)) == "did not hold"


def test_later_run_of_another_experiment_gives_no_outcome_of_a_fix(file: MakeFile, free: MakeText) -> None:
    files = [
        file("p/m/a_2026-01-01.md", free({"c/001-a": "OVERLY_STRICT"}, experiment="default", after=DONE)),
        file("p/m/b_2026-01-02.md", free({"c/001-a": "MODEL_FAULT"}, experiment="no_guidelines")),
    ]
    (row,) = recurring.recurring_in_reports(files).rows
    assert (row.times, [action.outcome for action in row.actions]) == (2, ["not yet seen"])


def test_two_reports_of_one_run_count_as_one_failure(file: MakeFile, free: MakeText, ours: MakePage) -> None:
    files = [
        file("p/m/run1aaaa_2026-01-02.md", free({"c/001-a": "OVERLY_STRICT"}, run_id="run1aaaaaaaaaaaa", after=DONE)),
        file("p/m/run1aaaa_2026-01-02.evalscribe.md", ours("c/001-a", "MODEL_FAULT", "MODEL_FAULT")),
    ]
    (row,) = recurring.recurring_in_reports(files).rows
    assert (row.times, row.causes, [action.outcome for action in row.actions]) == (
        1,
        ("missing-args",),
        ["not yet seen"],
    )


def test_unreadable_files_become_notes(file: MakeFile) -> None:
    result = recurring.recurring_in_reports([file("p/m/x.md", "---\nkind: explore\n---\n")])
    assert result.rows == ()
    assert result.notes[0].startswith("not read: x.md")
