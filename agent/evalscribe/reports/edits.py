"""Find people's edits between the text last written and the page, and carry them over to a new report."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from evalscribe.model.finding import Pattern, Recommendation
from evalscribe.model.report import Report, ReportEntry, ReportNote, replaced
from evalscribe.reports.markdown import snippets
from evalscribe.reports.markdown.blocks import UnreadableReport
from evalscribe.reports.markdown.page import parse, render
from evalscribe.reports.proofread import lines_of
from evalscribe.text import prose


class EditedReport(NamedTuple):
    """A report with its corrections in force, and as evalscribe last wrote it."""

    text: str
    current: Report
    """The current report."""
    written: Report | None
    """None if the text last written is unknown, or is not the one that people edited."""
    written_text: str | None
    sure: bool = True
    """True if the text last written is known for certain."""

    def unexplained(self, new: Report) -> bool:
        """Return True if the text last written is uncertain and the new report is about the same evidence.

        Differences about the run are then a person's edits, and differences from the same judge's words may be.
        """
        return not (self.sure and self.written) and self.current.evidence == new.evidence


def read_edited(current: str, last_written: str | None) -> EditedReport:
    """Parse both texts.

    Raises:
        UnreadableReport: The page cannot be read; the error gives the lines.
        ConflictingEdits: Two edits contradict each other.
    """
    written = _parsed(last_written) if last_written is not None else None
    if written is None:
        return EditedReport(current, parse(current), None, None)
    report = written if current == last_written else parse(current, written)
    if (report.revision, report.run.id) == (written.revision, written.run.id):
        return EditedReport(current, report, written, last_written)
    return EditedReport(current, parse(current), None, None)  # another analysis was written in between


def same_text(text: str, other: str) -> bool:
    return lines_of(text.rstrip()) == lines_of(other.rstrip())


def _parsed(text: str) -> Report | None:
    try:
        return parse(text)
    except UnreadableReport:
        return None


def find_base(current: str, texts: Iterable[str]) -> str | None:
    """Return the one of a report's committed `texts`, oldest first, that the current text was made from.

    Only an unedited text qualifies; None if people edited before they committed. The text may still contain a person's
    edits, because commits are squashed.
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


GENERATED = ("why", "error", "reasoning")
"""Fields that a judge writes; a person's rewording of them is preserved as a note."""


def carried(entries: tuple[ReportEntry, ...], old: Report, written: Report | None) -> tuple[ReportEntry, ...]:
    """Carry the corrections of the old entries over to the new entries of the same evals.

    A group is split if people treated its evals differently; each part gets its own correction.
    """
    last = by_path(written) if written else {}
    known = {path: entry for path, entry in by_path(old).items() if _touched(entry, last.get(path))}
    divided = (part for entry in entries for part in parts(entry, known))
    return tuple(_corrected(part, known.get(part.paths[0]), last.get(part.paths[0])) for part in divided)


def worded(entries: tuple[ReportEntry, ...], old: Report) -> tuple[ReportEntry, ...]:
    """Add notes with the same judge's earlier wording where its author is unknown."""
    known = by_path(old)
    pairs = ((entry, known.get(entry.paths[0])) for entry in entries)
    return tuple(
        replaced(new, notes=tuple(other_words(new, old))) if old and old.paths == new.paths else new
        for new, old in pairs
    )


def other_words(new: ReportEntry, old: ReportEntry) -> Iterator[str]:
    """Yield differing wordings; a judge repeats itself on the same evidence, so a difference may be a person's."""
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
    """Yield people's notes on evals that no longer fail."""
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
    """Return True if a person edited the entry."""
    return entry.reviewed or bool(entry.notes) or (written is not None and entry != written)


def parts(entry: ReportEntry, known: Mapping[str, ReportEntry]) -> Iterator[ReportEntry]:
    """Split the entry if its evals belong to different `known` entries."""
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
    """Yield lines that preserve a correction which the page would otherwise no longer show."""
    if old.reviewer:
        return
    if old.reviewed and new.judge and new.judge.classification == old.classification:
        yield f"{old.classification}, before the judge said so"
    elif written and not old.reviewed and old.uncertain != written.uncertain:
        yield "uncertain" if old.uncertain else "not uncertain"
    elif written and not old.reviewed and (old.cause, old.cause_kind) != (written.cause, written.cause_kind):
        yield f"cause {old.cause or 'unknown'} ({old.cause_kind or 'of no kind'})"


def _rewordings(new: ReportEntry, old: ReportEntry, written: ReportEntry | None) -> Iterator[str]:
    """Yield a person's rewordings of the judge's text."""
    for field in GENERATED if written else ():
        text = getattr(old, field)
        if text and text not in (getattr(written, field), getattr(new, field)):
            yield text
    if not written and _reasoning_among(old.notes, new):
        yield old.reasoning


def _reasoning_among(notes: tuple[str, ...], new: ReportEntry) -> bool:
    """Return True if an apparent note is the judge's reasoning: then the person wrote the paragraph above it."""
    return bool(new.reasoning) and any(prose(note) == new.reasoning for note in notes)


OF_OTHER_REPORTS = ("recurring", "across-models")
"""Kinds of patterns that depend on other reports."""


def reworded(old: Report, written: Report | None, new: Report) -> Iterator[ReportNote]:
    """Yield texts that match neither the text last written nor the new one.

    Without the text last written, the same judges on the same evidence are assumed to repeat themselves, unless a
    correction has changed the text.
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


def numbered(
    new: Sequence[Recommendation], old: Sequence[Recommendation], actions: str = ""
) -> tuple[Recommendation, ...]:
    """Reuse the ids of old recommendations that the new ones continue; number others after the highest id.

    An id that people mentioned in `actions` (`Actions taken`) is never reused for something else.
    """
    kept = _continued(new, old)
    known = [item.id[1:] for item in old if item.id] + re.findall(r"\bR(\d{1,4})\b", actions)
    number = max(map(int, known), default=0)
    result = []
    for at, item in enumerate(new):
        if item.id is not None and at not in kept:
            number += 1
        result.append(item if item.id is None else replaced(item, id=kept.get(at) or f"R{number}"))
    return tuple(result)


def _continued(new: Sequence[Recommendation], old: Sequence[Recommendation]) -> dict[int, str]:
    """Return ids by position, matching the most similar pairs first; each id is used once."""
    pairs = (
        (_likeness(item, other), -at, other.id)
        for at, item in enumerate(new)
        for other in old
        if item.id is not None and other.id is not None
    )
    kept: dict[int, str] = {}
    for likeness, at, id_ in sorted(pairs, reverse=True):
        if likeness > 0 and -at not in kept and id_ not in kept.values():
            kept[-at] = id_
    return kept


def _likeness(item: Recommendation, other: Recommendation) -> float:
    """Return a similarity: 0 for nothing in common; compares text, then the share of common evals, then the group."""
    overlap = _share(item.evals, other.evals)
    same_text = item.text == other.text
    return 0.0 if not (same_text or overlap) else 4 * same_text + 2 * overlap + (item.group == other.group)


def _share(some: Iterable[str], others: Iterable[str]) -> float:
    a, b = set(some), set(others)
    return len(a & b) / len(a | b) if a | b else 0.0
