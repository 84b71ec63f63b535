"""What people write into a report is kept, whatever the judge says next; nothing is lost without a word."""

from collections.abc import Callable

import pytest

from evalscribe.model.finding import CauseKind, Classification, Recommendation
from evalscribe.model.report import Report, ReportEntry, replaced
from evalscribe.reports.markdown.blocks import ConflictingEdits, UnreadableReport
from evalscribe.reports.markdown.page import parse, render
from evalscribe.reports.merge import merge_report

MakeReport = Callable[..., Report]
MakeEntry = Callable[..., ReportEntry]


def entry_of(report: Report, path: str) -> ReportEntry:
    return next(entry for entry in report.entries if path in entry.paths)


def judged(report: Report, path: str, label: Classification, kind: CauseKind) -> Report:
    """The same report, the judge now of another opinion about one eval."""
    old = entry_of(report, path)
    assert old.judge
    opinion = replaced(old.judge, classification=label)
    new = replaced(old, classification=label, cause_kind=kind, judge=opinion, reasoning="Another thought.")
    return replaced(report, entries=tuple(new if entry is old else entry for entry in report.entries))


def test_first_report(report: Report) -> None:
    merged = merge_report(report, None, None)
    assert (merged.report, merged.text, merged.changed) == (report, render(report), True)


@pytest.mark.parametrize("with_store", [True, False])
def test_nothing_new_is_nothing_written(report: Report, with_store: bool) -> None:
    text = render(report)
    merged = merge_report(replaced(report, date="2026-12-24"), text, text if with_store else None)
    assert (merged.text, merged.changed) == (text, False)


def test_an_editors_white_space_is_no_change(report: Report) -> None:
    text = render(report)
    edited = text.replace("\n", "  \r\n").rstrip() + "\r\n\r\n"
    assert not merge_report(report, edited, text).changed
    assert not merge_report(report, edited, None).changed


def test_the_revision_rises_with_a_change_and_the_date_stays(report: Report) -> None:
    text = render(report)
    merged = merge_report(replaced(report, evidence="sha256:2", date="2026-12-24"), text, text)
    assert (merged.changed, merged.report.revision, merged.report.date) == (True, 2, "2026-11-02")
    again = merge_report(replaced(report, evidence="sha256:2"), merged.text, merged.text)
    assert (again.changed, again.report.revision) == (False, 2)


@pytest.mark.parametrize("with_store", [True, False])
@pytest.mark.parametrize("where", ["heading", "table", "both"])
def test_a_corrected_label_beats_the_judge(report: Report, where: str, with_store: bool) -> None:
    text = render(report)
    edited = text
    if where in ("heading", "both"):
        edited = edited.replace("1. a/1: MODEL_FAULT", "1. a/1: OVERLY_STRICT (lint)")
    if where in ("table", "both"):
        edited = edited.replace("| 1 | a/1 | tests | MODEL_FAULT |", "| 1 | a/1 | tests | OVERLY_STRICT (lint) |")
    merged = merge_report(report, edited, text if with_store else None)
    assert merged.report.revision == 2
    assert "### 1. a/1: OVERLY_STRICT\n" in merged.text
    assert "| 1 | a/1 | tests | OVERLY_STRICT |" in merged.text
    assert "- Judge: MODEL_FAULT, 0.80, rules@1" in merged.text
    assert "(lint)" in merged.text
    for label in ("AMBIGUOUS_TASK", "OVERLY_STRICT", "KNOWN_GAP", "MODEL_FAULT"):
        merged = merge_report(judged(report, "a/1", label, "task"), merged.text, merged.text if with_store else None)
        corrected = entry_of(merged.report, "a/1")
        assert (corrected.classification, corrected.cause_kind) == ("OVERLY_STRICT", "lint")
        assert corrected.judge
        assert corrected.judge.classification == label
        assert corrected.reviewed


def test_heading_and_table_edited_differently_are_refused(report: Report) -> None:
    text = render(report)
    edited = text.replace("1. a/1: MODEL_FAULT", "1. a/1: OVERLY_STRICT").replace(
        "| 1 | a/1 | tests | MODEL_FAULT |", "| 1 | a/1 | tests | KNOWN_GAP |"
    )
    lines = edited.split("\n")
    heading, row = (
        lines.index("### 1. a/1: OVERLY_STRICT") + 1,
        next(number for number, line in enumerate(lines, 1) if line.startswith("| 1 |")),
    )
    for last in (text, None):
        with pytest.raises(ConflictingEdits) as refused:
            merge_report(report, edited, last)
        assert refused.value.lines == (heading, row)


def test_a_second_correction_is_read_against_the_text_last_written(report: Report) -> None:
    text = render(report)
    first = merge_report(report, text.replace("1. a/1: MODEL_FAULT", "1. a/1: OVERLY_STRICT"), text).text
    edited = first.replace("1. a/1: OVERLY_STRICT", "1. a/1: KNOWN_GAP")
    assert entry_of(merge_report(report, edited, first).report, "a/1").classification == "KNOWN_GAP"
    with pytest.raises(ConflictingEdits):
        merge_report(report, edited, None)


def test_a_reviewers_line_confirms_the_label(report: Report) -> None:
    text = render(report)
    edited = text.replace("- Seen: new\n", "- Seen: new\nReviewer: I checked\n", 1)
    assert edited != text
    merged = merge_report(judged(report, "a/1", "KNOWN_GAP", "task"), edited, text)
    kept = entry_of(merged.report, "a/1")
    assert (kept.classification, kept.reviewer) == ("MODEL_FAULT", ("I checked",))
    assert "- Reviewer: I checked" in merged.text


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ("2. b/2: OVERLY_STRICT (harness)", "2. b/2: MODEL_FAULT", "model"),
        ("2. b/2: OVERLY_STRICT (harness)", "2. b/2: KNOWN_GAP (infrastructure)", "infrastructure"),
        ("2. b/2: OVERLY_STRICT (harness)", "2. b/2: KNOWN_GAP", None),
        ("2. b/2: OVERLY_STRICT (harness)", "2. b/2: OVERLY_STRICT (grader)", "grader"),
        ("(harness)\n- Judge", "(infrastructure)\n- Judge", "infrastructure"),
    ],
)
def test_the_kind_that_a_person_wrote_stays(report: Report, before: str, after: str, kind: str | None) -> None:
    text = render(report)
    assert before in text
    edited = text.replace(before, after)
    if "b/2" not in before:  # the Cause: line and, as people do, the heading
        edited = edited.replace("OVERLY_STRICT (harness)", "OVERLY_STRICT (infrastructure)")
    merged = merge_report(report, edited, text)
    again = merge_report(judged(report, "b/2", "AMBIGUOUS_TASK", "task"), merged.text, merged.text)
    assert entry_of(again.report, "b/2").cause_kind == kind
    assert parse(again.text) == again.report


@pytest.mark.parametrize("with_store", [True, False])
def test_text_added_anywhere_is_kept(report: Report, with_store: bool) -> None:
    text = render(report)
    additions = {
        "## Failures by step\n": ("A remark on top.", "before"),
        "## Classification\n": ("On the steps.", "before"),
        "## Findings\n": ("On the table.\n\n- with\n- a list", "before"),
        "### 1. a/1": ("On all findings.", "before"),
        "### 2. b/2": ("```\nsome code\n```\n\nand <!-- a comment -->", "before"),
        "### 3. c/3": ("> quoted\n> twice", "before"),
        "## Patterns\n": ("| a | table |\n|---|---|\n| x | y |", "before"),
        "## Recommendations\n": ("- my own pattern", "before"),
        "### Lint and configuration\n": ("- also do this: and that", "before"),
        "## Actions taken\n": ("The net is better.", "before"),
    }
    edited = text.replace("## Actions taken\nNone.", "## Actions taken\n- merged #12\n\n## Findings\nof mine")
    for anchor, (addition, _) in additions.items():
        edited = edited.replace(anchor, f"\n{addition}\n\n{anchor}", 1)
    merged = merge_report(report, edited, text if with_store else None)
    bare = merged.text.replace("> ", "")
    for addition, _ in additions.values():
        assert all(line.removeprefix("> ") in bare for line in addition.split("\n"))
    assert merged.report.actions_taken == "- merged #12\n\n## Findings\nof mine"
    assert parse(merged.text) == merged.report
    again = merge_report(report, merged.text, merged.text)
    assert not again.changed


def test_reworded_text_of_the_judge_is_kept_beside_it(report: Report) -> None:
    text = render(report)
    edited = text.replace("Reasoning about a/1.", "Reasoning about a/1. But not quite.").replace("mend b", "mend it so")
    merged = merge_report(judged(report, "a/1", "KNOWN_GAP", "task"), edited, text)
    assert "> Reasoning about a/1. But not quite." in merged.text
    assert "Another thought." in merged.text
    assert "> R1: mend it so" in merged.text
    assert not merge_report(merged.report, merged.text, merged.text).changed


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("call('a/1')", "call('changed')"),
        ("One eval", "One"),
        ("- Judge: MODEL_FAULT, 0.80, rules@1", "- Judge: OVERLY_STRICT, 0.80, rules@1"),
        ("| tests | 7 |", "| tests | 8 |"),
        ("# m-1:", "# m-2:"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_its_line(report: Report, before: str, after: str) -> None:
    report = replaced(report, run=replaced(report.run, total=report.run.total + 1))
    text = render(report)
    assert before in text
    edited = text.replace(before, after, 1)
    line = next(n for n, (a, b) in enumerate(zip(text.split("\n"), edited.split("\n"), strict=True), 1) if a != b)
    with pytest.raises(UnreadableReport) as refused:
        merge_report(replaced(report, evidence="sha256:2"), edited, text)
    assert line in refused.value.lines


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("### 1. a/1: MODEL_FAULT", "### 1. a/1: MODEL_FALUT"),
        ("### 1. a/1: MODEL_FAULT", "### 1. a/1"),
        ("### 1. a/1: MODEL_FAULT", "### a/1: MODEL_FAULT"),
        ("### 1. a/1: MODEL_FAULT", "### 7. a/1: MODEL_FAULT"),
        ("### 1. a/1: MODEL_FAULT", "### 1. z/1: MODEL_FAULT"),
        ("### 2. b/2: OVERLY_STRICT (harness)", "### 2. b/2: OVERLY_STRICT (hamster)"),
        ("## Patterns", "## Musings"),
        ("- Judge: MODEL_FAULT, 0.80", "- Judge: MODEL_FAULT, 80 %"),
    ],
)
def test_what_cannot_be_read_names_the_line(report: Report, before: str, after: str) -> None:
    text = render(report)
    assert before in text
    edited = text.replace(before, after, 1)
    line = next(n for n, (a, b) in enumerate(zip(text.split("\n"), edited.split("\n"), strict=True), 1) if a != b)
    with pytest.raises(UnreadableReport) as refused:
        merge_report(report, edited, text)
    assert line in refused.value.lines


def test_a_group_of_which_one_was_corrected_is_split(make: MakeReport, make_entry: MakeEntry) -> None:
    alone = make(make_entry("g/1"), make_entry("g/2"), make_entry("h/1"))
    text = render(alone)
    edited = text.replace("2. g/2: MODEL_FAULT", "2. g/2: KNOWN_GAP")
    merged = merge_report(make(make_entry("g/1", "g/2", "h/1")), edited, text)
    assert {entry.paths: entry.classification for entry in merged.report.entries} == {
        ("g/1", "h/1"): "MODEL_FAULT",
        ("g/2",): "KNOWN_GAP",
    }


def test_a_corrected_group_that_falls_apart_keeps_its_correction(make: MakeReport, make_entry: MakeEntry) -> None:
    text = render(make(make_entry("g/1", "g/2")))
    edited = text.replace("### 1. 2 evals: MODEL_FAULT", "### 1. 2 evals: KNOWN_GAP (infrastructure)")
    merged = merge_report(make(make_entry("g/1"), make_entry("g/2")), edited, text)
    assert [entry.classification for entry in merged.report.entries] == ["KNOWN_GAP", "KNOWN_GAP"]


def test_what_was_said_of_an_eval_that_is_gone_is_kept(report: Report) -> None:
    text = render(report)
    edited = text.replace("1. a/1: MODEL_FAULT", "1. a/1: KNOWN_GAP").replace(
        "Reasoning about a/1.", "Reasoning about a/1.\n\nReviewer: as agreed"
    )
    merged = merge_report(replaced(report, entries=report.entries[1:]), edited, text)
    assert "a/1 (KNOWN_GAP)" in merged.text
    assert "Reviewer: as agreed" in merged.text


def test_a_label_for_an_unclassified_failure(report: Report) -> None:
    text = render(report)
    merged = merge_report(report, text.replace("5. u/9: UNCLASSIFIED", "5. u/9: ambiguous task"), text)
    assert entry_of(merged.report, "u/9").reviewed
    assert "### 5. u/9: AMBIGUOUS_TASK\n" in merged.text
    judged_now = replaced(
        report, entries=(*report.entries[:4], replaced(report.entries[0], evals=report.entries[4].evals))
    )
    again = entry_of(merge_report(judged_now, merged.text, merged.text).report, "u/9")
    assert again.classification == "AMBIGUOUS_TASK"


def test_ids_of_recommendations_stay_with_their_cause(report: Report) -> None:
    text = render(report)
    new = (
        Recommendation(id="R1", group="lint", text="something new", evals=("a/1",)),
        Recommendation(id="R2", group="lint", text="mend c, better", evals=("c/3",)),
        Recommendation(id="R3", group="eval", text="mend b", evals=("b/2", "u/9")),
        Recommendation(group="none", text="nothing"),
    )
    merged = merge_report(replaced(report, recommendations=new), text, text)
    assert {item.text: item.id for item in merged.report.recommendations} == {
        "mend b": "R1",
        "something new": "R3",
        "mend c, better": "R2",
        "nothing": None,
    }


def test_an_id_that_people_acted_on_is_never_given_to_another_recommendation(report: Report) -> None:
    acted = replaced(report, recommendations=(), actions_taken="- R7: done on Monday.")
    new = (Recommendation(id="R1", group="eval", text="something new", evals=("a/1",)),)
    merged = merge_report(replaced(report, recommendations=new), render(acted), render(acted))
    assert [item.id for item in merged.report.recommendations] == ["R8"]


def test_somebody_elses_revision_is_not_taken_for_edits(report: Report) -> None:
    mine = render(report)
    theirs = merge_report(judged(report, "a/1", "KNOWN_GAP", "model"), mine, mine).text
    merged = merge_report(report, theirs, mine)
    assert merged.report.revision == 3
    assert entry_of(merged.report, "a/1").classification == "MODEL_FAULT"
    assert not entry_of(merged.report, "a/1").reviewed


def test_a_group_without_its_list_is_refused_at_the_list(report: Report) -> None:
    text = render(report)
    torn = text.replace("</summary>\n\n", "</summary>\n", 1)
    heading = next(at for at, line in enumerate(text.split("\n"), 1) if line.startswith("### 4. 3 evals"))
    for written in (text, None):
        with pytest.raises(UnreadableReport, match="the list cannot be read") as caught:
            merge_report(report, torn, written)
        assert caught.value.lines == (heading, text[: text.index("<details>")].count("\n") + 1)
