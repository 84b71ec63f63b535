"""What people began with, where nobody kept the text last written: the oldest text of the same analysis in git."""

from collections.abc import Iterable

from evalscribe.model.report import Report
from evalscribe.publish.reading import same_text
from evalscribe.report_markdown.page import parse, render
from evalscribe.report_markdown.unreadable import UnreadableReport


def begun(current: str, texts: Iterable[str]) -> str | None:
    """Of a report's committed `texts`, oldest first, the one that the current text was made from.

    Only one that evalscribe would print as it is; None where people edited before they committed. What it holds may
    still be a person's: commits are squashed.
    """
    now = _read(current)
    for text in texts if now else ():
        then = _read(text)
        if now and then and _analysis(then) == _analysis(now):
            return text if same_text(render(then), text) else None
    return None


def _analysis(report: Report) -> tuple[object, ...]:
    return report.run.id, report.revision, report.judges, report.evidence


def _read(text: str) -> Report | None:
    try:
        return parse(text)
    except UnreadableReport:
        return None
