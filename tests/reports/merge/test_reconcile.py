"""Two copies of one report, edited by two people: nothing that either wrote is lost, contradictions are refused."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalscribe.model.finding import CLASSIFICATIONS, Classification
from evalscribe.model.report import Report, replaced
from evalscribe.reports.markdown.blocks import ConflictingEdits, UnreadableReport
from evalscribe.reports.markdown.page import parse, render
from evalscribe.reports.merge import merge_report, reconcile

Edit = tuple[str, int, str]
"""What is done, to which finding, with which word."""


def edited(text: str, edits: list[Edit], who: str) -> str:
    """The text after a person's edits; what they add bears their name."""
    for kind, number, word in edits:
        heading = next(line for line in text.split("\n") if line.startswith(f"### {number}. "))
        if kind == "label":
            text = text.replace(heading, f"{heading.rpartition(': ')[0]}: {word}")
        elif kind == "reviewer":
            text = text.replace(heading, f"{heading}\n- Reviewer: {who} {word}\n", 1)
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


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(ours=several, theirs=several, newer=st.booleans(), known=st.booleans())
def test_everything_that_either_wrote_is_there(
    report: Report, ours: list[Edit], theirs: list[Edit], newer: bool, known: bool
) -> None:
    written = render(report)
    mine, other = edited(written, ours, "Ada"), edited(written, theirs, "Bob")
    if newer:
        again = replaced(report, evidence="sha256:00000002", patterns=())
        mine = merge_report(again, mine, written).text
    try:
        text = reconcile(mine, other, written if known else None)
    except ConflictingEdits:
        assert {kind for kind, _, _ in (*ours, *theirs)} & {"label", "reviewer"}
        return
    both = parse(text, report)
    for who, edits_of in (("Ada", ours), ("Bob", theirs)):
        for kind, _, word in edits_of:
            if kind in ("reviewer", "note", "action"):
                assert f"{who} {word}" in text
            elif kind == "reasoning" and (known or who == "Ada"):
                assert f"Reasoning about b/2 {who}" in text
    for number, entry in enumerate(report.entries, 1):
        given_labels = [word for kind, n, word in (*ours, *theirs) if kind == "label" and n == number]
        if given_labels:
            assert both.entries[number - 1].classification in (*given_labels, entry.classification)
    assert reconcile(text, other, written if known else None) == text


def corrected(text: str, label: Classification) -> str:
    return text.replace("### 1. a/1: MODEL_FAULT", f"### 1. a/1: {label}")


@pytest.mark.parametrize("known", [True, False])
def test_two_labels_for_one_finding_are_refused_with_a_line_of_each(report: Report, known: bool) -> None:
    text = render(report)
    ours, theirs = corrected(text, "KNOWN_GAP"), corrected(text, "OVERLY_STRICT")
    theirs = theirs.replace("\n## Failures by step", "\nA remark.\n\n## Failures by step")
    with pytest.raises(ConflictingEdits, match=r"KNOWN_GAP.*OVERLY_STRICT") as refused:
        reconcile(ours, theirs, text if known else None)
    one, other = refused.value.lines
    assert ours.split("\n")[one - 1] == "### 1. a/1: KNOWN_GAP"
    assert theirs.split("\n")[other - 1] == "### 1. a/1: OVERLY_STRICT"


def test_a_line_that_confirms_contradicts_a_correction(report: Report) -> None:
    text = render(report)
    confirmed = text.replace("### 1. a/1: MODEL_FAULT\n", "### 1. a/1: MODEL_FAULT\n- Reviewer: yes\n")
    with pytest.raises(ConflictingEdits):
        reconcile(confirmed, corrected(text, "KNOWN_GAP"), text)


def test_what_one_person_took_back_is_not_brought_back_by_the_other_copy(report: Report) -> None:
    first = corrected(render(report), "KNOWN_GAP").replace("- Judge:", "- Reviewer: hm\n- Judge:", 1)
    base = merge_report(report, first, render(report)).text
    back = base.replace("- Reviewer: hm\n", "").replace("a/1: KNOWN_GAP", "a/1: MODEL_FAULT")
    theirs = base.replace("## Patterns", "\nA remark.\n\n## Patterns")
    text = reconcile(back, theirs, base)
    assert "A remark." in text
    assert "Reviewer: hm" not in text
    assert parse(text, parse(base)).entries[0].classification == "MODEL_FAULT"


def test_an_unedited_copy_leaves_the_other_as_it_stands_to_the_byte(report: Report) -> None:
    text = render(report)
    mine = corrected(text, "KNOWN_GAP").replace("\n", "\r\n")
    assert reconcile(mine, text, text) == mine
    assert reconcile(text, mine, text) == mine
    assert reconcile(mine, mine.replace("\r\n", "\n"), None) == mine


def test_a_newer_analysis_takes_the_labels_of_the_copy_on_the_branch(report: Report) -> None:
    text = render(report)
    theirs = corrected(text, "KNOWN_GAP").replace(
        "- Judge: OVERLY_STRICT", "- Reviewer: agreed\n- Judge: OVERLY_STRICT"
    )
    newer = merge_report(replaced(report, evidence="sha256:00000002"), text, text).text
    for base in (text, newer, None):
        both = parse(reconcile(newer, theirs, base), parse(newer))
        assert (both.revision, both.evidence) == (2, "sha256:00000002")
        assert both.entries[0].classification == "KNOWN_GAP"
        assert both.entries[1].reviewer == ("agreed",)


def test_edits_in_generated_text_that_cannot_be_kept_are_refused(report: Report) -> None:
    text = render(report)
    with pytest.raises(UnreadableReport, match="changed in a part that is generated"):
        reconcile(corrected(text, "KNOWN_GAP"), text.replace("| tests | 7 |", "| tests | 8 |"), text)


def test_copies_of_two_runs(report: Report) -> None:
    text = render(report)
    with pytest.raises(UnreadableReport, match="different runs"):
        reconcile(text, text.replace("runrunrun1", "runrunrun2"), text)
