"""A label from the command line is written as a person would have written it by hand, and nothing else changes."""

import difflib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalscribe.errors import DataError
from evalscribe.model.finding import CAUSE_KINDS, CLASSIFICATIONS, CauseKind, Classification
from evalscribe.model.report import Report
from evalscribe.reports.corrections import write_label
from evalscribe.reports.markdown.blocks import UnreadableReport
from evalscribe.reports.markdown.page import parse, render
from evalscribe.reports.merge import merge_report

REPORTS = Path(__file__).parents[3] / "reports" / "example"
PAGE = next(REPORTS.rglob("smp7q2ka_*.md")).read_text("utf-8")
WRITTEN = parse(PAGE)
NOTES = (
    "it is so", "a | bar", "</details>", "<!-- x", "```", "# heading", "- item", "1. one", "> quote", "---",
    "Reviewer: me", "two\nlines", "\r\n## Findings", "`<b>`",
    "\\<b>", "| 1 | x | y | z | a | b |", "", "  ", "é😀", "~~no~~", "\u202ea",
)  # fmt: skip
often = settings(max_examples=15)


def changed_lines(before: str, after: str) -> list[str]:
    lines = (text.splitlines(keepends=True) for text in (before, after))
    return [line for line in difflib.unified_diff(*lines, n=0) if not line.startswith(("---", "+++", "@@"))]


@often
@given(
    n=st.integers(1, len(WRITTEN.entries)),
    label=st.sampled_from(CLASSIFICATIONS),
    kind=st.sampled_from((None, *CAUSE_KINDS)),
    note=st.one_of(st.none(), st.sampled_from(NOTES), st.text(max_size=30)),
    end=st.sampled_from(("\n", "\r\n", "\r")),
    last=st.booleans(),
)
def test_only_the_heading_the_row_and_one_line_change(
    n: int, label: Classification, kind: CauseKind | None, note: str | None, end: str, last: bool
) -> None:
    page = PAGE.rstrip("\n") + "\n" * last
    text = write_label(page.replace("\n", end), n, label, kind=kind, note=note)
    assert text.count(end) == text.replace("\r\n", "\n").replace("\r", "\n").count("\n")
    again = write_label(text, n, label, kind=kind, note=note)
    assert again == text
    plain = text.replace(end, "\n")
    assert plain.endswith("\n") == last
    changes = changed_lines(page, plain)
    assert sum(line.startswith("-") for line in changes) <= 2
    assert sum(line.startswith("+") for line in changes) <= 3
    was, now = parse(PAGE), parse(plain, WRITTEN)
    for number, (before, after) in enumerate(zip(was.entries, now.entries, strict=True), 1):
        assert after == before or number == n
    entry = now.entries[n - 1]
    assert entry.classification == label
    assert entry.reviewed
    assert kind in (None, entry.cause_kind)
    assert not entry.notes
    assert len(entry.reviewer) == len(was.entries[n - 1].reviewer) + 1


@pytest.mark.parametrize("known", [True, False])
def test_the_next_analysis_keeps_it(known: bool) -> None:
    text = write_label(PAGE, 1, "KNOWN_GAP", kind="harness", note="seen it before")
    merged = merge_report(WRITTEN, text, PAGE if known else None)
    entry = merged.report.entries[0]
    assert (entry.classification, entry.cause_kind) == ("KNOWN_GAP", "harness")
    assert "- Reviewer: seen it before" in merged.text
    assert write_label(merged.text, 1, "KNOWN_GAP", kind="harness", note="seen it before") == merged.text


def test_without_a_note_the_line_says_what_was_done() -> None:
    confirmed = write_label(PAGE, 1, "MODEL_FAULT")
    assert changed_lines(PAGE, confirmed) == ["+- Reviewer: MODEL_FAULT confirmed\n"]
    assert "- Reviewer: KNOWN_GAP, not MODEL_FAULT\n" in write_label(PAGE, 1, "KNOWN_GAP")


def test_a_second_reviewer_adds_a_line_and_the_first_ones_stays() -> None:
    first = write_label(PAGE, 1, "KNOWN_GAP", note="as agreed")
    second = write_label(first, 1, "OVERLY_STRICT", note="not at all")
    assert parse(second, WRITTEN).entries[0].reviewer[-2:] == ("as agreed", "not at all")
    assert "basics/003-schedule: OVERLY_STRICT\n" in second


def test_a_group_is_corrected_as_one(made_group: Report) -> None:
    text = write_label(render(made_group), 1, "OVERLY_STRICT", kind="infrastructure", note="all of them")
    (entry,) = parse(text, made_group).entries
    assert (len(entry.evals), entry.classification, entry.reviewer) == (3, "OVERLY_STRICT", ("all of them",))
    assert "### 1. 3 evals: OVERLY_STRICT (infrastructure)\n" in text


def test_a_page_that_an_editor_formatted_keeps_its_form() -> None:
    row = next(line for line in PAGE.split("\n") if line.startswith("| 1 |"))
    cells = row.split(" | ")
    wide = " | ".join((*cells[:3], f"{cells[3]:<30}", *cells[4:]))
    page = PAGE.replace(row, wide).replace("\n- ", "\n* ")
    text = write_label(page, 1, "KNOWN_GAP", note="so")
    assert "\n* Reviewer: so\n" in text
    assert f" | {'KNOWN_GAP':<30} | " in text


def test_a_finding_without_facts_gets_its_line_apart_from_the_text(made_group: Report) -> None:
    page = "\n".join(line for line in render(made_group).split("\n") if not line.startswith("- Judge"))
    text = write_label(page.replace("KNOWN_GAP\n", "KNOWN_GAP\nJust text.\n"), 1, "MODEL_FAULT", note="so")
    assert parse(text).entries[0].reviewer == ("so",)


def test_no_such_finding() -> None:
    with pytest.raises(DataError, match=rf"no finding 99; findings are 1 to {len(WRITTEN.entries)}"):
        write_label(PAGE, 99, "MODEL_FAULT")


def test_what_cannot_be_read_is_refused_with_its_line() -> None:
    with pytest.raises(UnreadableReport, match="line "):
        write_label(PAGE.replace("## Patterns", "## Musings"), 1, "MODEL_FAULT")


def test_it_settles_an_edit_that_contradicts_itself() -> None:
    first, *rest = PAGE.split("| MODEL_FAULT |")
    torn = f"{first}| KNOWN_GAP |{'| MODEL_FAULT |'.join(rest)}"
    torn = torn.replace("basics/003-schedule: MODEL_FAULT", "basics/003-schedule: OVERLY_STRICT")
    assert parse(write_label(torn, 1, "AMBIGUOUS_TASK")).entries[0].classification == "AMBIGUOUS_TASK"
