"""Text that people write into a report is kept whatever the judge decides next; nothing is lost silently."""

from collections.abc import Callable
from pathlib import Path

import pytest

from evalscribe.errors import DataError
from evalscribe.model.finding import Recommendation, TrialCount
from evalscribe.model.report import Report, ReportEntry, join_entries, replaced
from evalscribe.reports.blocks import ConflictingEdits, UnreadableReport
from evalscribe.reports.merge import merge_report
from evalscribe.reports.page_edits import UnmergedEdits
from evalscribe.reports.reading import PageSource, parse_report, read_page
from support.edited_reports import DATA, corrected, entry_of, judged, on_disk, page_of, rewrite

MakeReport = Callable[..., Report]
MakeEntry = Callable[..., ReportEntry]
OLD = Path(__file__).parents[2] / "data/old_reports/smp7q2ka_2026-11-02.md"


def test_trials_with_different_human_labels_stay_apart(make: MakeReport, make_entry: MakeEntry) -> None:
    """Earlier analyses found two causes in three trials; the newer one finds one."""
    count = TrialCount(passed=0, failed=3, total=3)
    first, second, third = (make_entry(f"a/t#{n}", cause="c", trials=count) for n in (1, 2, 3))
    written = make(join_entries([first, second]), third)
    text = corrected(page_of(written), 2, "KNOWN_GAP").replace("\n### 2. ", "\nReviewer: noted\n### 2. ")
    merged = rewrite(make(join_entries([first, second, third])), text, written)
    entries = [(one.paths, one.classification, [part.reasoning for part in one.each]) for one in merged.report.entries]
    assert entries == [
        (("a/t#1", "a/t#2"), "MODEL_FAULT", ["Reasoning about `a/t#1`.", "Reasoning about `a/t#2`."]),
        (("a/t#3",), "KNOWN_GAP", ["Reasoning about `a/t#3`."]),
    ]
    assert merged.report.entries[0].reviewer == ("noted",)


def test_unchanged_report_is_not_written(report: Report) -> None:
    text = page_of(report)
    merged = rewrite(replaced(report, date="2026-12-24"), text, report)
    assert (merged.text, merged.changed) == (text, False)


def test_white_space_added_by_an_editor_is_no_change(report: Report) -> None:
    text = page_of(report)
    edited = text.replace("\n", "  \r\n").rstrip() + "\r\n\r\n"
    merged = rewrite(report, edited, report)
    assert (merged.text, merged.changed) == (edited, False)


def test_changed_report_gets_a_new_revision_and_keeps_its_date(report: Report) -> None:
    text = page_of(report)
    new = replaced(report, earlier=("x_2026-01-01.md",), date="2026-12-24")
    merged = rewrite(new, text, report)
    assert (merged.changed, merged.report.revision, merged.report.date) == (True, 2, "2026-11-02")
    again = rewrite(new, merged.text, merged.report)
    assert (again.changed, again.report.revision) == (False, 2)


def test_corrected_label_overrides_the_judge(report: Report) -> None:
    text = page_of(report)
    merged = rewrite(report, corrected(text, 1, "OVERLY_STRICT** (lint)**").replace("(lint)**", "(lint)"), report)
    assert merged.report.revision == 2
    assert "### 1. a/1\n**OVERLY_STRICT** · tests · judge said MODEL_FAULT: why a/1\n" in merged.text
    for label in ("AMBIGUOUS_TASK", "OVERLY_STRICT", "KNOWN_GAP", "MODEL_FAULT"):
        merged = rewrite(judged(report, "a/1", label, "task"), merged.text, merged.report)
        entry = entry_of(merged.report, "a/1")
        assert (entry.classification, entry.cause_kind) == ("OVERLY_STRICT", "lint")
        assert entry.judge
        assert entry.judge.classification == label
        assert entry.reviewed


def test_heading_and_label_edited_differently_are_refused(report: Report) -> None:
    edited = corrected(page_of(report), 1, "OVERLY_STRICT").replace("### 1. a/1\n", "### 1. a/1: KNOWN_GAP\n")
    heading = edited.split("\n").index("### 1. a/1: KNOWN_GAP") + 1
    with pytest.raises(ConflictingEdits) as refused:
        rewrite(report, edited, report)
    assert refused.value.lines == (heading, heading + 1)


def test_second_correction_replaces_the_first(report: Report) -> None:
    first = rewrite(report, corrected(page_of(report), 1, "OVERLY_STRICT"), report)
    second = rewrite(report, corrected(first.text, 1, "KNOWN_GAP"), first.report)
    assert entry_of(second.report, "a/1").classification == "KNOWN_GAP"


def test_reviewer_line_confirms_the_label(report: Report) -> None:
    edited = page_of(report).replace("\n### 1. a/1\n", "\n### 1. a/1\nReviewer: I checked\n", 1)
    merged = rewrite(judged(report, "a/1", "KNOWN_GAP", "task"), edited, report)
    entry = entry_of(merged.report, "a/1")
    assert (entry.classification, entry.reviewer) == ("MODEL_FAULT", ("I checked",))
    assert "\nReviewer: I checked\n" in merged.text


@pytest.mark.parametrize(
    ("label", "kind"),
    [
        ("**MODEL_FAULT**", "model"),
        ("**KNOWN_GAP** (infrastructure)", "infrastructure"),
        ("**KNOWN_GAP**", None),
        ("**OVERLY_STRICT** (grader)", "grader"),
        ("**OVERLY_STRICT** (infrastructure)", "infrastructure"),
    ],
)
def test_cause_kind_written_by_a_person_is_kept(report: Report, label: str, kind: str | None) -> None:
    before = "### 2. b/2\n**OVERLY_STRICT** (harness)"
    text = page_of(report)
    assert before in text
    merged = rewrite(report, text.replace(before, f"### 2. b/2\n{label}"), report)
    again = rewrite(judged(report, "b/2", "AMBIGUOUS_TASK", "task"), merged.text, merged.report)
    assert entry_of(again.report, "b/2").cause_kind == kind
    assert read_page(on_disk(again.text, again.report)).report == again.report


def test_text_added_anywhere_is_kept(report: Report) -> None:
    text = page_of(report)
    additions = {
        "## Recommendations\n": "A remark on top.",
        "## Failures\n": "- my own recommendation\n- also do this: and that",
        "### 1. a/1": "On all findings.",
        "### 2. b/2": "```\nsome code\n```\n\nand <!-- a comment -->",
        "### 3. c/3": "> quoted\n> twice",
        "## Patterns\n": "| a | table |\n|---|---|\n| x | y |",
        "## Net impact\n": "- my own pattern",
        "## Actions taken\n": "The net is better.",
    }
    edited = text.replace("## Actions taken\nNone.", "## Actions taken\n- merged #12\n\n## Findings\nof mine")
    for anchor, addition in additions.items():
        edited = edited.replace(anchor, f"\n{addition}\n\n{anchor}", 1)
    merged = rewrite(report, edited, report)
    bare = merged.text.replace("> ", "")
    for addition in additions.values():
        assert all(line.removeprefix("> ") in bare for line in addition.split("\n"))
    assert merged.report.actions_taken == "- merged #12\n\n## Findings\nof mine"
    assert read_page(on_disk(merged.text, merged.report)).report == merged.report
    assert not rewrite(report, merged.text, merged.report).changed


def test_deleted_note_stays_deleted(report: Report) -> None:
    text = page_of(report)
    once = rewrite(report, text.replace("\n### 2. b/2", "\n\nA remark.\n\n### 2. b/2"), report)
    assert entry_of(once.report, "a/1").notes == ("A remark.",)
    twice = rewrite(report, once.text.replace("\n> A remark.\n", "\n"), once.report)
    assert entry_of(twice.report, "a/1").notes == ()


def test_reworded_line_is_kept_until_the_judge_changes_that_finding(report: Report) -> None:
    edited = page_of(report).replace("Reasoning about a/1.", "Reasoning about a/1 and its like.")
    merged = rewrite(judged(report, "b/2", "KNOWN_GAP", "task"), edited, report)
    assert "Reasoning about a/1 and its like." in merged.text
    assert "Another thought." in merged.text
    line = edited[: edited.index("and its like")].count("\n") + 1
    with pytest.raises(UnmergedEdits, match=f"line {line}$"):
        rewrite(judged(report, "a/1", "KNOWN_GAP", "task"), edited, report)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("### 1. a/1\n**MODEL_FAULT**", "### 1. a/1\n**MODEL_FALUT**"),
        ("### 2. b/2\n**OVERLY_STRICT** (harness)", "### 2. b/2\n**OVERLY_STRICT** (hamster)"),
        ("### 2. b/2\n**OVERLY_STRICT** (harness)", "### 2. b/2\n**UNCLASSIFIED**"),
        ("### 1. a/1\n", "### 1. a/1: KNOWN_GAP\n"),
        ("### 2. b/2\n", "###2. b/2\n"),
        ("\n## Net impact", "\n#### Net impact"),
        ("\n## Failures", "\n## Musings"),
        ("\n### 3. c/3", "\n### 2. c/3"),
        ("\n## Patterns", "\n<!-- todo\n## Patterns"),
        ("\n## Patterns", "\n```\n## Patterns"),
    ],
)
def test_unreadable_edit_is_refused_with_its_line(report: Report, before: str, after: str) -> None:
    text = page_of(report)
    assert before in text
    edited = text.replace(before, after, 1)
    pairs = zip(text.split("\n"), edited.split("\n"), strict=False)
    line = next(n for n, (a, b) in enumerate(pairs, 1) if a != b)
    with pytest.raises(UnreadableReport) as refused:
        rewrite(report, edited, report)
    assert line in refused.value.lines


def test_group_is_split_if_one_member_was_corrected(make: MakeReport, make_entry: MakeEntry) -> None:
    alone = make(make_entry("g/1"), make_entry("g/2"), make_entry("h/1"))
    merged = rewrite(make(make_entry("g/1", "g/2", "h/1")), corrected(page_of(alone), 2, "KNOWN_GAP"), alone)
    assert {entry.paths: entry.classification for entry in merged.report.entries} == {
        ("g/1", "h/1"): "MODEL_FAULT",
        ("g/2",): "KNOWN_GAP",
    }


def test_correction_of_a_group_is_kept_when_the_group_is_split(make: MakeReport, make_entry: MakeEntry) -> None:
    group = make(make_entry("g/1", "g/2"))
    merged = rewrite(make(make_entry("g/1"), make_entry("g/2")), corrected(page_of(group), 1, "KNOWN_GAP"), group)
    assert [entry.classification for entry in merged.report.entries] == ["KNOWN_GAP", "KNOWN_GAP"]


def test_label_and_reviewer_line_of_a_removed_eval_are_kept(report: Report) -> None:
    edited = corrected(page_of(report), 1, "KNOWN_GAP").replace(
        "Reasoning about a/1.", "Reasoning about a/1.\n\nReviewer: as agreed"
    )
    merged = rewrite(replaced(report, entries=report.entries[1:]), edited, report)
    assert "a/1 (KNOWN_GAP)" in merged.text
    assert "Reviewer: as agreed" in merged.text
    assert not rewrite(replaced(report, entries=report.entries[1:]), merged.text, merged.report).changed


def test_human_label_of_an_unclassified_failure_is_kept(report: Report) -> None:
    merged = rewrite(report, corrected(page_of(report), 5, "ambiguous task"), report)
    assert entry_of(merged.report, "u/9").reviewed
    assert "### 5. u/9\n**AMBIGUOUS_TASK**" in merged.text
    judged_now = replaced(
        report, entries=(*report.entries[:4], replaced(report.entries[0], evals=report.entries[4].evals))
    )
    again = entry_of(rewrite(judged_now, merged.text, merged.report).report, "u/9")
    assert again.classification == "AMBIGUOUS_TASK"


def test_recommendation_for_the_same_evals_keeps_its_id(report: Report) -> None:
    new = (
        Recommendation(id="R1", group="lint", text="something new", evals=("a/1",)),
        Recommendation(id="R2", group="lint", text="mend c, better", evals=("c/3",)),
        Recommendation(id="R3", group="eval", text="mend b", evals=("b/2", "u/9")),
        Recommendation(group="none", text="nothing"),
    )
    merged = rewrite(replaced(report, recommendations=new), page_of(report), report)
    assert {item.text: item.id for item in merged.report.recommendations} == {
        "mend b": "R1",
        "something new": "R3",
        "mend c, better": "R2",
        "nothing": None,
    }


def test_recommendation_id_named_in_the_actions_is_not_reused(report: Report) -> None:
    acted = replaced(report, recommendations=(), actions_taken="- R7: done on Monday.")
    new = (Recommendation(id="R1", group="eval", text="something new", evals=("a/1",)),)
    merged = rewrite(replaced(report, recommendations=new), page_of(acted), acted)
    assert [item.id for item in merged.report.recommendations] == ["R8"]


def test_revision_by_another_analysis_is_not_taken_for_edits(report: Report) -> None:
    theirs = rewrite(judged(report, "a/1", "KNOWN_GAP", "model"), page_of(report), report)
    merged = rewrite(report, theirs.text, theirs.report, page_of(report))
    assert merged.report.revision == 3
    assert entry_of(merged.report, "a/1").classification == "MODEL_FAULT"
    assert not entry_of(merged.report, "a/1").reviewed


def test_edits_of_a_page_older_than_its_data_are_merged(report: Report) -> None:
    """This is the state after a process was killed between writing the data and writing the page."""
    page = page_of(report)
    edited = corrected(page, 3, "KNOWN_GAP").replace("\n### 3. c/3", "\n\nA remark.\n\n### 3. c/3")
    new = replaced(judged(report, "b/2", "MODEL_FAULT", "model"), entries=report.entries[1:])
    whole = rewrite(new, edited, report, page)
    torn = rewrite(new, edited, whole.report, page)
    assert torn.report.entries == whole.report.entries
    assert torn.report.notes == whole.report.notes
    assert torn.text.split("\n")[6:] == whole.text.split("\n")[6:]
    assert not rewrite(new, torn.text, torn.report).changed
    source = on_disk(edited, whole.report)
    assert read_page(source).report.entries[1].classification == "KNOWN_GAP"
    with pytest.raises(UnmergedEdits):  # the original page is unknown
        rewrite(new, edited, whole.report)


def test_correction_is_kept_if_newer_data_lacks_the_eval(report: Report) -> None:
    page = page_of(report)
    newer = rewrite(replaced(report, entries=report.entries[1:]), page, report)
    edited = corrected(page, 1, "KNOWN_GAP")
    merged = rewrite(replaced(report, entries=report.entries[1:]), edited, newer.report, page)
    assert "No longer among the failures: a/1 (KNOWN_GAP)." in merged.text
    assert entry_of(merged.report, "b/2").classification == "OVERLY_STRICT"


@pytest.mark.parametrize("data", [None, "", "{", "[]", '{"kind": "x", "run": {}}', "<<<<<<< HEAD\n{}\n>>>>>>> x\n"])
def test_page_without_valid_data_is_not_merged_but_still_parsed(report: Report, data: str | None) -> None:
    source = PageSource(name="runrunru_2026-11-02.md", text=corrected(page_of(report), 1, "KNOWN_GAP"), data=data)
    with pytest.raises(DataError, match=DATA):
        read_page(source)
    parsed = parse_report(source.text, source.name, data).analysis
    assert {one.eval: one.classification for one in parsed.findings}["a/1"] == "KNOWN_GAP"


def test_page_in_the_old_format_is_upgraded_with_its_edits() -> None:
    text = OLD.read_text("utf-8")
    edited = (
        text.replace("### 1. basics/003-schedule: MODEL_FAULT", "### 1. basics/003-schedule: KNOWN_GAP")
        .replace("| tests | MODEL_FAULT | repeat |", "| tests | KNOWN_GAP | repeat |")
        .replace("- Seen: new\n", "- Seen: new\n- Reviewer: I looked\n", 1)
        .replace("## Patterns", "A remark.\n\n## Patterns")
        .replace("## Classification", "On the steps.\n\n## Classification")
        .replace("## Actions taken\nNone.", "## Actions taken\n- R1: done")
    )
    new = read_page(PageSource(name=OLD.name, text=text)).written
    merged = merge_report(new, edited, read_page(PageSource(name=OLD.name, text=edited), (text,)))
    assert "kind: evalscribe-report/2" in merged.text
    assert merged.report.entries[0].classification == "KNOWN_GAP"
    assert merged.report.entries[1].reviewer == ("I looked",)
    assert merged.report.actions_taken == "- R1: done"
    assert "> A remark." in merged.text
    assert "> On the steps." in merged.text
    source = PageSource(name=OLD.name, text=merged.text, data=on_disk("", merged.report).data)
    assert not merge_report(new, source.text, read_page(source)).changed
