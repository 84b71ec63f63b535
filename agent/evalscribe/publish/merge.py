"""A new report with everything that people wrote into the one on disk."""

from evalscribe.ids import Frozen
from evalscribe.publish.entries import carried, departed
from evalscribe.publish.losses import refuse_changed_judges, refuse_losses
from evalscribe.publish.numbering import numbered
from evalscribe.publish.reading import Reading, lines_of, read
from evalscribe.publish.rewordings import reworded
from evalscribe.report import Note, Report, replaced
from evalscribe.report_markdown import render


class Merged(Frozen):
    """What belongs on disk."""

    report: Report
    text: str
    changed: bool
    """Whether the text has to be written."""


def merge(new: Report, current: str | None, last_written: str | None) -> Merged:
    """The new report, corrections, notes and actions of the current text kept; a higher revision where it differs.

    `last_written` is the text that evalscribe wrote last, where the store knows it. Raises `UnreadableReport` with the
    line for text that could not be kept, `ConflictingEdits` for labels that contradict each other.
    """
    if current is None:
        return Merged(report=new, text=render(new), changed=True)
    reading = read(current, last_written)
    refuse_changed_judges(reading)
    report = _kept(new, reading)
    text = render(report)
    if _same(text, current):
        return Merged(report=report, text=current, changed=False)
    report = replaced(report, revision=reading.current.revision + 1)
    text = render(report)
    refuse_losses(current, reading.written_text, text)
    return Merged(report=report, text=text, changed=True)


def _kept(new: Report, reading: Reading) -> Report:
    old = reading.current
    entries = carried(new.entries, old, reading.written)
    notes = [*old.notes, *departed(old, entries), *reworded(old, reading.written, new)]
    return replaced(
        new,
        date=old.date,
        revision=old.revision,
        entries=entries,
        recommendations=numbered(new.recommendations, old.recommendations, old.actions_taken),
        actions_taken=old.actions_taken,
        notes=tuple(dict.fromkeys(Note(section=note.section, text=note.text) for note in notes)),
    )


def _same(text: str, current: str) -> bool:
    return lines_of(text.rstrip()) == lines_of(current.rstrip())
