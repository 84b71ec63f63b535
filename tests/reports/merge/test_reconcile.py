"""Two copies of one report, edited by two people, are merged without loss; contradictions are refused."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalscribe.errors import DataError
from evalscribe.model.finding import CLASSIFICATIONS, Classification
from evalscribe.model.report import Report, replaced
from evalscribe.reports.blocks import ConflictingEdits, UnreadableReport
from evalscribe.reports.merge import ReconciledReport, merge_report
from evalscribe.reports.merge import reconcile as reconcile_copies
from evalscribe.reports.page_edits import UnmergedEdits
from evalscribe.reports.reading import PageSource, read_page
from support.edited_reports import corrected as relabelled
from support.edited_reports import on_disk, page_of, rewrite

OLD = Path(__file__).parents[2] / "data/old_reports/smp7q2ka_2026-11-02.md"
Edit = tuple[str, int, str]
"""Kind of edit, number of the finding, and label or word to insert."""


def reconcile(ours: str, theirs: str, data: Report, *bases: str, mine: Report | None = None) -> ReconciledReport:
    """Reconcile two copies. Both have the same data unless `mine` is given as newer data of ours."""
    return reconcile_copies(on_disk(ours, mine or data), on_disk(theirs, data), bases)


def edited(text: str, edits: list[Edit], who: str) -> str:
    """Return the text after a person's edits. Each addition contains their name."""
    for kind, number, word in edits:
        heading = next(line for line in text.split("\n") if line.startswith(f"### {number}. "))
        if kind == "label":
            text = relabelled(text, number, word)
        elif kind == "reviewer":
            text = text.replace(heading, f"{heading}\nReviewer: {who} {word}", 1)
        elif kind == "note":
            text = text.replace("\n## Patterns", f"\n{who} {word} {number}\n\n## Patterns", 1)
        elif kind == "action":
            text = text.replace("\nNone.\n", "\n", 1) if text.endswith("None.\n") else text
            text += f"- R{number}: {who} {word}\n"
        else:
            text = text.replace("Reasoning about b/2.", f"Reasoning about b/2 {who}.", 1)
    return text


kinds = st.sampled_from(("label", "reviewer", "note", "action", "reasoning"))


def edits(kind: str) -> st.SearchStrategy[Edit]:
    words = st.sampled_from(CLASSIFICATIONS) if kind == "label" else st.sampled_from(("zebra", "walrus", "ibis"))
    return st.tuples(st.just(kind), st.integers(1, 5), words)


several = st.lists(kinds.flatmap(edits), max_size=4)


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(ours=several, theirs=several, newer=st.booleans())
def test_edits_of_both_people_are_kept_or_refused(
    report: Report, ours: list[Edit], theirs: list[Edit], newer: bool
) -> None:
    written = page_of(report)
    mine, other = edited(written, ours, "Ada"), edited(written, theirs, "Bob")
    data = report
    try:
        if newer:
            again = replaced(report, evidence="sha256:00000002", patterns=())
            merged = rewrite(again, mine, report)
            mine, data = merged.text, merged.report
        reconciled = reconcile(mine, other, report, written, mine=data)
    except ConflictingEdits:
        assert {kind for kind, _, _ in (*ours, *theirs)} & {"label", "reviewer"}
        return
    except (UnreadableReport, UnmergedEdits):
        assert "reasoning" in {kind for kind, _, _ in (*ours, *theirs)}, "only other edits may overlap"
        return
    for who, edits_of in (("Ada", ours), ("Bob", theirs)):
        for kind, _, word in edits_of:
            if kind in ("reviewer", "note", "action"):
                assert f"{who} {word}" in reconciled.text
            elif kind == "reasoning":
                assert f"Reasoning about b/2 {who}" in reconciled.text
    for number, entry in enumerate(report.entries, 1):
        given_labels = [word for kind, n, word in (*ours, *theirs) if kind == "label" and n == number]
        if given_labels:
            assert reconciled.report.entries[number - 1].classification in (*given_labels, entry.classification)
    again_done = reconcile_copies(on_disk(reconciled.text, reconciled.report), on_disk(other, report), (written,))
    assert again_done.report == reconciled.report


def corrected(text: str, label: Classification) -> str:
    return relabelled(text, 1, label)


def test_two_labels_for_one_finding_are_refused_with_the_line_in_each_copy(report: Report) -> None:
    text = page_of(report)
    ours, theirs = corrected(text, "KNOWN_GAP"), corrected(text, "OVERLY_STRICT")
    theirs = theirs.replace("\n## Failures", "\nA remark.\n\n## Failures")
    with pytest.raises(ConflictingEdits, match=r"KNOWN_GAP.*OVERLY_STRICT") as refused:
        reconcile(ours, theirs, report)
    one, other = refused.value.lines
    assert ours.split("\n")[one - 1] == theirs.split("\n")[other - 1] == "### 1. a/1"


def test_confirmation_contradicts_a_correction_in_the_other_copy(report: Report) -> None:
    text = page_of(report)
    confirmed = text.replace("### 1. a/1\n", "### 1. a/1\nReviewer: yes\n")
    with pytest.raises(ConflictingEdits):
        reconcile(confirmed, corrected(text, "KNOWN_GAP"), report)


def test_withdrawn_correction_is_not_restored_by_the_other_copy(report: Report) -> None:
    first = corrected(page_of(report), "KNOWN_GAP").replace("### 1. a/1\n", "### 1. a/1\nReviewer: hm\n", 1)
    base = rewrite(report, first, report)
    back = corrected(base.text.replace("Reviewer: hm\n", ""), "MODEL_FAULT")
    theirs = base.text.replace("## Patterns", "\nA remark.\n\n## Patterns")
    reconciled = reconcile(back, theirs, base.report)
    assert "A remark." in reconciled.text
    assert "Reviewer: hm" not in reconciled.text
    assert reconciled.report.entries[0].classification == "MODEL_FAULT"


def test_edited_copy_is_kept_to_the_byte_if_the_other_is_unedited(report: Report) -> None:
    text = page_of(report)
    mine = rewrite(report, corrected(text, "KNOWN_GAP"), report)
    crlf = mine.text.replace("\n", "\r\n")
    assert reconcile_copies(on_disk(crlf, mine.report), on_disk(text, report), (text,)).text == crlf
    assert reconcile_copies(on_disk(text, report), on_disk(crlf, mine.report), (text,)).text == crlf


def test_newer_analysis_takes_over_the_labels_of_the_other_copy(report: Report) -> None:
    text = page_of(report)
    theirs = corrected(text, "KNOWN_GAP").replace("### 2. b/2\n", "### 2. b/2\nReviewer: agreed\n")
    newer = rewrite(replaced(report, earlier=("x_2026-01-01.md",)), text, report)
    for base in (text, newer.text):
        both = reconcile(newer.text, theirs, report, base, mine=newer.report).report
        assert (both.revision, both.earlier) == (2, ("x_2026-01-01.md",))
        assert both.entries[0].classification == "KNOWN_GAP"
        assert both.entries[1].reviewer == ("agreed",)


def test_two_edits_of_one_generated_line_are_refused_with_the_line(report: Report) -> None:
    text = page_of(report)
    ours, theirs = (text.replace("| 5 passed", f"| {who} passed") for who in ("6", "7"))
    line = text[: text.index("| Result |")].count("\n") + 1
    with pytest.raises((UnreadableReport, UnmergedEdits), match=f"line {line}"):
        reconcile(ours, theirs, report)


def test_edit_of_a_generated_line_with_an_unknown_base_is_refused(report: Report) -> None:
    text = page_of(report)
    theirs = text.replace("| 5 passed", "| 6 passed").replace("written: sha256:", "written: sha256:00")
    with pytest.raises((UnreadableReport, UnmergedEdits)):
        reconcile(corrected(text, "KNOWN_GAP"), theirs, report)


def test_copies_of_different_runs_are_refused(report: Report) -> None:
    other = replaced(report, run=replaced(report.run, id="runrunrun2"))
    with pytest.raises(UnreadableReport, match="different runs"):
        reconcile_copies(on_disk(page_of(report), report), on_disk(page_of(other), other))


def test_copy_in_the_old_format_is_merged_into_a_new_one() -> None:
    text = OLD.read_text("utf-8")
    ours = PageSource(name=OLD.name, text=text)
    theirs = PageSource(name=OLD.name, text=text.replace("## Actions taken\nNone.", "## Actions taken\n- R1: done"))
    with pytest.raises(DataError, match="run `evalscribe analyze` on its run again"):
        reconcile_copies(ours, theirs)
    page = read_page(ours)
    new = merge_report(page.report, text, page)
    reconciled = reconcile_copies(replaced(ours, text=new.text, data=on_disk("", new.report).data), theirs)
    assert (reconciled.ours, reconciled.report.actions_taken) == (True, "- R1: done")
    assert "kind: evalscribe-report/2" in reconciled.text
