"""Comparison of the quotations in a report with the lines of the evidence."""

import pytest

from evalscribe.model.evidence import Document, Evidence
from evalscribe.model.report import Report, Snippet, replaced
from evalscribe.model.run import Eval
from evalscribe.reports.page_checks import check_page, compare_quotation, quotations
from support.report_labels import written

LINES = [
    "import a",
    "",
    "\tif x:  # why",
    "    return 1",
    "y" * 300,
    "\x1b[31mred\x1b[0m",
    "(unverified) said it",
    "end",
]
EVIDENCE = Evidence(
    eval=Eval(id="e1", category="c", name="n"),
    documents=(Document(role="output", path="a.py", text="\n".join(LINES)),),
)


def levels(report: Report, *snippets: Snippet) -> list[tuple[str, str]]:
    """Render the snippets, read them back, and return level and first words of each problem."""
    entry = replaced(report.entries[0], snippets=snippets)
    page = written(replaced(report, entries=(entry, *report.entries[1:])))
    problems = compare_quotation(quotations(check_page(page, page.name, bool).findings[0]), EVIDENCE)
    return [(one.level, " ".join(one.what.split()[:3])) for one in problems]


def quote(first: int, *lines: str, status: str = "verified", path: str = "a.py") -> Snippet:
    return Snippet.model_validate(
        {"role": "output", "path": path, "first": first, "text": "\n".join(lines), "status": status}
    )


@pytest.mark.parametrize(
    ("first", "count"),
    [
        (first, count)
        for first in range(1, len(LINES) + 1)
        for count in (1, 3)
        if any(LINES[first - 1 : first - 1 + count])
    ],
)
def test_quotation_that_matches_the_evidence_has_no_problem(report: Report, first: int, count: int) -> None:
    lines = LINES[first - 1 : first - 1 + count]
    assert levels(report, quote(first, *lines)) == []
    assert levels(report, quote(first, *lines, status="relocated")) == []


@pytest.mark.parametrize(
    ("snippet", "expected"),
    [
        (quote(1, "import b"), [("error", "forged or outdated:")]),
        (quote(1, "import a", "", "if not x:  # why"), [("error", "forged or outdated:")]),
        (quote(4, "import a"), [("error", "the quotation is")]),
        (quote(4, "import a", status="relocated"), [("error", "the quotation is")]),
        (quote(1, "import a", path="b.py"), [("error", "forged or outdated:")]),
        (quote(99, "end"), [("error", "the quotation is")]),
        (quote(8, "end", "and more"), [("error", "forged or outdated:")]),
        (quote(5, "y" * 150), [("error", "forged or outdated:")]),
        (quote(1, "import b", status="unverified"), []),
        (quote(1, "import a", path="b.py", status="unverified"), []),
        (quote(1, "import a", status="unverified"), [("warning", "marked as unverified,")]),
    ],
)
def test_quotation_that_differs_from_the_evidence_is_reported(
    report: Report, snippet: Snippet, expected: list[tuple[str, str]]
) -> None:
    assert levels(report, snippet) == expected


def test_each_quotation_in_a_code_block_has_its_own_line(report: Report) -> None:
    snippets = (quote(1, "import a", "", "\tif x:  # why"), quote(4, "return 2"), quote(8, "end"))
    entry = replaced(report.entries[0], snippets=snippets)
    page = written(replaced(report, entries=(entry, *report.entries[1:])))
    placed = quotations(check_page(page, page.name, bool).findings[0])
    lines = page.text.split("\n")
    assert [one.snippet for one in placed] == list(snippets)
    assert [lines[one.line - 1].split("  ")[0] for one in placed] == ["import a", "return 2", "end"]
    assert [one.line for one in compare_quotation(placed, EVIDENCE)] == [placed[1].line]
