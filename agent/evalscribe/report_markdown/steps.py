"""How many failed at which step. Derived."""

from collections import Counter

from evalscribe.model.report import Report
from evalscribe.report_markdown import inline, notes

HEADING = "Failures by step"
NO_STEP = "–"


def render(report: Report) -> list[str]:
    """Steps as they first occur among the findings, so that a changed count is a changed line."""
    counts: Counter[str | None] = Counter()
    for entry in report.entries:
        counts[entry.step] += len(entry.evals)
    rows = [inline.row(name(step), str(count)) for step, count in counts.items()]
    table = ["| Step | Failed |", "|---|--:|", *rows] if rows else ["None."]
    return [f"## {HEADING}", *table, *notes.of(report, "steps")]


def name(step: str | None) -> str:
    return inline.name(step) if step is not None else NO_STEP


def parse_name(cell: str) -> str | None:
    return inline.uncode(cell) if cell != NO_STEP else None
