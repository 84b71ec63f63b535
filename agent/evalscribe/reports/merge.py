"""Merge reports, and refuse to lose any edit of people.

A new report is merged with the edits of the page; two copies of one run's report are merged with each other.
"""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple, TypeVar

from evalscribe.ids import Frozen
from evalscribe.model.finding import Recommendation
from evalscribe.model.report import Report, ReportEntry, ReportNote, RunHeader, replaced
from evalscribe.reports.edits import (
    GENERATED,
    EditedReport,
    by_path,
    carried,
    departed,
    numbered,
    other_words,
    parts,
    read_edited,
    reworded,
    same_text,
    worded,
)
from evalscribe.reports.markdown import fields
from evalscribe.reports.markdown.blocks import ConflictingEdits, UnreadableReport
from evalscribe.reports.markdown.page import render
from evalscribe.reports.markdown.places import locate_findings
from evalscribe.reports.proofread import TOP, check_generated_lines, lines_of, page_parts, without_label

READ_ALREADY = re.compile(r"### \d+[.)] .*: |revision: *\d+$")
"""Lines whose edits are handled elsewhere: a finding's heading, the revision."""
ROW = re.compile(r"\|\s*\d+\s*\|(?:.*(?<!\\)\|){5}")
REVIEWER = re.compile(rf"^[\s>*_#+-]*{fields.REVIEWER.pattern}", re.IGNORECASE)
RULE = re.compile(r"\s*[|:-][\s|:-]*")
"""Separator lines of tables and rules."""
RECOMMENDED = re.compile(r"^- [^:]*: ")
LOST = "would be lost; say it on a `Reviewer:` line or in a paragraph of its own"
NUMBERED = re.compile(r"\bR\d+\b")
MARKERS = re.compile(r"^[\s>*+-]+|^#+\s|\s#+$|[`*_\\|]")


def refuse_losses(reading: EditedReport, new: str) -> None:
    """Check that the new text contains every line that a person changed.

    If the text last written is unknown, a changed line is one that would not be printed from the parsed page. Raises
    `UnreadableReport` naming the first missing line.
    """
    lines = lines_of(new)
    kept = "\n".join(map(_bare, lines)) + " ".join(map(_bare, lines))
    for number, line, known in _suspects(reading):
        if READ_ALREADY.match(line) or RULE.fullmatch(line):
            continue
        if not all(_bare(part) in kept for part in _parts(line, known)):
            raise UnreadableReport(f"this line was changed in a part that is generated, and {LOST}", number)


def _suspects(reading: EditedReport) -> Iterator[tuple[int, str, str]]:
    """Yield number and text of each line that a person may have written, and the text whose head is known to be
    generated.
    """
    current = lines_of(reading.text)
    if reading.written_text is not None:
        changed = _changed(lines_of(reading.written_text), current)
        yield from ((number, line, reading.written_text) for number, line in changed)
        return
    page = page_parts(reading.text)
    yield from ((number, line, "") for number, line in enumerate(current[: page[TOP].line - 1], 1) if "#" in line)
    for said in check_generated_lines(reading.current, page):
        if said.level == "error":
            yield from ((number, line, "") for number, line in _paragraph(current, said.line))


def _paragraph(lines: list[str], first: int) -> Iterator[tuple[int, str]]:
    """Yield the line and, in the first generated paragraph, the lines that follow it."""
    yield first, lines[first - 1]
    for number in range(first + 1, len(lines) + 1) if lines[first - 1].startswith("**") else ():
        if not lines[number - 1] or lines[number - 1].startswith(("|", ">")):
            return
        yield number, lines[number - 1]


def _changed(written: list[str], current: list[str]) -> Iterator[tuple[int, str]]:
    """Yield lines that a person added or changed, with their numbers."""
    for kind, _, _, first, last in SequenceMatcher(None, written, current).get_opcodes():
        if kind in ("insert", "replace"):
            yield from enumerate(current[first:last], first + 1)


def _parts(line: str, known: str) -> list[str]:
    """Return the parts that must appear again: cells without the label for a classification row, words for other lines.

    A recommendation is preserved as a note without its head if that is `known` to be generated.
    """
    if ROW.match(line):
        return without_label(line)
    head = RECOMMENDED.match(line)
    said = line[head.end() :] if head and head[0] in known else line
    return [REVIEWER.sub("", said)]


def _bare(line: str) -> str:
    """Return only the words, without list, quotation and code markers and generated numbers."""
    return NUMBERED.sub("R", " ".join(MARKERS.sub("", line).split()))


JUDGE = re.compile(r"\W*judge\b", re.IGNORECASE)


def refuse_changed_facts(reading: EditedReport, new: Report) -> None:
    """Check that no fact was changed. Raises `UnreadableReport` with the line of the first change."""
    for reason, *lines in (*_judges(reading), *_run(reading, new)):
        raise UnreadableReport(reason, *lines)


def _judges(reading: EditedReport) -> Iterator[tuple[str, int] | tuple[str, int, int]]:
    """Find changed `Judge:` lines, and judges missing from the front matter; only the heading may be edited."""
    written = {entry.paths: entry.judge for entry in reading.written.entries} if reading.written else {}
    for number, entry in enumerate(reading.current.entries, 1):
        if written.get(entry.paths, entry.judge) != entry.judge:
            reason = "this is the judge's own label; correct the one in the finding's heading"
            yield reason, _line_of_judge(reading.text, number)
        elif entry.judge and entry.judge.id not in reading.current.judges:
            reason = f"finding {number} was judged by {entry.judge.id}, which the front matter leaves out"
            yield reason, _line_of_judge(reading.text, number), 1


def _run(reading: EditedReport, new: Report) -> Iterator[tuple[str, int]]:
    """Find changed facts about the run; if the text last written is known, `refuse_losses` compares the lines
    instead.
    """
    if not reading.unexplained(new):
        return
    old, lines = reading.current, lines_of(reading.text)
    if _names(old.run) != _names(new.run):
        yield f"the run is of {_names(new.run)}; anything else {LOST}", _row(lines, "Run")
    if old.run.status == new.run.status and _counts(old.run) != _counts(new.run):
        yield f"the run has {_counts(new.run)}; anything else {LOST}", _row(lines, "Result")
    steps = {path: entry.step for entry in new.entries for path in entry.paths}
    for number, entry in enumerate(old.entries, 1):
        if entry.judge and not steps.keys() & set(entry.paths):
            yield f"the run has no failed eval {entry.paths[0]}; another name {LOST}", _row(lines, str(number))
        step = steps.get(entry.paths[0], entry.step)
        if step != entry.step:
            yield f"{entry.paths[0]} failed in the step {step}; anything else {LOST}", _row(lines, str(number))


def _names(run: RunHeader) -> str:
    return f"{run.model} ({run.provider}), experiment {run.experiment}"


def _counts(run: RunHeader) -> str:
    return f"{run.passed} passed, {run.failed} failed, {run.total} in all"


def _row(lines: list[str], first: str) -> int:
    """Return the line of the table row with this first cell."""
    row = re.compile(rf"\|?\s*{re.escape(first)}\s*\|")
    return next((at for at, line in enumerate(lines, 1) if row.match(line)), 1)


def _line_of_judge(text: str, finding: int) -> int:
    lines = list(enumerate(lines_of(text), 1))
    heading = next((at for at, line in lines if line.startswith(f"### {finding}.")), 1)
    end = next((at for at, line in lines[heading:] if line.startswith("## ")), len(lines))
    end = next((at for at, line in lines[heading:end] if line.startswith("### ")), end)
    return next((at for at, line in lines[heading:end] if JUDGE.match(line)), heading)


class MergedReport(Frozen):
    """The text that should be on disk."""

    report: Report
    text: str
    changed: bool
    """True if the text has to be written."""
    back: tuple[str, ...] = ()
    """Evals whose findings people removed and which still fail."""


def merge_report(new: Report, current: str | None, last_written: str | None, begun: str | None = None) -> MergedReport:
    """Merge the new report with the corrections, notes and actions of the current text; raise the revision if it
    differs.

    Args:
        new: The new report.
        current: The current text, if any.
        last_written: The text that evalscribe last wrote, if stored.
        begun: Substitute if `last_written` is unknown.

    Raises:
        UnreadableReport: Text would be lost; the error gives the line.
        ConflictingEdits: Labels contradict each other.
    """
    if current is None:
        return MergedReport(report=new, text=render(new), changed=True)
    reading = read_edited(current, last_written or begun)._replace(sure=last_written is not None)
    refuse_changed_facts(reading, new)
    report = _kept(new, reading)
    text = render(report)
    if same_text(text, current):
        return MergedReport(report=report, text=current, changed=False)
    report = replaced(report, revision=reading.current.revision + 1)
    text = render(report)
    refuse_losses(reading, text)
    return MergedReport(report=report, text=text, changed=True, back=_back(reading, new))


def _back(reading: EditedReport, new: Report) -> tuple[str, ...]:
    here = by_path(reading.current)
    written = new if reading.unexplained(new) else reading.written
    before = by_path(written) if written else {}
    return tuple(path for path in by_path(new) if path in before and path not in here)


def _kept(new: Report, reading: EditedReport) -> Report:
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


def _proposed(reading: EditedReport) -> tuple[Recommendation, ...]:
    """Return the recommendations of the page, and those that people overwrote."""
    here = {item.id for item in reading.current.recommendations}
    written = reading.written.recommendations if reading.written else ()
    return (*reading.current.recommendations, *(item for item in written if item.id not in here))


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
