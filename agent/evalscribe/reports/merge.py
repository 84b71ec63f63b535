"""Merge a new report with people's edits of the old page, and merge two copies of a report on one run."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple, TypeVar

from evalscribe.errors import DataError
from evalscribe.ids import Frozen
from evalscribe.model.finding import Recommendation
from evalscribe.model.report import Report, ReportEntry, ReportNote, replaced
from evalscribe.model.repository import has_data
from evalscribe.reports.blocks import ConflictingEdits, UnreadableReport
from evalscribe.reports.page import render
from evalscribe.reports.page_edits import (
    PageEdits,
    finding_line,
    merge_edits,
    merge_lines,
    normalised,
    read_edits,
    unmerged,
    with_front,
)
from evalscribe.reports.reading import PageSource, read_page
from evalscribe.reports.reformatting import NumberedLines, undo_formatting
from evalscribe.text import prose

T = TypeVar("T")


class MergedReport(Frozen):
    """The merged report and its page."""

    report: Report
    text: str
    changed: bool
    """True if the text of the merged page differs from the page on disk."""


def merge_report(new: Report, text: str, edits: PageEdits) -> MergedReport:
    """Merge the new report with the edits that people made on the current page. If the merged page differs from the
    current page, its revision is increased.

    Args:
        new: The new report.
        text: The text of the current page as it is on disk.
        edits: What `read_page` returned for the current page.

    Raises:
        UnmergedEdits: People edited generated text that the new report changes as well.
    """
    report = carry_over(new, edits)
    if _same_page(text, _page(report, edits)):
        return MergedReport(report=report, text=text, changed=False)
    report = replaced(report, revision=edits.written.revision + 1)
    return MergedReport(report=report, text=_page(report, edits), changed=True)


def _same_page(text: str, other: str) -> bool:
    """Return whether two pages are the same, apart from differences that a formatter can make."""
    lines = normalised(text).split("\n")
    return undo_formatting(NumberedLines(lines, [0] * len(lines)), other.split("\n")).text == other


def _page(report: Report, edits: PageEdits) -> str:
    """Return the new page, with the edits that people made to generated text on the old page.

    Raises `UnmergedEdits` if these edits cannot be merged, or if parsing the merged page would give a different report.
    """
    rendered = render(report)
    if not edits.mergeable:
        return rendered
    text = merge_edits(edits, rendered)
    if text != rendered:
        try:
            same = read_edits(text, report, (rendered,)).report == report
        except UnreadableReport:
            same = False
        if not same:
            raise unmerged(edits, "edited so that the new page would be misread")
    return text


def carry_over(new: Report, edits: PageEdits) -> Report:
    """Return the new report, with the corrections, notes, actions, date and revision of the old page."""
    old = edits.report
    entries = carried(new.entries, old, edits.written)
    notes = [*old.notes, *departed(old, entries)]
    return replaced(
        new,
        # The date says when the report was begun. It is also in the name of the file.
        date=old.date,
        revision=edits.written.revision,
        entries=entries,
        recommendations=numbered(new.recommendations, edits.written.recommendations, old.actions_taken),
        actions_taken=old.actions_taken,
        notes=tuple(dict.fromkeys(ReportNote(section=note.section, text=note.text) for note in notes)),
    )


def carried(entries: tuple[ReportEntry, ...], old: Report, written: Report) -> tuple[ReportEntry, ...]:
    """Copy the corrections of the old entries to the new entries on the same evals.

    A new group is split if the old entries of its evals were corrected differently. Each part of a split group gets its
    own correction.
    """
    last = by_path(written)
    edited = {path: entry for path, entry in by_path(old).items() if _edited(entry, last.get(path))}
    divided = (part for entry in entries for part in _parts(entry, edited))
    return tuple(_corrected(part, edited.get(part.paths[0]), last.get(part.paths[0])) for part in divided)


def departed(old: Report, entries: tuple[ReportEntry, ...]) -> Iterator[ReportNote]:
    """Yield a note for each old entry that people reviewed or added notes to, if its evals no longer fail.

    The note preserves the label, the `Reviewer:` lines and people's notes.
    """
    paths = {path for entry in entries for path in entry.paths}
    for entry in old.entries:
        if (entry.reviewed or entry.notes) and not paths.intersection(entry.paths):
            label = entry.classification or "not classified"
            parts = [*(f"Reviewer: {text}" for text in entry.reviewer), *entry.notes]
            text = "\n\n".join((f"No longer among the failures: {', '.join(entry.paths)} ({label}).", *parts))
            yield ReportNote(section="findings", text=text)


def by_path(report: Report) -> Mapping[str, ReportEntry]:
    return {path: entry for entry in report.entries for path in entry.paths}


def _edited(entry: ReportEntry, written: ReportEntry | None) -> bool:
    return entry.reviewed or bool(entry.notes) or (written is not None and entry != written)


def _parts(entry: ReportEntry, entries_by_path: Mapping[str, ReportEntry]) -> Iterator[ReportEntry]:
    """Split an entry so that each part has only evals from the same entry in `entries_by_path`."""
    order = {id(old): number for number, old in enumerate(entries_by_path.values())}
    of = {ref: order[id(entries_by_path[ref.path])] if ref.path in entries_by_path else -1 for ref in entry.evals}
    for _, refs in groupby(sorted(entry.evals, key=lambda ref: of[ref]), key=lambda ref: of[ref]):
        yield entry.part(tuple(refs))


def _corrected(new: ReportEntry, old: ReportEntry | None, written: ReportEntry | None) -> ReportEntry:
    if old is None:
        return new
    reviewer = (*old.reviewer, *_still_visible(new, old, written))
    # A note that only repeats the reasoning would print the same text twice.
    notes = tuple(note for note in old.notes if prose(note) != new.reasoning)
    if old.classification is None or not (old.reviewed or reviewer):
        return replaced(new, reviewer=reviewer, notes=notes)
    return replaced(
        new,
        classification=old.classification,
        uncertain=old.uncertain,
        cause_kind=old.cause_kind,
        reviewer=reviewer,
        notes=notes,
    )


def _still_visible(new: ReportEntry, old: ReportEntry, written: ReportEntry | None) -> Iterator[str]:
    """Yield a `Reviewer:` line if, without it, the new page would not show that a person made the old correction."""
    if old.reviewer:
        return
    # Nothing else would show that a person gave this label before the judge did.
    if old.reviewed and new.judge and new.judge.classification == old.classification:
        yield f"{old.classification}, before the judge said so"
    elif written and not old.reviewed and old.uncertain != written.uncertain:
        yield "uncertain" if old.uncertain else "not uncertain"


def numbered(
    new: Sequence[Recommendation], old: Sequence[Recommendation], actions: str = ""
) -> tuple[Recommendation, ...]:
    """Give each new recommendation the id of the most similar old recommendation. A new recommendation that is similar
    to no old one gets the next unused number.

    Ids that occur in `actions`, the text of the section `Actions taken`, are not given to other recommendations.
    """
    ids = _continued(new, old)
    # Otherwise an id that people acted on would name another recommendation.
    numbers = [item.id[1:] for item in old if item.id] + re.findall(r"\bR(\d{1,4})\b", actions)
    number = max(map(int, numbers), default=0)
    result = []
    for at, item in enumerate(new):
        if item.id is not None and at not in ids:
            number += 1
        result.append(item if item.id is None else replaced(item, id=ids.get(at) or f"R{number}"))
    return tuple(result)


def _continued(new: Sequence[Recommendation], old: Sequence[Recommendation]) -> dict[int, str]:
    """Map the index of each recommendation in `new` to the id of the most similar recommendation in `old`.

    No id is used twice. Recommendations without a similar one are left out.
    """
    pairs = (
        (_likeness(item, other), -at, other.id)
        for at, item in enumerate(new)
        for other in old
        if item.id is not None and other.id is not None
    )
    ids: dict[int, str] = {}
    # The index `at` is negative, so that of equally similar pairs the first recommendation wins.
    for likeness, at, id_ in sorted(pairs, reverse=True):
        if likeness > 0 and -at not in ids and id_ not in ids.values():
            ids[-at] = id_
    return ids


def _likeness(item: Recommendation, other: Recommendation) -> float:
    """Return a measure of how similar two recommendations are.

    Equal texts count most, then the share of common evals, then the group. The similarity is 0 if the texts differ and
    the recommendations have no eval in common.
    """
    overlap = _share(item.evals, other.evals)
    same_text = item.text == other.text
    return 0.0 if not (same_text or overlap) else 4 * same_text + 2 * overlap + (item.group == other.group)


def _share(first: Iterable[str], second: Iterable[str]) -> float:
    a, b = set(first), set(second)
    return len(a & b) / len(a | b) if a | b else 0.0


class ReportCopies(NamedTuple):
    """Two copies of a report.

    `lead` is the copy whose analysis is used in the merged report.
    """

    lead: PageEdits
    other: PageEdits
    ours_lead: bool


class ReconciledReport(Frozen):
    """A report merged from two copies."""

    report: Report
    text: str
    ours: bool
    """True if the merged report has the analysis of our copy."""


def reconcile(ours: PageSource, theirs: PageSource, bases: Sequence[str] = ()) -> ReconciledReport:
    """Merge two copies of a report: take the newer analysis, and apply the edits that people made in both copies. If
    both analyses are equally new, the analysis of `ours` is used.

    Raises:
        ConflictingEdits: People gave a finding different labels in the two copies. The message has the line of each
            label.
        UnreadableReport: The page of a copy cannot be parsed, the copies are about different runs, or generated text
            that was edited in the copy with the older analysis has changed in the other copy.
        UnmergedEdits: Edits of generated text in the copy with the newer analysis cannot be merged.
        DataError: The data of a copy cannot be read, or the copy with the newer analysis is in the older report format.
    """
    mine, other = _read(ours, bases, "in our copy"), _read(theirs, bases, "in the other copy")
    if mine.report.run.id != other.report.run.id:
        raise UnreadableReport("the two copies are reports of different runs", 1, 1)
    ours_lead = mine.written.revision >= other.written.revision
    copies = ReportCopies(mine, other, True) if ours_lead else ReportCopies(other, mine, False)
    if not copies.lead.mergeable:
        raise DataError("the report is in the older report format; run `evalscribe analyze` on its run again")
    if ours.data == theirs.data and has_data(ours.text):
        for copy, edits, same in ((theirs, other, mine), (ours, mine, other)):
            # The data is the same, and only one page was edited. The next analysis updates the data.
            if same.base_known and same.page == same.base:
                return ReconciledReport(report=edits.report, text=copy.text, ours=ours_lead)
    report = _united(copies)
    rendered = render(report)
    text = merge_edits(copies.lead, rendered)
    if copies.other.mergeable and copies.other.other_text != copies.other.base:
        both = merge_lines(copies.other.other_text, copies.other.base, text) if copies.other.base_known else None
        if both is None:
            first = copies.other.outside_edits[0].line
            which = "our copy" if not ours_lead else "the other copy"
            raise UnreadableReport(f"this line of {which} was edited; the other copy changed the same lines", first)
        text = both
    text = with_front(text, [line for line in copies.other.front if line not in copies.lead.front])
    for copy, edits in ((ours, mine), (theirs, other)):
        # The copy keeps its own bytes, such as its line ends, if the merge changes nothing.
        if normalised(copy.text) == text and has_data(copy.text):
            return ReconciledReport(report=edits.report, text=copy.text, ours=ours_lead)
    return ReconciledReport(report=report, text=text, ours=ours_lead)


def _read(copy: PageSource, bases: Sequence[str], which: str) -> PageEdits:
    try:
        return read_page(copy, bases)
    except UnreadableReport as error:
        raise type(error)(f"{which}: {error.reason}", *error.lines) from error


def _united(copies: ReportCopies) -> Report:
    lead, other = copies.lead.report, copies.other.report
    base, other_base = copies.lead.written, copies.other.written
    entries = tuple(_entries(copies))
    notes = (*_of_both(lead.notes, other.notes, base.notes, other_base.notes), *departed(other, entries))
    return replaced(
        lead,
        date=min(lead.date, other.date),
        entries=entries,
        notes=tuple(dict.fromkeys(notes)),
        actions_taken=_actions(lead.actions_taken, other.actions_taken, base.actions_taken, other_base.actions_taken),
    )


def _of_both(lead: Sequence[T], other: Sequence[T], base: Sequence[T], other_base: Sequence[T]) -> tuple[T, ...]:
    """Return the items of both copies, without items that people removed from one of them.

    `base` and `other_base` have the items in the data of the copies. An item was removed from a copy if the data of
    this copy has the item but the page of this copy does not.
    """
    lead_items = [item for item in lead if item in other or item not in other_base]
    return tuple(dict.fromkeys((*lead_items, *(item for item in other if item not in lead and item not in base))))


def _actions(lead: str, other: str, base: str, other_base: str) -> str:
    if other in (lead, other_base):
        return lead
    if lead == base == other_base:
        return other
    # Both people edited the section, so the new lines of the other copy are added.
    new = [line for line in other.split("\n") if line not in (*lead.split("\n"), *other_base.split("\n"))]
    return "\n".join((lead, *new))


def _entries(copies: ReportCopies) -> Iterator[ReportEntry]:
    """Yield the entries of the lead copy, merged with the edits in the other copy.

    If people edited evals of a group differently in the other copy, the group is split.
    """
    written, entries_by_path = by_path(copies.other.written), by_path(copies.other.report)
    edited = {path: entry for path, entry in entries_by_path.items() if _edited(entry, written.get(path))}
    for entry in copies.lead.report.entries:
        for part in _parts(entry, edited):
            path = part.paths[0]
            yield _entry(copies, part, entries_by_path[path]) if path in entries_by_path else part


def _entry(copies: ReportCopies, lead: ReportEntry, other: ReportEntry) -> ReportEntry:
    path = lead.paths[0]
    base, other_base = by_path(copies.lead.written).get(path), by_path(copies.other.written).get(path)
    labelled = other if _gave(other, other_base, base) else lead
    if labelled is other and _gave(lead, base, other_base):
        if _contradict(lead, other, base):
            raise _contradiction(copies, lead, other)
        # Both people gave this label, and the kind of cause is from the person who changed it.
        labelled = other if base and lead.cause_kind == base.cause_kind else lead
    blank = replaced(lead, reviewer=(), notes=())
    of_lead, of_other = base or blank, other_base or blank
    reviewer = (*other.reviewer, *_newer_judge_agrees(lead, other))
    return replaced(
        lead,
        classification=labelled.classification,
        uncertain=labelled.uncertain,
        cause_kind=labelled.cause_kind,
        reviewer=_of_both(lead.reviewer, reviewer, of_lead.reviewer, of_other.reviewer),
        notes=_of_both(lead.notes, other.notes, of_lead.notes, of_other.notes),
    )


def _gave(entry: ReportEntry, base: ReportEntry | None, other_base: ReportEntry | None) -> bool:
    """Return whether a person gave or confirmed the label in this copy.

    The label can have been given on the page, or in data that the other copy does not have.
    """
    edited = base is not None and not (_same_label(entry, base) and set(entry.reviewer) <= set(base.reviewer))
    common = other_base is not None and other_base.reviewed and _same_label(entry, other_base)
    return edited or (entry.reviewed and not common)


def _same_label(entry: ReportEntry, other: ReportEntry) -> bool:
    return all(getattr(entry, name) == getattr(other, name) for name in ("classification", "cause_kind", "uncertain"))


def _contradict(lead: ReportEntry, other: ReportEntry, base: ReportEntry | None) -> bool:
    kinds = {lead.cause_kind, other.cause_kind} - ({base.cause_kind} if base else set())
    return lead.classification != other.classification or len(kinds) > 1


def _contradiction(copies: ReportCopies, lead: ReportEntry, other: ReportEntry) -> ConflictingEdits:
    """Return the error for labels that contradict each other. The error message names our copy first."""
    pairs = ((copies.lead, lead), (copies.other, other))
    ours, theirs = pairs if copies.ours_lead else pairs[::-1]
    return ConflictingEdits(
        f"two people labelled {lead.paths[0]} differently: our copy says {_label(ours[1])}, the other "
        f"{_label(theirs[1])}; make them equal",
        finding_line(*ours),
        finding_line(*theirs),
    )


def _label(entry: ReportEntry) -> str:
    return f"{entry.classification or 'UNCLASSIFIED'} ({entry.cause_kind or 'of no kind'})"


def _newer_judge_agrees(lead: ReportEntry, other: ReportEntry) -> Iterator[str]:
    """Yield a `Reviewer:` line if a correction would otherwise be invisible because the newer judge agrees with it."""
    agrees = lead.judge is not None and lead.judge.classification == other.classification
    if agrees and other.reviewed and not other.reviewer and lead.judge != other.judge:
        yield f"{other.classification}, before the judge said so"
