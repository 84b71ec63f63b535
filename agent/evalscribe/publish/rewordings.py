"""Recommendations, patterns and what was done, where a person wrote or reworded them: notes of their section."""

from collections.abc import Iterator

from evalscribe.model.finding import Pattern
from evalscribe.model.report import Report, ReportNote

OF_OTHER_REPORTS = ("recurring", "across-models")
"""Kinds of patterns that change with every report beside this one."""


def reworded(old: Report, written: Report | None, new: Report) -> Iterator[ReportNote]:
    """Texts that are neither what was written last nor what is written now.

    Without the text last written: the same judges on the same evidence would have said it again, unless a correction
    has overtaken it.
    """
    if written is None and (old.judges, old.evidence) != (new.judges, new.evidence):
        return
    corrected = {path for entry in old.entries if entry.reviewed for path in entry.paths} if not written else set()
    known = [report for report in (written, new) if report]
    texts = {item.text for report in known for item in report.recommendations}
    for item in old.recommendations:
        if item.text and item.text not in texts and not corrected.intersection(item.evals):
            yield ReportNote(section="recommendations", text=f"{item.id}: {item.text}" if item.id else item.text)
    said = {_said(pattern) for report in known for pattern in report.patterns}
    for pattern in old.patterns:
        overtaken = not written and (pattern.kind in OF_OTHER_REPORTS or corrected.intersection(pattern.evals))
        if _said(pattern) not in said and not overtaken:
            yield ReportNote(section="patterns", text=_said(pattern))
    done = {one.text for report in known for one in report.follow_ups}
    for one in old.follow_ups:
        if one.text and one.text not in done:
            yield ReportNote(section="patterns", text=one.text)


def _said(pattern: Pattern) -> str:
    return f"{pattern.name}: {pattern.text}".strip()
