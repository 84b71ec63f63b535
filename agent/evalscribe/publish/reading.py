"""The report on disk beside the text last written: the difference is what people did."""

from typing import NamedTuple

from evalscribe.model.report import Report
from evalscribe.proofread.parts import lines_of
from evalscribe.report_markdown.page import parse
from evalscribe.report_markdown.unreadable import UnreadableReport


class Reading(NamedTuple):
    """A report as it stands, corrections in force, and as evalscribe wrote it last."""

    text: str
    current: Report
    """What the text says."""
    written: Report | None
    """None where the text last written is not known, or is not the one that people edited."""
    written_text: str | None
    sure: bool = True
    """Whether the text last written is known for certain."""

    def unexplained(self, new: Report) -> bool:
        """Whether the text last written is not known for certain, and the new report is about the same evidence.

        Then what the page says otherwise of the run is a person's, and of the same judge's words may be.
        """
        return not (self.sure and self.written) and self.current.evidence == new.evidence


def read(current: str, last_written: str | None) -> Reading:
    """Raises `UnreadableReport` with the lines, `ConflictingEdits` where two edits contradict each other."""
    written = _parsed(last_written) if last_written is not None else None
    if written is None:
        return Reading(current, parse(current), None, None)
    report = written if current == last_written else parse(current, written)
    if (report.revision, report.run.id) == (written.revision, written.run.id):
        return Reading(current, report, written, last_written)
    return Reading(current, parse(current), None, None)  # somebody else's analysis came in between


def same_text(text: str, other: str) -> bool:
    return lines_of(text.rstrip()) == lines_of(other.rstrip())


def _parsed(text: str) -> Report | None:
    try:
        return parse(text)
    except UnreadableReport:
        return None
