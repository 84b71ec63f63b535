"""Parse and resolve the citations in a judge's answer.

A citation has one of these forms: `[T0B1]`, `[R0M.scores.reward]`, `[A0]`, `[failure]`, `[output src/main.py:3-9]`.
Each form can also have `:<RANGE>quoted text</RANGE>` before the closing bracket. A pair of brackets can contain several
citations, separated by commas or semicolons.
"""

import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from evalscribe.judging.prompt_text import quote_json
from evalscribe.judging.quotations import Haystack, fold_text
from evalscribe.judging.subjects import Subject, SubjectItem, find_value, value_text
from evalscribe.model.evidence import ROLES, CitationStatus
from evalscribe.model.output_schema import cited_strings
from evalscribe.model.result import CitationTarget, CitedText, ResolvedCitation
from evalscribe.text import one_line

OPENED, CLOSED = "<RANGE>", "</RANGE>"
LONGEST_UNKNOWN = 400
"""Maximum characters that are parsed as a cited path or key that the subject does not contain."""
_ROLES = "|".join(ROLES)
# Brackets such as `a[0]`, `[see above]` and `[1, 2]` are ordinary text, so only these beginnings open a citation.
_START = re.compile(rf"\[ ?(?=[TRAP][0-9]|(?:{_ROLES}) |[a-z]+(?:\]|: ?<RANGE>))")
_NUMBERED = re.compile(r"(?:T[0-9]{1,9}(?:B[0-9]{1,9})?|R[0-9]{1,9})M?(?![A-Za-z0-9_])|[AP][0-9]{1,9}(?![A-Za-z0-9_])")
_WORD = re.compile(r"[a-z]+(?=[\],;:])")
_ROLE = re.compile(rf"({_ROLES}) (?=\S)")
# A path can contain brackets itself, as in `app/[id]/page.tsx`.
_UNKNOWN_PATH = re.compile(r"(?:[^\[\]\n<]|(?<=[\w/.])\[[^\[\]\n]{0,80}\]){1,400}?(?=:[0-9]|: ?<RANGE>|[\],;])")
_LIKE_A_PATH = re.compile(r"\S*[./]\S*\Z")
# Models also write ranges with an en dash. The number of digits is limited because `int` refuses numbers of more than
# 4,300 digits.
_LINES = re.compile(r":([0-9]{1,9})(?:[-\u2013]([0-9]{1,9}))?(?![0-9A-Za-z])")
_MORE_LINES = re.compile(r"([0-9]{1,9})(?:[-\u2013]([0-9]{1,9}))?(?=\s{0,9}[\],;])")
_RANGE = re.compile(r": ?<RANGE>")
_CLOSE = re.compile(r"\s{0,9}\]")
_END = re.compile(r"\s{0,9}[\],;]")
_NEXT = re.compile(r"\s{0,9}[,;]\s{0,9}")
_UNKNOWN_KEY = re.compile(rf"[^\[\]\n<,;]{{0,{LONGEST_UNKNOWN}}}")
_UNTIL_BRACKET = re.compile(rf"[^\[\]\n]{{0,{LONGEST_UNKNOWN}}}\]")


@dataclass(frozen=True)
class Mark:
    """A citation as the judge wrote it, and the item to which it refers."""

    start: int
    end: int
    item: SubjectItem | None = None
    """Item of the subject to which the citation refers; None if there is no such item."""
    key: str | None = None
    """Key in the item's metadata that the citation names; None if it names no key."""
    value: Any = None
    valid: bool = True
    """False if the citation is malformed."""
    lines: tuple[int, int] | None = None
    """First and last line that the citation names, numbered as in the prompt; None if it names no lines."""
    quote: str | None = None


def parse_marks(text: str, subject: Subject) -> Iterator[Mark]:
    """Yield the citations of a text, in order. Malformed citations are not dropped but marked as unknown or invalid."""
    reader = _Reader(text, subject)
    at = 0
    while start := _START.search(text, at):
        marks = list(reader.bracket(start))
        yield from marks
        at = max(start.end(), marks[-1].end if marks else 0)


class _Reader:
    def __init__(self, text: str, subject: Subject) -> None:
        self._text = text
        self._subject = subject

    def bracket(self, start: re.Match[str]) -> Iterator[Mark]:
        """Yield the citations in one pair of brackets.

        The span of the first citation includes the opening bracket. The span of the last citation includes the closing
        bracket.
        """
        mark = self._mark(start.end())
        if mark is None:
            return
        mark = replace(mark, start=start.start())
        while following := self._following(mark):
            yield mark
            mark = following
        closed = _CLOSE.match(self._text, mark.end)
        yield replace(mark, end=closed.end()) if closed else mark

    def _following(self, mark: Mark) -> Mark | None:
        comma = _NEXT.match(self._text, mark.end)
        if not comma:
            return None
        # In `[output a.py:3, 5-6]`, the second part consists of further lines of the same document.
        lines = _MORE_LINES.match(self._text, comma.end()) if mark.lines else None
        if lines:
            return replace(mark, start=lines.start(), end=lines.end(), lines=_lines(lines), quote=None)
        return self._mark(comma.end())

    def _mark(self, at: int) -> Mark | None:
        """Parse the citation at an offset of the text, including its lines and its quotation.

        Return None if there is no citation at this offset.
        """
        mark = self._numbered(at) or self._document(at) or self._word(at)
        if mark is None or not mark.valid:
            return mark
        return self._with_quote(mark)

    def _numbered(self, at: int) -> Mark | None:
        name = _NUMBERED.match(self._text, at)
        if not name:
            return None
        mark = Mark(at, name.end(), self._subject.item(name[0]))
        if name[0].endswith("M") and self._text.startswith(".", name.end()):
            return self._with_key(mark)
        if self._ends(name.end()):
            return mark
        # Only the form of a block is unmistakable. `[A1:C3]`, for example, can also be a range of cells.
        block = "B" in name[0]
        match = _UNTIL_BRACKET.match(self._text, name.end())
        return replace(mark, end=match.end() - 1 if match else mark.end, valid=False) if block else None

    def _with_key(self, mark: Mark) -> Mark:
        at = mark.end + 1
        value = find_value(mark.item.metadata, self._text, at) if mark.item else None
        if value:
            return replace(mark, end=value.end, key=self._text[at : value.end], value=value.value)
        unknown = _UNKNOWN_KEY.match(self._text, at)
        end = unknown.end() if unknown else at
        end -= len(self._text[at:end]) - len(self._text[at:end].removesuffix(":").removesuffix(": "))
        return replace(mark, end=end, key=self._text[at:end], item=None)

    def _document(self, at: int) -> Mark | None:
        role = _ROLE.match(self._text, at)
        if not role:
            return None
        name = self._longest_path(role[1], role.end())
        if name:
            return self._with_lines(Mark(at, role.end() + len(name), self._paths[role[1]][name]))
        unknown = _UNKNOWN_PATH.match(self._text, role.end())
        if not unknown:
            return None
        mark = self._with_lines(Mark(at, unknown.end()))
        # `[output omitted]` is ordinary text, so an unknown path must have lines, a quotation, or the form of a path.
        is_citation = mark.lines or _RANGE.match(self._text, mark.end) or _LIKE_A_PATH.match(unknown[0])
        return mark if is_citation else None

    def _longest_path(self, role: str, at: int) -> str | None:
        """Return the longest document path that the text contains at offset `at`; None if no path is there.

        Only paths of documents with the given role are considered.
        """
        paths = self._paths.get(role, {})
        # A path can contain `:3-4, ` itself, so the longest known path decides where the path ends.
        for length in self._lengths.get(role, ()):
            name = self._text[at : at + length]
            if name in paths and (self._ends(at + length) or _LINES.match(self._text, at + length)):
                return name
        return None

    def _word(self, at: int) -> Mark | None:
        word = _WORD.match(self._text, at)
        item = self._subject.item(word[0]) if word else None
        return Mark(at, word.end(), item) if word and item else None

    def _with_lines(self, mark: Mark) -> Mark:
        lines = _LINES.match(self._text, mark.end)
        return replace(mark, end=lines.end(), lines=_lines(lines)) if lines else mark

    def _with_quote(self, mark: Mark) -> Mark:
        """Add the text between `<RANGE>` and `</RANGE>` to a citation as its quotation.

        A citation with an unterminated or nested RANGE tag becomes invalid.
        """
        opening = _RANGE.match(self._text, mark.end)
        if not opening:
            return mark
        # A closing tag after the next opening tag belongs to the next citation.
        next_opening = self._text.find(OPENED, opening.end())
        end = self._text.find(CLOSED, opening.end(), next_opening if next_opening >= 0 else len(self._text))
        if end < 0:
            return replace(mark, end=opening.end(), valid=False)
        return replace(mark, end=end + len(CLOSED), quote=self._text[opening.end() : end])

    def _ends(self, at: int) -> bool:
        """Return whether the name of a cited item can end at this offset."""
        return bool(_RANGE.match(self._text, at) or _END.match(self._text, at))

    @cached_property
    def _paths(self) -> dict[str, dict[str, SubjectItem]]:
        """Items of the subject by role and path. Each spelling of a path has its own entry."""
        paths: dict[str, dict[str, SubjectItem]] = {}
        # The order is reversed so that the first of several items with the same path wins.
        for item in reversed(self._subject.items):
            if item.target.role and item.target.path is not None:
                names = (item.mark.partition(" ")[2], item.target.path, quote_json(item.target.path))
                paths.setdefault(item.target.role, {}).update(dict.fromkeys(names, item))
        return paths

    @cached_property
    def _lengths(self) -> dict[str, list[int]]:
        return {
            role: sorted({len(name) for name in names if name}, reverse=True) for role, names in self._paths.items()
        }


def _lines(match: re.Match[str]) -> tuple[int, int]:
    return int(match[1]), int(match[2] or match[1])


SHORTEST_QUOTE = 3
"""Minimum number of visible characters of a quotation. Shorter quotations would occur almost everywhere."""
LONGEST_QUOTE = 20_000
"""Maximum characters of a quotation."""
_Location = tuple[CitationStatus, CitationTarget | None]
_UNVERIFIED: _Location = ("unverified", None)


def resolve_citations(text: str, subject: Subject) -> CitedText:
    """Return the unchanged text together with its resolved citations.

    Each citation has the status `verified`, `relocated` or `unverified`.
    """
    return CitedText(text=text, citations=tuple(_resolve(mark, subject) for mark in parse_marks(text, subject)))


def _resolve(mark: Mark, subject: Subject) -> ResolvedCitation:
    status, target = _locate(mark, subject) if mark.valid else _UNVERIFIED
    return ResolvedCitation(start_idx=mark.start, end_idx=mark.end, quote=mark.quote, status=status, target=target)


def _locate(mark: Mark, subject: Subject) -> _Location:
    if mark.quote is None:
        return _locate_item(mark, subject)
    quote = fold_text(mark.quote) if len(mark.quote) <= LONGEST_QUOTE else ""
    if sum(character.isprintable() and character != " " for character in quote) < SHORTEST_QUOTE:
        return _UNVERIFIED
    return _locate_quote(mark, quote, subject)


def _locate_item(mark: Mark, subject: Subject) -> _Location:
    """Locate a citation without a quotation.

    Such a citation is verified if the item, key or lines that it names exist.
    """
    item = mark.item
    if item is None:
        return _UNVERIFIED
    if mark.key is not None:
        return "verified", _of_key(item, mark.key)
    if mark.lines is None:
        return "verified", item.target
    first, last = (line - item.first for line in mark.lines)
    has_lines = item.numbered and subject.haystack.has_lines(subject.numbers[item.mark], first, last)
    return ("verified", _at_lines(item, *mark.lines)) if has_lines else _UNVERIFIED


def _locate_quote(mark: Mark, quote: str, subject: Subject) -> _Location:
    if mark.item is not None:
        location = _of_value(mark, quote) if mark.key is not None else _of_item(mark, mark.item, quote, subject)
        if location:
            return location
    return _locate_in_other_item(mark.item, quote, subject)


def _of_value(mark: Mark, quote: str) -> _Location | None:
    """Locate the quotation in the cited metadata value; None if the value does not contain the quotation."""
    span = next(Haystack((value_text(mark.value),)).spans(quote, 0), None)
    if mark.item is None or mark.key is None or span is None:
        return None
    target = _of_key(mark.item, mark.key)
    return "verified", target.model_copy(update={"start_idx": span[0], "end_idx": span[1]})


def _of_item(mark: Mark, item: SubjectItem, quote: str, subject: Subject) -> _Location | None:
    """Locate the quotation in the cited item: first at the cited lines, then anywhere in the item."""
    number = subject.numbers[item.mark]
    claimed_lines = (mark.lines[0] - item.first, mark.lines[1] - item.first) if mark.lines else None
    for span in subject.haystack.spans(quote, number, claimed_lines):
        if _is_within_part(item, *span):
            return "verified", _at(item, number, span, subject)
    if claimed_lines is None:
        return None
    spans = [span for span in subject.haystack.spans(quote, number) if _is_within_part(item, *span)]
    if not spans:
        return None
    nearest = min(spans, key=lambda span: abs(subject.haystack.line(number, span[0]) - claimed_lines[0]))
    return "relocated", _at(item, number, nearest, subject)


def _locate_in_other_item(item: SubjectItem | None, quote: str, subject: Subject) -> _Location:
    """Locate the quotation in the nearest other item that contains it. Judges' earlier answers are not searched."""
    cited_number = subject.numbers[item.mark] if item else 0
    # A quotation that one judge invented must not be verified because a later judge repeats it.
    places = [
        (number, (start, end))
        for number, start, end in subject.haystack.occurrences(quote, cited_number)
        if subject.items[number].target.kind != "result" and _is_within_part(subject.items[number], start, end)
    ]
    if not places:
        return _UNVERIFIED
    number, span = min(places, key=lambda place: (abs(place[0] - cited_number), place))
    return "relocated", _at(subject.items[number], number, span, subject)


def _is_within_part(item: SubjectItem, start: int, end: int) -> bool:
    """Return whether a span lies within a single part of the item.

    In a prompt, evalscribe inserts a label before each part, so a quotation must not extend over several parts.
    """
    return not any(start < at < end for at, _ in item.labels)


def _at(item: SubjectItem, number: int, span: tuple[int, int], subject: Subject) -> CitationTarget:
    target = item.target.model_copy(update={"start_idx": span[0], "end_idx": span[1]})
    if not item.numbered:
        return target
    lines = (subject.haystack.line(number, at) + item.first for at in (span[0], span[1] - 1))
    return target.model_copy(update=dict(zip(("first", "last"), lines, strict=True)))


def _at_lines(item: SubjectItem, first: int, last: int) -> CitationTarget:
    return item.target.model_copy(update={"first": first, "last": last})


def _of_key(item: SubjectItem, key: str) -> CitationTarget:
    return item.target.model_copy(update={"item": f"{item.mark}.{key}", "metadata_key": key})


def resolve_output(output: dict[str, Any], schema: dict[str, Any], subject: Subject) -> dict[str, Any]:
    """Return a copy of an output in which a `CitedText` dict replaces each string that can contain citations."""
    copy = deepcopy(output)
    for path, text in cited_strings(output, schema):
        *parents, last = path
        holder: Any = copy
        for part in parents:
            holder = holder[part]
        holder[last] = resolve_citations(text, subject).model_dump(mode="json")
    return copy


_SPACE_BEFORE = re.compile(r"\s+(?=[.,;:!?)])")
_JOINS = re.compile(r"\s*[,;]?\s*(?:and)?\s*")
"""Matches the text between two citations that is removed together with them."""
_EMPTY = re.compile(r"\(\s*[,;]*\s*\)")


def without_marks(cited: Mapping[str, Any]) -> str:
    """Return the text of a `CitedText` on one line, with its citations removed."""
    text, plain_text, at = str(cited["text"]), "", 0
    for citation in cited["citations"]:
        between = text[at : max(at, citation["start_idx"])]
        plain_text += "" if at and _JOINS.fullmatch(between) else between
        at = max(at, citation["end_idx"])
    return one_line(_SPACE_BEFORE.sub("", _EMPTY.sub("", plain_text + text[at:])))
