"""A subject too long for a model, cut into parts that fit: between items, else between lines, else inside a line.

Parts are spans until they are read: nothing is copied before its turn. A piece keeps its item's mark and line numbers,
so that what is cited in it is cited in the whole.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from evalscribe.judging.subject.item import Item
from evalscribe.tokens import BYTES_PER_TOKEN, estimate

DELIMITERS = 60
"""Tokens of what stands around one item."""
LINE_NUMBER = 3
"""Tokens of one line's number."""
LEAST = 200
"""Tokens under which nothing is cut any further."""


class Span(NamedTuple):
    """So much of one item: `text[start:end]`, whose first line has the number `first`."""

    item: int
    start: int
    end: int
    first: int


Part = tuple[Span, ...]


def parts(items: Sequence[Item], room: int) -> Iterator[Part]:
    """Every character of every item in one span each, in order; the spans of a part take at most `room` tokens."""
    room = max(room, LEAST)
    part: list[Span] = []
    left = room
    for span, size in _spans(items, room):
        if part and size > left:
            yield tuple(part)
            part, left = [], room
        part.append(span)
        left -= size
    if part:
        yield tuple(part)


def piece(items: Sequence[Item], span: Span) -> Item:
    """What is shown of an item: the item itself where it is whole."""
    item = items[span.item]
    if (span.start, span.end) == (0, len(item.text)):
        return item
    cut = f"characters {span.start + 1} to {span.end} of {len(item.text)}"
    about = f"{item.about}, {cut}" if item.about else cut
    text = item.text[span.start : span.end]
    text = text.removesuffix("\n") if span.end < len(item.text) else text
    return item.model_copy(update={"text": text, "first": span.first, "about": about, "labels": _labels(item, span)})


def _labels(item: Item, span: Span) -> tuple[tuple[int, str], ...]:
    """Our words for the parts of a piece; the one that it begins within comes first."""
    before = [label for at, label in item.labels if at < span.start]
    within = [(at - span.start, label) for at, label in item.labels if span.start <= at < span.end]
    goes_on = before and not (within and within[0][0] == 0)
    return ((0, before[-1]), *within) if goes_on else tuple(within)


def _spans(items: Sequence[Item], room: int) -> Iterator[tuple[Span, int]]:
    """Spans that fit a part each, with their tokens: an item that fits is one."""
    for index, item in enumerate(items):
        head = min(DELIMITERS + estimate(item.about), room // 2)
        start, first, more = 0, item.first, True
        while more:
            end = _end(item, start, room - head)
            yield Span(index, start, end, first), head + _weight(item.text[start:end], item.numbered)
            first += item.text.count("\n", start, end)
            start, more = end, end < len(item.text)


def _end(item: Item, start: int, room: int) -> int:
    """Where a piece from `start` ends: with the item, behind the last line end that fits, or inside a longer line."""
    end = min(len(item.text), start + room * BYTES_PER_TOKEN)
    while end - start > 1 and (weight := _weight(item.text[start:end], item.numbered)) > room:
        end = start + max(1, min(end - start - 1, (end - start) * room // weight))
    if end == len(item.text):
        return end
    line_end = item.text.rfind("\n", start, end)
    return line_end + 1 if line_end > start else end


def _weight(text: str, numbered: bool) -> int:
    return estimate(text) + (LINE_NUMBER * (text.count("\n") + 1) if numbered else 0)
