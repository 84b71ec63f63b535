"""Build pages that people edited, and merge a new analysis into them."""

import re

from evalscribe.model.analysis import analysis_from_report
from evalscribe.model.finding import CauseKind, Classification
from evalscribe.model.report import Report, ReportEntry, replaced
from evalscribe.reports.data import write_data
from evalscribe.reports.merge import MergedReport, merge_report
from evalscribe.reports.page import render
from evalscribe.reports.reading import PageSource, read_page

DATA = "runrunru_2026-11-02.json"


def page_of(report: Report) -> str:
    return render(report)


def on_disk(text: str, data: Report) -> PageSource:
    """Return a page as it is read from disk. Its data can belong to another version of the report."""
    return PageSource(name="runrunru_2026-11-02.md", text=text, data=write_data(analysis_from_report(data)))


def rewrite(new: Report, text: str, data: Report, *bases: str) -> MergedReport:
    """Return the result of merging the new analysis into a page that people edited."""
    return merge_report(new, text, read_page(on_disk(text, data), bases))


def entry_of(report: Report, path: str) -> ReportEntry:
    return next(entry for entry in report.entries if path in entry.paths)


def judged(report: Report, path: str, label: Classification, kind: CauseKind) -> Report:
    """Return the report with a changed verdict of the judge on one eval."""
    old = entry_of(report, path)
    assert old.judge
    opinion = replaced(old.judge, classification=label)
    new = replaced(old, classification=label, cause_kind=kind, judge=opinion, reasoning="Another thought.")
    return replaced(report, entries=tuple(new if entry is old else entry for entry in report.entries))


def corrected(text: str, number: int, label: str) -> str:
    """Return the page with another bold label below the heading of a finding."""
    return re.sub(
        rf"(\n### {number}\. .*\n)\*\*[A-Z_]+\*\*(?: \(\w+\))?(?:, uncertain)?", rf"\1**{label}**", text, count=1
    )
