"""Labels that people put in force, and what the page said before: generated lines follow them one analysis later."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from evalscribe.model.finding import CAUSE_KINDS, NOT_THE_MODEL, CauseKind
from evalscribe.model.report import Report, ReportEntry
from evalscribe.proofread.parts import FINDINGS, Part
from evalscribe.report_markdown import labels
from evalscribe.report_markdown.labels import Label
from evalscribe.report_markdown.unreadable import UnreadableReport

MANY = 6
"""Corrections whose every combination is tried."""
CELL = re.compile(r"(?<!\\)\|")
LABEL_CELL = 4
NUMBER = re.compile(r"###\s+(\d+)[.)]")
CAUSE = re.compile(r"- Cause:.*\(([a-z]+)\)")


class Corrected(NamedTuple):
    """A finding that a person touched."""

    line: int
    at: int
    """Index of the entry."""
    states: tuple[ReportEntry, ...]
    """The entry as it is in force, and as it may have been when the lines were generated."""

    @property
    def changed(self) -> bool:
        """Whether more than a doubt may have gone: another label, or another kind."""
        return len({(one.classification, one.cause_kind) for one in self.states}) > 1


def corrections(report: Report, page: Mapping[str, Part]) -> list[Corrected]:
    rows = _row_labels(page.get("classification"))
    found = []
    for at, entry in enumerate(report.entries):
        part = page.get(f"{FINDINGS}/{at + 1}")
        said = _labels(part, rows) if part else []
        if part and (len(set(said)) > 1 or entry.reviewed):
            states = tuple(dict.fromkeys((entry, *_states(entry, said, part))))
            found.append(Corrected(part.line, at, states))
    return [one for one in found if len(one.states) > 1]


def before(report: Report, corrected: Sequence[Corrected]) -> Iterator[Report]:
    """The report as it may have been when its lines were generated, the one in force first.

    Of more than `MANY` corrections only: confirmations as they are, then all as they are, all as the heading, all as
    the table, all as the judge says.
    """
    for states in _choices(corrected):
        entries = list(report.entries)
        for one, entry in zip(corrected, states, strict=True):
            entries[one.at] = entry
        # `model_copy` would keep what was derived from the other labels.
        fields = {name: getattr(report, name) for name in Report.model_fields}
        yield Report.model_construct(**(fields | {"entries": tuple(entries)}))


def _choices(corrected: Sequence[Corrected]) -> Iterator[Sequence[ReportEntry]]:
    if len(corrected) <= MANY:
        yield from product(*(one.states for one in corrected))
        return
    if sum(one.changed for one in corrected) <= MANY:
        yield from product(*(one.states if one.changed else one.states[:1] for one in corrected))
    for at in range(max(len(one.states) for one in corrected)):
        yield [one.states[min(at, len(one.states) - 1)] for one in corrected]


def label_cell(row: str) -> str:
    cells = CELL.split(row)
    return cells[LABEL_CELL].strip() if len(cells) > LABEL_CELL else ""


def without_label(row: str) -> list[str]:
    """The other cells."""
    return [cell.strip() for at, cell in enumerate(CELL.split(row)) if at != LABEL_CELL]


def _row_labels(table: Part | None) -> dict[str, str]:
    rows = (CELL.split(line) for line in (table.lines if table else ()) if line.startswith("|"))
    return {cells[1].strip(): cells[LABEL_CELL] for cells in rows if len(cells) > LABEL_CELL}


def _labels(part: Part, rows: Mapping[str, str]) -> list[Label]:
    """Of heading and row, as far as they can be read."""
    number = NUMBER.match(part.lines[0])
    sources = [part.lines[0].rpartition(":")[2], rows.get(number[1], "") if number else ""]
    return [label for source in sources if (label := _label(source, part.line))]


def _label(source: str, line: int) -> Label | None:
    try:
        return labels.parse(source, line)
    except UnreadableReport:
        return None


def _states(entry: ReportEntry, said: Sequence[Label], part: Part) -> Iterator[ReportEntry]:
    kind = _caused(part)
    for label in said:
        yield _as(entry, label, kind)
    judged = entry.judge.classification if entry.judge else None
    for uncertain in (entry.uncertain, not entry.uncertain):
        printed = kind if kind in NOT_THE_MODEL else None
        yield _as(entry, Label(classification=judged, kind=printed, uncertain=uncertain), kind)


def _as(entry: ReportEntry, label: Label, kind: CauseKind | None) -> ReportEntry:
    usual = None if kind in NOT_THE_MODEL else kind
    changes = {
        "classification": label.classification,
        "cause_kind": label.kind or usual,
        "uncertain": label.uncertain,
    }
    return entry.model_copy(update=changes)


def _caused(part: Part) -> CauseKind | None:
    match = next((match for line in part.lines if (match := CAUSE.fullmatch(line))), None)
    return next((kind for kind in CAUSE_KINDS if match and kind == match[1]), None)
