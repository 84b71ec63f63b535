"""Labels from the command line are written as a person would write them by hand; nothing else changes."""

import difflib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalscribe.errors import DataError
from evalscribe.model.finding import CAUSE_KINDS, CLASSIFICATIONS, CauseKind, Classification
from evalscribe.model.report import Report, replaced
from evalscribe.reports.blocks import UnreadableReport
from evalscribe.reports.corrections import write_label
from evalscribe.reports.merge import merge_report
from evalscribe.reports.reading import PageSource, read_page
from support.report_labels import written

REPORTS = Path(__file__).parents[3] / "reports" / "example"
OLD = Path(__file__).parents[2] / "data/old_reports/smp7q2ka_2026-11-02.md"
PATH = next(REPORTS.rglob("smp7q2ka_*.md"))
PAGE = PageSource(name=PATH.name, text=PATH.read_text("utf-8"), data=PATH.with_suffix(".json").read_text("utf-8"))
REPORT = read_page(PAGE).report
NOTES = (
    "it is so", "a | bar", "</details>", "<!-- x", "```", "# heading", "- item", "1. one", "> quote", "---",
    "Reviewer: me", "two\nlines", "\r\n## Failures", "`<b>`", "**KNOWN_GAP**", "===",
    "\\<b>", "| 1 | x | y | z | a | b |", "", "  ", "é😀", "~~no~~", "\u202ea",
)  # fmt: skip
often = settings(max_examples=15)


def labelled(
    page: PageSource, n: int, label: Classification, *, kind: CauseKind | None = None, note: str | None = None
) -> PageSource:
    return replaced(page, text=write_label(page, n, label, kind=kind, note=note))


def report_of(page: PageSource) -> Report:
    return read_page(page).report


def changed_lines(before: PageSource, after: PageSource) -> list[str]:
    lines = (page.text.splitlines(keepends=True) for page in (before, after))
    return [line for line in difflib.unified_diff(*lines, n=0) if not line.startswith(("---", "+++", "@@"))]


@often
@given(
    n=st.integers(1, len(REPORT.entries)),
    label=st.sampled_from(CLASSIFICATIONS),
    kind=st.sampled_from((None, *CAUSE_KINDS)),
    note=st.one_of(st.none(), st.sampled_from(NOTES), st.text(max_size=30)),
    end=st.sampled_from(("\n", "\r\n", "\r")),
    last=st.booleans(),
)
def test_correction_changes_only_the_label_and_one_reviewer_line(
    n: int, label: Classification, kind: CauseKind | None, note: str | None, end: str, last: bool
) -> None:
    page = replaced(PAGE, text=PAGE.text.rstrip("\n") + "\n" * last)
    after = labelled(replaced(page, text=page.text.replace("\n", end)), n, label, kind=kind, note=note)
    assert after.text.count(end) == after.text.replace("\r\n", "\n").replace("\r", "\n").count("\n")
    assert labelled(after, n, label, kind=kind, note=note) == after
    plain = replaced(after, text=after.text.replace(end, "\n"))
    assert plain.text.endswith("\n") == last
    changes = changed_lines(page, plain)
    assert sum(line.startswith("-") for line in changes) <= 1
    assert sum(line.startswith("+") for line in changes) <= 2
    now = report_of(plain)
    for number, (before, entry) in enumerate(zip(REPORT.entries, now.entries, strict=True), 1):
        assert entry == before or number == n
    entry = now.entries[n - 1]
    assert entry.classification == label
    assert entry.reviewed
    assert kind in (None, entry.cause_kind)
    assert not entry.notes
    assert now.notes == REPORT.notes
    assert len(entry.reviewer) == len(REPORT.entries[n - 1].reviewer) + 1


@pytest.mark.parametrize("known", [True, False])
def test_correction_survives_the_next_analysis(known: bool) -> None:
    page = labelled(PAGE, 1, "KNOWN_GAP", kind="harness", note="seen it before")
    merged = merge_report(REPORT, page.text, read_page(page, [PAGE.text] if known else []))
    entry = merged.report.entries[0]
    assert (entry.classification, entry.cause_kind) == ("KNOWN_GAP", "harness")
    assert "\nReviewer: seen it before\n" in merged.text
    again = written(merged.report, page.name)
    assert again.text == merged.text
    assert labelled(again, 1, "KNOWN_GAP", kind="harness", note="seen it before") == again


def test_reviewer_line_without_a_note_names_the_decision() -> None:
    confirmed = labelled(PAGE, 1, "MODEL_FAULT")
    assert changed_lines(PAGE, confirmed) == ["+Reviewer: MODEL_FAULT confirmed\n"]
    assert "\nReviewer: KNOWN_GAP, not MODEL_FAULT\n" in labelled(PAGE, 1, "KNOWN_GAP").text


def test_second_reviewer_adds_a_line_and_the_first_line_stays() -> None:
    first = labelled(PAGE, 1, "KNOWN_GAP", note="as agreed")
    second = labelled(first, 1, "OVERLY_STRICT", note="not at all")
    assert report_of(second).entries[0].reviewer[-2:] == ("as agreed", "not at all")
    assert "### 1. basics/003-schedule\n**OVERLY_STRICT** · " in second.text


def test_group_is_corrected_as_a_whole(made_group: Report) -> None:
    page = labelled(written(made_group), 1, "OVERLY_STRICT", kind="infrastructure", note="all of them")
    (entry,) = report_of(page).entries
    assert (len(entry.evals), entry.classification, entry.reviewer) == (3, "OVERLY_STRICT", ("all of them",))
    assert "### 1. 3 evals\n**OVERLY_STRICT** (infrastructure)" in page.text


def test_correction_keeps_the_formatting_of_an_editor() -> None:
    text = PAGE.text.replace("\n**MODEL_FAULT** · ", "\n\n__MODEL_FAULT__ · ").replace("\n- ", "\n* ")
    page = labelled(replaced(PAGE, text=text), 1, "KNOWN_GAP", note="so")
    assert changed_lines(replaced(PAGE, text=text), page)[0].startswith("-__MODEL_FAULT__ · ")
    assert report_of(page).entries[0].reviewer == ("so",)


def test_finding_without_a_label_line_gets_a_new_one(made_group: Report) -> None:
    page = written(made_group)
    label = next(line for line in page.text.split("\n") if line.startswith("**KNOWN_GAP**"))
    page = labelled(replaced(page, text=page.text.replace(f"{label}\n", "Just text.\n")), 1, "MODEL_FAULT", note="so")
    (entry,) = report_of(page).entries
    assert (entry.classification, entry.reviewer) == ("MODEL_FAULT", ("so",))
    assert "Just text." in page.text


def test_an_unknown_finding_is_refused() -> None:
    with pytest.raises(DataError, match=rf"no finding 99; findings are 1 to {len(REPORT.entries)}"):
        write_label(PAGE, 99, "MODEL_FAULT")


def test_unreadable_page_is_refused_with_a_line_number() -> None:
    with pytest.raises(UnreadableReport, match="line "):
        write_label(replaced(PAGE, text=PAGE.text.replace("**OVERLY_STRICT**", "**OVER**", 1)), 1, "MODEL_FAULT")


def test_page_in_the_old_format_is_refused_with_advice_to_analyze_again() -> None:
    with pytest.raises(DataError, match="run `evalscribe analyze` on its run again"):
        write_label(PageSource(name=OLD.name, text=OLD.read_text("utf-8")), 1, "MODEL_FAULT")


def test_correction_resolves_contradicting_labels_of_one_finding() -> None:
    text = PAGE.text.replace("003-schedule\n**MODEL_FAULT**", "003-schedule: KNOWN_GAP\n**OVERLY_STRICT**")
    page = labelled(replaced(PAGE, text=text), 1, "KNOWN_GAP")
    assert report_of(page).entries[0].classification == "KNOWN_GAP"
