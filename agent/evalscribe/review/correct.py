"""A person's label, written into a report as that person would have done it by hand."""

import re
from collections.abc import Mapping
from contextlib import suppress

from evalscribe.errors import DataError
from evalscribe.model.finding import NOT_THE_MODEL, CauseKind, Classification
from evalscribe.redaction.redact import redact
from evalscribe.report_markdown.labels import Label, render
from evalscribe.report_markdown.page import parse
from evalscribe.report_markdown.places import Place, places
from evalscribe.report_markdown.unreadable import ConflictingEdits
from evalscribe.text import mask_code, one_line

LINE_END = re.compile(r"(\r\n|\r|\n)")
CELL_END = re.compile(r"(?<!\\)\|")
LABEL_CELL = 4
TAG = re.compile(r"<(?=[A-Za-z/!?])")
SURE: tuple[Classification, ...] = ("MODEL_FAULT", "AMBIGUOUS_TASK")
"""Labels that leave no doubt about the kind of cause: one that was printed beside another label falls away."""


def corrected(
    text: str, n: int, label: Classification, *, kind: CauseKind | None = None, note: str | None = None
) -> str:
    """The report with finding `n` labelled by a person: its heading, its row, one `Reviewer:` line.

    No other line changes; the same correction again changes nothing. Raises `DataError` for no such finding, and for
    what is no readable report.
    """
    with suppress(ConflictingEdits):  # the correction may well be what settles them
        parse(text)
    place = _found(places(text), n)
    new = Label(classification=label, kind=_kind(place, label, kind))
    page = _Lines(text)
    page[place.heading] = _retitled(page[place.heading], place, new)
    page[place.row] = _relabelled(page[place.row], new)
    said = _said(place, new, one_line(redact(note or "")))
    if said and said not in place.reviewer:
        page.insert_after(place.facts_end, f"{place.marker}Reviewer: {said}", apart=place.facts_end == place.heading)
    return page.text


def in_force(place: Place) -> Label:
    """The label that a person edited, or the judge's: the table may have been corrected instead of the heading."""
    judged = place.judge.classification if place.judge else None
    return place.label if place.label.classification != judged else place.row_label


def _found(found: Mapping[int, Place], n: int) -> Place:
    if n in found:
        return found[n]
    there = f"findings are {min(found)} to {max(found)}" if found else "there are none"
    raise DataError(f"the report has no finding {n}; {there}")


def _kind(place: Place, label: Classification, kind: CauseKind | None) -> CauseKind | None:
    """What the label prints: one that `Cause:` does not tell already, or the old one where nobody said anything."""
    old = in_force(place)
    if kind:
        return kind if kind in NOT_THE_MODEL or kind != place.cause_kind else None
    return old.kind if old.classification == label or label not in SURE else None


def _said(place: Place, new: Label, note: str) -> str | None:
    """What the `Reviewer:` line says; None where the page already shows that a person gave this label."""
    if note:
        return _harmless(note)
    old = in_force(place)
    judged = place.judge.classification if place.judge else None
    if (new.classification, new.kind) != (old.classification, old.kind):
        return f"{render(new)}, not {render(old)}"
    reviewed = old.classification != judged or place.reviewer
    return None if reviewed and not old.uncertain else f"{render(new)} confirmed"


def _harmless(note: str) -> str:
    """HTML is shown, not obeyed; a person's links and mentions are theirs."""
    mask = mask_code(note)
    return "".join(
        f"\\{character}" if TAG.match(mask, at) and not mask[:at].endswith("\\") else character
        for at, character in enumerate(note)
    )


def _retitled(line: str, place: Place, new: Label) -> str:
    start = line.rindex(place.title) + len(place.title)
    closing = re.search(r" +#+ *$", line[start:])
    return f"{line[:start]}{render(new)}{closing[0] if closing else ''}"


def _relabelled(line: str, new: Label) -> str:
    """The row with another label; a column that an editor aligned stays aligned."""
    first = 0 if line.lstrip().startswith("|") else 1
    ends = [match.start() for match in CELL_END.finditer(line)]
    start, end = ends[LABEL_CELL - 1 - first] + 1, ends[LABEL_CELL - first]
    aligned = line[start:end].endswith("  ")
    cell = f" {render(new)} "
    return line[:start] + (cell.ljust(end - start) if aligned else cell) + line[end:]


class _Lines:
    """A page by lines counted from 1, each with the end that it had."""

    def __init__(self, text: str) -> None:
        parts = LINE_END.split(text)
        self.lines = parts[::2]
        self.ends = [*parts[1::2], ""]

    def __getitem__(self, number: int) -> str:
        return self.lines[number - 1]

    def __setitem__(self, number: int, line: str) -> None:
        self.lines[number - 1] = line

    def insert_after(self, number: int, line: str, apart: bool) -> None:
        """A new line; `apart` from the next one where that is text which would be taken for its continuation."""
        end = self.ends[0]
        blank = apart and number < len(self.lines) and bool(self.lines[number].strip())
        added = [line, ""] if blank else [line]
        last = self.ends[number - 1]
        self.lines[number:number] = added
        self.ends[number - 1 : number] = [end] * len(added) + [last]

    @property
    def text(self) -> str:
        return "".join(f"{line}{end}" for line, end in zip(self.lines, self.ends, strict=True))
