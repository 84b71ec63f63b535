"""The report on disk beside the text last written: the difference is what people did."""

from typing import NamedTuple

from evalscribe.report import Report
from evalscribe.report_markdown import UnreadableReport, parse


class Reading(NamedTuple):
    """A report as it stands, corrections in force, and as evalscribe wrote it last."""

    text: str
    current: Report
    """What the text says."""
    written: Report | None
    """None where the text last written is not known, or is not the one that people edited."""
    written_text: str | None


def read(current: str, last_written: str | None) -> Reading:
    """Raises `UnreadableReport` with the lines, `ConflictingEdits` where two edits contradict each other."""
    written = _parsed(last_written) if last_written is not None else None
    if written is None:
        return Reading(current, parse(current), None, None)
    report = written if current == last_written else parse(current, written)
    if (report.revision, report.run.id) == (written.revision, written.run.id):
        return Reading(current, report, written, last_written)
    return Reading(current, parse(current), None, None)  # somebody else's analysis came in between


def lines_of(text: str) -> list[str]:
    """Line ends and white space at line ends are an editor's, not a person's."""
    text = text.removeprefix("\ufeff")
    return [line.rstrip() for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")]


def _parsed(text: str) -> Report | None:
    try:
        return parse(text)
    except UnreadableReport:
        return None
