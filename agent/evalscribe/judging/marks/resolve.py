"""Written marks, each with whether it holds and where it leads."""

from evalscribe.judging.marks.written import Mark, written
from evalscribe.judging.subject.haystack import Haystack, fold
from evalscribe.judging.subject.item import Item, Subject
from evalscribe.judging.subject.keys import value_text
from evalscribe.model.evidence import CitationStatus
from evalscribe.model.result import CitationTarget, CitedText, ResolvedCitation

SHORTEST_QUOTE = 3
"""Visible characters: fewer stand everywhere."""
LONGEST_QUOTE = 20_000
"""A longer quotation is no quotation."""
_Found = tuple[CitationStatus, CitationTarget | None]
_UNVERIFIED: _Found = ("unverified", None)


def resolve(text: str, subject: Subject) -> CitedText:
    """The text unchanged with every citation in it: `verified`, `relocated` or `unverified`; none is dropped."""
    return CitedText(text=text, citations=tuple(_resolved(mark, subject) for mark in written(text, subject)))


def _resolved(mark: Mark, subject: Subject) -> ResolvedCitation:
    status, target = _found(mark, subject) if mark.known else _UNVERIFIED
    return ResolvedCitation(start_idx=mark.start, end_idx=mark.end, quote=mark.quote, status=status, target=target)


def _found(mark: Mark, subject: Subject) -> _Found:
    if mark.quote is None:
        return _named(mark, subject)
    quote = fold(mark.quote) if len(mark.quote) <= LONGEST_QUOTE else ""
    if sum(character.isprintable() and character != " " for character in quote) < SHORTEST_QUOTE:
        return _UNVERIFIED
    return _quoted(mark, quote, subject)


def _named(mark: Mark, subject: Subject) -> _Found:
    """A citation without quotation holds where what it names is there."""
    item = mark.item
    if item is None:
        return _UNVERIFIED
    if mark.key is not None:
        return "verified", _of_key(item, mark.key)
    if mark.lines is None:
        return "verified", item.target
    first, last = (line - item.first for line in mark.lines)
    there = item.numbered and subject.haystack.has_lines(subject.numbers[item.mark], first, last)
    return ("verified", _at_lines(item, *mark.lines)) if there else _UNVERIFIED


def _quoted(mark: Mark, quote: str, subject: Subject) -> _Found:
    if mark.item is not None:
        held = _of_value(mark, quote) if mark.key is not None else _of_item(mark, mark.item, quote, subject)
        if held:
            return held
    return _elsewhere(mark.item, quote, subject)


def _of_value(mark: Mark, quote: str) -> _Found | None:
    """The quotation in a value of metadata."""
    span = next(Haystack((value_text(mark.value),)).spans(quote, 0), None)
    if mark.item is None or mark.key is None or span is None:
        return None
    target = _of_key(mark.item, mark.key)
    return "verified", target.model_copy(update={"start_idx": span[0], "end_idx": span[1]})


def _of_item(mark: Mark, item: Item, quote: str, subject: Subject) -> _Found | None:
    """The quotation in the item that is cited: at the lines that are claimed, or at other ones."""
    number = subject.numbers[item.mark]
    claimed = (mark.lines[0] - item.first, mark.lines[1] - item.first) if mark.lines else None
    for span in subject.haystack.spans(quote, number, claimed):
        if _in_one_part(item, *span):
            return "verified", _at(item, number, span, subject)
    if claimed is None:
        return None
    spans = [span for span in subject.haystack.spans(quote, number) if _in_one_part(item, *span)]
    if not spans:
        return None
    nearest = min(spans, key=lambda span: abs(subject.haystack.line(number, span[0]) - claimed[0]))
    return "relocated", _at(item, number, nearest, subject)


def _elsewhere(item: Item | None, quote: str, subject: Subject) -> _Found:
    """The nearest other item that holds the quotation.

    What judges said earlier is no evidence: what they invented would hold as soon as it is repeated.
    """
    here = subject.numbers[item.mark] if item else 0
    places = [
        (number, (start, end))
        for number, start, end in subject.haystack.elsewhere(quote, here)
        if subject.items[number].target.kind != "result" and _in_one_part(subject.items[number], start, end)
    ]
    if not places:
        return _UNVERIFIED
    number, span = min(places, key=lambda place: (abs(place[0] - here), place))
    return "relocated", _at(subject.items[number], number, span, subject)


def _in_one_part(item: Item, start: int, end: int) -> bool:
    """Whether no word of ours stands inside the span as it was shown."""
    return not any(start < at < end for at, _ in item.labels)


def _at(item: Item, number: int, span: tuple[int, int], subject: Subject) -> CitationTarget:
    target = item.target.model_copy(update={"start_idx": span[0], "end_idx": span[1]})
    if not item.numbered:
        return target
    lines = (subject.haystack.line(number, at) + item.first for at in (span[0], span[1] - 1))
    return target.model_copy(update=dict(zip(("first", "last"), lines, strict=True)))


def _at_lines(item: Item, first: int, last: int) -> CitationTarget:
    return item.target.model_copy(update={"first": first, "last": last})


def _of_key(item: Item, key: str) -> CitationTarget:
    return item.target.model_copy(update={"item": f"{item.mark}.{key}", "metadata_key": key})
