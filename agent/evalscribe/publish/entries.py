"""Findings of a new report with what people wrote into those of the last one."""

from collections.abc import Iterator, Mapping
from itertools import groupby

from evalscribe.model.report import Report, ReportEntry, ReportNote, replaced
from evalscribe.report_markdown import snippets
from evalscribe.text import prose

GENERATED = ("why", "error", "reasoning")
"""What a judge writes; a person's wording of it is kept as a note."""


def carried(entries: tuple[ReportEntry, ...], old: Report, written: Report | None) -> tuple[ReportEntry, ...]:
    """The new entries, corrected as the old ones of the same evals.

    A group whose evals people had treated differently is split: each part has its own correction.
    """
    last = by_path(written) if written else {}
    known = {path: entry for path, entry in by_path(old).items() if _touched(entry, last.get(path))}
    divided = (part for entry in entries for part in parts(entry, known))
    return tuple(_corrected(part, known.get(part.paths[0]), last.get(part.paths[0])) for part in divided)


def worded(entries: tuple[ReportEntry, ...], old: Report) -> tuple[ReportEntry, ...]:
    """The new entries with a note of what the same judge is said to have written, where nobody knows who wrote it."""
    known = by_path(old)
    pairs = ((entry, known.get(entry.paths[0])) for entry in entries)
    return tuple(
        replaced(new, notes=tuple(other_words(new, old))) if old and old.paths == new.paths else new
        for new, old in pairs
    )


def other_words(new: ReportEntry, old: ReportEntry) -> Iterator[str]:
    """A judge says the same again of the same evidence."""
    judges = [entry.judge.id if entry.judge else None for entry in (new, old)]
    if judges[0] != judges[1]:
        return
    if not old.reviewed and old.cause and (old.cause, old.cause_kind) != (new.cause, new.cause_kind):
        yield f"Cause: {old.cause} ({old.cause_kind or 'of no kind'})"
    for field in GENERATED:
        if (text := getattr(old, field)) and text != getattr(new, field):
            yield text
    if old.snippets and old.snippets != new.snippets:
        yield "\n".join(snippets.render(old.snippets))


def departed(old: Report, entries: tuple[ReportEntry, ...]) -> Iterator[ReportNote]:
    """What people said about evals that are no longer among the failures."""
    here = {path for entry in entries for path in entry.paths}
    for entry in old.entries:
        if (entry.reviewed or entry.notes) and not here.intersection(entry.paths):
            own = (entry.why, entry.error, entry.reasoning) if entry.judge is None and entry.classification else ()
            said = [*(f"Reviewer: {text}" for text in entry.reviewer), *filter(None, own), *entry.notes]
            label = entry.classification or "not classified"
            which = "Not among the failures that the source lists" if own else "No longer among the failures"
            text = "\n\n".join((f"{which}: {', '.join(entry.paths)} ({label}).", *said))
            yield ReportNote(section="findings", text=text)


def by_path(report: Report) -> Mapping[str, ReportEntry]:
    return {path: entry for entry in report.entries for path in entry.paths}


def _touched(entry: ReportEntry, written: ReportEntry | None) -> bool:
    """Whether a person wrote into the entry."""
    return entry.reviewed or bool(entry.notes) or (written is not None and entry != written)


def parts(entry: ReportEntry, known: Mapping[str, ReportEntry]) -> Iterator[ReportEntry]:
    """The entry, divided where its evals belong to different ones of the `known`."""
    order = {id(old): number for number, old in enumerate(known.values())}
    of = {ref: order[id(known[ref.path])] if ref.path in known else -1 for ref in entry.evals}
    for _, refs in groupby(sorted(entry.evals, key=lambda ref: of[ref]), key=lambda ref: of[ref]):
        yield replaced(entry, evals=tuple(refs))


def _corrected(new: ReportEntry, old: ReportEntry | None, written: ReportEntry | None) -> ReportEntry:
    if old is None:
        return new
    said = (*old.reviewer, *_unsaid(new, old, written))
    said_before = (note for note in old.notes if prose(note) != new.reasoning)
    notes = tuple(dict.fromkeys((*said_before, *new.notes, *_rewordings(new, old, written))))
    if old.classification is None or not (old.reviewed or said):
        return replaced(new, reviewer=said, notes=notes)
    return replaced(
        new,
        classification=old.classification,
        uncertain=old.uncertain,
        cause=old.cause or new.cause,
        cause_kind=old.cause_kind,
        reviewer=said,
        notes=notes,
    )


def _unsaid(new: ReportEntry, old: ReportEntry, written: ReportEntry | None) -> Iterator[str]:
    """Lines that keep a correction visible which nothing else on the page would show from now on."""
    if old.reviewer:
        return
    if old.reviewed and new.judge and new.judge.classification == old.classification:
        yield f"{old.classification}, before the judge said so"
    elif written and not old.reviewed and old.uncertain != written.uncertain:
        yield "uncertain" if old.uncertain else "not uncertain"
    elif written and not old.reviewed and (old.cause, old.cause_kind) != (written.cause, written.cause_kind):
        yield f"cause {old.cause or 'unknown'} ({old.cause_kind or 'of no kind'})"


def _rewordings(new: ReportEntry, old: ReportEntry, written: ReportEntry | None) -> Iterator[str]:
    """A person's own wording of what the judge wrote."""
    for field in GENERATED if written else ():
        text = getattr(old, field)
        if text and text not in (getattr(written, field), getattr(new, field)):
            yield text
    if not written and _reasoning_among(old.notes, new):
        yield old.reasoning


def _reasoning_among(notes: tuple[str, ...], new: ReportEntry) -> bool:
    """Whether what was read as a person's note is our reasoning: then the person wrote the paragraph above it."""
    return bool(new.reasoning) and any(prose(note) == new.reasoning for note in notes)
