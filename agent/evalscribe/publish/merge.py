"""A new report with everything that people wrote into the one on disk."""

from evalscribe.ids import Frozen
from evalscribe.model.finding import Recommendation
from evalscribe.model.report import Report, ReportNote, replaced
from evalscribe.publish.entries import by_path, carried, departed, worded
from evalscribe.publish.facts import refuse_changed_facts
from evalscribe.publish.losses import refuse_losses
from evalscribe.publish.numbering import numbered
from evalscribe.publish.reading import Reading, read, same_text
from evalscribe.publish.rewordings import reworded
from evalscribe.report_markdown.page import render


class Merged(Frozen):
    """What belongs on disk."""

    report: Report
    text: str
    changed: bool
    """Whether the text has to be written."""
    back: tuple[str, ...] = ()
    """Evals whose findings people had taken out, and which still fail."""


def merge(new: Report, current: str | None, last_written: str | None, begun: str | None = None) -> Merged:
    """The new report, corrections, notes and actions of the current text kept; a higher revision where it differs.

    `last_written` is the text that evalscribe wrote last, where the store knows it; `begun` stands in for it where it
    does not. Raises `UnreadableReport` with the line for text that could not be kept, `ConflictingEdits` for labels
    that contradict each other.
    """
    if current is None:
        return Merged(report=new, text=render(new), changed=True)
    reading = read(current, last_written or begun)._replace(sure=last_written is not None)
    refuse_changed_facts(reading, new)
    report = _kept(new, reading)
    text = render(report)
    if same_text(text, current):
        return Merged(report=report, text=current, changed=False)
    report = replaced(report, revision=reading.current.revision + 1)
    text = render(report)
    refuse_losses(reading, text)
    return Merged(report=report, text=text, changed=True, back=_back(reading, new))


def _back(reading: Reading, new: Report) -> tuple[str, ...]:
    here = by_path(reading.current)
    written = new if reading.unexplained(new) else reading.written
    before = by_path(written) if written else {}
    return tuple(path for path in by_path(new) if path in before and path not in here)


def _kept(new: Report, reading: Reading) -> Report:
    old = reading.current
    entries = worded(new.entries, old) if reading.unexplained(new) else new.entries
    entries = carried(entries, old, reading.written)
    notes = [*old.notes, *departed(old, entries), *reworded(old, reading.written, new)]
    return replaced(
        new,
        date=old.date,
        revision=old.revision,
        entries=entries,
        recommendations=numbered(new.recommendations, _proposed(reading), old.actions_taken),
        actions_taken=old.actions_taken,
        notes=tuple(dict.fromkeys(ReportNote(section=note.section, text=note.text) for note in notes)),
    )


def _proposed(reading: Reading) -> tuple[Recommendation, ...]:
    """Those of the page, and those that were on it before somebody wrote over them."""
    here = {item.id for item in reading.current.recommendations}
    written = reading.written.recommendations if reading.written else ()
    return (*reading.current.recommendations, *(item for item in written if item.id not in here))
