"""Merge two copies of one run's report, edited by different people."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

from evalscribe.model.report import Report, ReportEntry, ReportNote, replaced
from evalscribe.reports.edits import (
    GENERATED,
    EditedReport,
    by_path,
    departed,
    other_words,
    parts,
    read_edited,
    reworded,
    same_text,
)
from evalscribe.reports.markdown.blocks import ConflictingEdits, UnreadableReport
from evalscribe.reports.markdown.page import render
from evalscribe.reports.markdown.places import locate_findings
from evalscribe.reports.merge import refuse_changed_facts, refuse_losses

T = TypeVar("T")


class ReportCopies(NamedTuple):
    """The copy whose analysis is used, the other copy, and the report as written before either was edited."""

    lead: EditedReport
    other: EditedReport
    base: Report | None
    ours_lead: bool


def reconcile(ours: str, theirs: str, last_written: str | None) -> str:
    """Return the newer analysis (ours if equally new) with the edits of both copies.

    Args:
        ours: Our copy.
        theirs: The other copy.
        last_written: The text that evalscribe wrote before people edited it, ideally the common ancestor; its content
            does not count as an edit.

    Raises:
        ConflictingEdits: Two people gave one finding different labels; the error names both lines.
        UnreadableReport: A copy cannot be read, or text would be lost.
    """
    if same_text(theirs, ours) or (last_written is not None and same_text(theirs, last_written)):
        return ours
    copies = _copies(ours, theirs, last_written)
    if last_written is not None and same_text(ours, last_written) and copies.other.written:
        return theirs
    text = render(_united(copies))
    for one, other in ((copies.lead, copies.other), (copies.other, copies.lead)):
        refuse_changed_facts(one, other.current)
        refuse_losses(one, text)
    return next((copy.text for copy in (copies.lead, copies.other) if same_text(text, copy.text)), text)


def _copies(ours: str, theirs: str, last_written: str | None) -> ReportCopies:
    mine = _read(ours, last_written, "in our copy")
    other = _read(theirs, last_written, "in the other copy")
    if mine.current.run.id != other.current.run.id:
        raise UnreadableReport("the two copies are reports of different runs", 1, 1)
    base = mine.written or other.written
    if mine.current.revision >= other.current.revision:
        return ReportCopies(mine, other, base, ours_lead=True)
    return ReportCopies(other, mine, base, ours_lead=False)


def _read(text: str, last_written: str | None, which: str) -> EditedReport:
    try:
        reading = read_edited(text, last_written)
    except UnreadableReport as error:
        raise type(error)(f"{which}: {error.reason}", *error.lines) from error
    return reading if _of_one_analysis(reading) else read_edited(text, None)


def _of_one_analysis(reading: EditedReport) -> bool:
    """Return True if both texts are of one analysis: two machines can each have written a second revision."""
    now, then = reading.current, reading.written
    return then is None or (now.judges, now.evidence) == (then.judges, then.evidence)


def _united(copies: ReportCopies) -> Report:
    lead, other, base = copies.lead.current, copies.other.current, copies.base
    entries = tuple(_entries(copies))
    notes = _of_both(lead.notes, other.notes, base.notes if base else ())
    found = (*departed(other, entries), *reworded(other, copies.other.written, lead))
    added = (ReportNote(section=note.section, text=note.text) for note in found)
    return replaced(
        lead,
        date=min(lead.date, other.date),
        entries=entries,
        notes=tuple(dict.fromkeys((*notes, *added))),
        actions_taken=_actions(lead.actions_taken, other.actions_taken, base.actions_taken if base else ""),
    )


def _of_both(lead: Sequence[T], other: Sequence[T], base: Sequence[T]) -> tuple[T, ...]:
    """Return everything in either copy, except what one person removed."""
    kept = [item for item in lead if item in other or item not in base]
    return tuple(dict.fromkeys((*kept, *(item for item in other if item not in lead and item not in base))))


def _actions(lead: str, other: str, base: str) -> str:
    if lead == other or other == base:
        return lead
    if lead == base:
        return other
    new = [line for line in other.split("\n") if line not in lead.split("\n")]
    return "\n".join((lead, *new))


def _entries(copies: ReportCopies) -> Iterator[ReportEntry]:
    """Yield the lead's entries, splitting a group whose evals were treated differently in the other copy."""
    base = by_path(copies.base) if copies.base else {}
    known = by_path(copies.other.current)
    edited = {path: entry for path, entry in known.items() if _edited(entry, base.get(path))}
    for entry in copies.lead.current.entries:
        for part in parts(entry, edited):
            path = part.paths[0]
            yield _entry(copies, part, known[path], base.get(path)) if path in known else part


def _edited(entry: ReportEntry, base: ReportEntry | None) -> bool:
    return entry.reviewed or bool(entry.notes) or (base is not None and entry != base)


def _entry(copies: ReportCopies, lead: ReportEntry, other: ReportEntry, base: ReportEntry | None) -> ReportEntry:
    labelled = other if _gave(other, base) else lead
    if labelled is other and _gave(lead, base):
        if _contradict(lead, other, base):
            raise _contradiction(copies, lead, other)
        labelled = other if base and lead.cause_kind == base.cause_kind else lead
    of_base = base or replaced(lead, reviewer=(), notes=())
    notes = _of_both(lead.notes, other.notes, of_base.notes)
    return replaced(
        lead,
        **dict(_wording(copies, lead, other)),
        classification=labelled.classification,
        uncertain=labelled.uncertain,
        cause=labelled.cause or lead.cause,
        cause_kind=labelled.cause_kind,
        reviewer=_of_both(lead.reviewer, (*other.reviewer, *_unsaid(lead, other)), of_base.reviewer),
        notes=tuple(dict.fromkeys((*notes, *_rewordings(copies, lead, other)))),
    )


def _gave(entry: ReportEntry, base: ReportEntry | None) -> bool:
    """Return True if a person gave or confirmed the label after `base` was written."""
    if base is None:
        return entry.reviewed
    same = all(getattr(entry, name) == getattr(base, name) for name in ("classification", "cause_kind", "uncertain"))
    if same and set(entry.reviewer) <= set(base.reviewer):
        return False
    return entry.reviewed or entry.judge == base.judge


def _contradict(lead: ReportEntry, other: ReportEntry, base: ReportEntry | None) -> bool:
    kinds = {lead.cause_kind, other.cause_kind} - ({base.cause_kind} if base else set())
    return lead.classification != other.classification or len(kinds) > 1


def _contradiction(copies: ReportCopies, lead: ReportEntry, other: ReportEntry) -> ConflictingEdits:
    """Return the error, with our line first."""
    said = ((copies.lead, lead), (copies.other, other))
    ours, theirs = said if copies.ours_lead else said[::-1]
    return ConflictingEdits(
        f"two people labelled {lead.paths[0]} differently: our copy says {_label(ours[1])}, the other one "
        f"{_label(theirs[1])}; make them equal",
        _line(*ours),
        _line(*theirs),
    )


def _label(entry: ReportEntry) -> str:
    return f"{entry.classification or 'UNCLASSIFIED'} ({entry.cause_kind or 'of no kind'})"


def _line(copy: EditedReport, entry: ReportEntry) -> int:
    """Return the line of the heading that names the entry's first eval."""
    at = next(n for n, one in enumerate(copy.current.entries) if set(one.paths) & set(entry.paths))
    return list(locate_findings(copy.text).values())[at].heading


def _unsaid(lead: ReportEntry, other: ReportEntry) -> Iterator[str]:
    """Yield a correction that would not show otherwise, because the newer judge agrees with it."""
    agrees = lead.judge is not None and lead.judge.classification == other.classification
    if agrees and other.reviewed and not other.reviewer and lead.judge != other.judge:
        yield f"{other.classification}, before the judge said so"


def _wording(copies: ReportCopies, lead: ReportEntry, other: ReportEntry) -> Iterator[tuple[str, object]]:
    """Yield people's rewordings in the other copy of the analysis that is used."""
    written = by_path(copies.lead.written).get(lead.paths[0]) if copies.lead.written else None
    for name in GENERATED if written and copies.other.written else ():
        if getattr(lead, name) == getattr(written, name):
            yield name, getattr(other, name)


def _rewordings(copies: ReportCopies, lead: ReportEntry, other: ReportEntry) -> Iterator[str]:
    """Yield further rewordings as notes. Without the text last written, only an equal verdict is evidence of one."""
    written = by_path(copies.other.written).get(other.paths[0]) if copies.other.written else None
    if written is None:
        yield from other_words(lead, other)
        return
    kept = dict(_wording(copies, lead, other))
    for name in GENERATED:
        text = getattr(other, name)
        if text and text not in (getattr(lead, name), kept.get(name), getattr(written, name, None)):
            yield text
