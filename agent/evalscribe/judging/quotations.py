"""Find quotations in documents and verify them."""

import re
import unicodedata
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate

from evalscribe.judging.prompt_text import replace_invisible
from evalscribe.model.evidence import Citation, Document, Evidence

MAX_QUOTED_LINES = 400
"""Maximum number of lines of a quotation."""
_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


def cite_lines(document: Document, first: int, last: int) -> Citation:
    """Return a citation of lines `first` to `last` (from 1, inclusive) of a document.

    A range that goes beyond the end of the document is clipped.
    """
    first = max(1, min(first, len(document.lines)))
    last = max(first, min(last, len(document.lines)))
    text = "\n".join(document.lines[first - 1 : last])
    return Citation(role=document.role, path=document.path, first=first, last=last, text=text, status="verified")


def verify_citation(citation: Citation, evidence: Evidence) -> Citation:
    """Return the citation with its status.

    `verified`: the quoted text is at the cited lines. `relocated`: the quoted text is elsewhere in the document, and
    the cited lines are corrected. `unverified`: the quoted text is not in the document.
    """
    unverified = citation.model_copy(update={"status": "unverified"})
    document = evidence.document(citation.role, citation.path)
    quote = _folded_lines(citation.text.split("\n"))
    if document is None or not quote or len(quote) > MAX_QUOTED_LINES:
        return unverified
    spans = list(_spans(_folded_lines(document.lines), quote))
    if not spans:
        return unverified
    first, last = min(spans, key=lambda span: abs(span[0] - citation.first))
    located = cite_lines(document, first, last)
    at_its_lines = _claims(citation, document, first, last)
    return located if at_its_lines else located.model_copy(update={"status": "relocated"})


def fold_line(line: str) -> str:
    """Normalise a line for comparison: remove terminal codes and fold whitespace to single spaces."""
    return " ".join((_ANSI.sub("", line) if "\x1b" in line else line).split())


def _folded_lines(lines: Sequence[str]) -> list[tuple[int, str]]:
    """Fold all lines that are not blank. Return each folded line with its number."""
    folded = ((number, fold_line(line)) for number, line in enumerate(lines, 1))
    return [(number, line) for number, line in folded if line]


def _claims(citation: Citation, document: Document, first: int, last: int) -> bool:
    """Return whether a citation names the lines `first` to `last`.

    The citation can also include blank lines directly before or after these lines.
    """
    if not (citation.first <= first and last <= citation.last <= len(document.lines)) or citation.first < 1:
        return False
    adjacent_lines = document.lines[citation.first - 1 : first - 1] + document.lines[last : citation.last]
    return not any(fold_line(line) for line in adjacent_lines)


def _spans(lines: list[tuple[int, str]], quote: list[tuple[int, str]]) -> Iterator[tuple[int, int]]:
    """Yield the first and last line of every place where the quoted lines occur in sequence."""
    quoted_lines = [line for _, line in quote]
    for at, (number, line) in enumerate(lines):
        if line == quoted_lines[0] and [text for _, text in lines[at : at + len(quoted_lines)]] == quoted_lines:
            yield number, lines[at + len(quoted_lines) - 1][0]


SEPARATOR = "\uffff"
"""Separates texts that are joined in order to search them together.

The separator is a Unicode noncharacter. If a text contains this character, the character is replaced in that text.
"""
_REACH = 24
"""Number of characters before a quoted span that are searched for a negation."""
_LINE_ENDS = frozenset(f"\n{SEPARATOR}")
_SPACE = _LINE_ENDS | {" "}
_PREFIXES = frozenset("!-+~.&*@#$\\%<")
"""Signs that change the meaning of a word if they are directly before it."""
_NEGATING_PREFIXES = frozenset("!-+~")
_OPENING = frozenset("([{,;:=")
"""Characters at the end of a quotation that a word can directly follow, as in `query(`."""
_REPEATED = frozenset("()[]{}\"'`,;")
_SIGNS = r"(?:[=!<>+\-*/%&|^:~?@]=|[=\-<|]>|=[~!>]|<[\-|/>]|&&|\|\||\?[.:?]|/[*>/]|\*/|-%|!>)"
_OPERATOR = re.compile(_SIGNS)
_NEGATION = re.compile(r"(?:^|[^\w])(?:not|no|never|neither|nor|none|cannot|without|\w*n['\u2019]t|!) $", re.IGNORECASE)
_NEGATING_SIGNS = frozenset("不没沒无無未非别別勿莫")
_UNSPACED = re.compile("[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
"""Matches a character of a script without spaces between words. In such scripts, word boundaries are unknown."""


def is_whole(text: str, start: int, end: int) -> bool:
    """Return whether a span of a folded text keeps its meaning when it is quoted alone.

    A quotation must not cut a word or leave out a negation.
    """
    before, after = text[max(0, start - _REACH) : start], text[end : end + 2]
    # Markdown's asterisks do not belong to a word: `Root cause` may be quoted from `**Root cause**`, unlike `kwargs`
    # from `**kwargs`.
    emphasised = before.endswith("*") and after.startswith("*")
    return (emphasised or _may_start(before, text[start])) and _may_end(text[end - 1], after)


def _may_start(before: str, first: str) -> bool:
    neighbour = before[-1:]
    if not neighbour or neighbour in _LINE_ENDS:
        return True
    if neighbour == " ":
        # Quoted without its negation, `valid here` from `is not valid here` would say the opposite.
        return not _NEGATION.search(before.rpartition("\n")[2])
    if _in_word(neighbour):
        # In a script without spaces, a quotation may begin anywhere except after a sign that negates it.
        return _both_unspaced(neighbour, first) and neighbour not in _NEGATING_SIGNS
    if not _in_word(first):
        return neighbour not in _NEGATING_PREFIXES and not _forms_operator(neighbour, first)
    second_neighbour = before[-2:-1]
    if neighbour in "'\u2019":
        # An apostrophe within a word, as in `doesn't`, is not a quotation mark.
        return not _in_word(second_neighbour)
    return (
        neighbour not in _PREFIXES
        and not _forms_number(second_neighbour, neighbour, first)
        # `//` disables the code after it, and `</` closes an element.
        and not before.endswith(("//", "</"))
    )


def _may_end(last: str, after: str) -> bool:
    neighbour, second_neighbour = after[:1], after[1:]
    if not neighbour or neighbour in _SPACE:
        return True
    if _in_word(neighbour):
        return last in _OPENING or _both_unspaced(last, neighbour)
    if not _in_word(last):
        return not _forms_operator(last, neighbour)
    if neighbour in ".-@$'\u2019#":
        # Inside `3.14` or `non-null`, such a sign joins two parts of a word. At the end of a sentence, it does not.
        return not _in_word(second_neighbour) and not (neighbour == second_neighbour == "-")
    if neighbour == "!":
        # `!` ends a sentence, but is part of the expression in `user!.name` and of the operator in `a!=b`.
        return not second_neighbour or second_neighbour in _SPACE or second_neighbour in "\"'*"
    if neighbour in "+?":
        return second_neighbour not in ("+", ".", ":", "?") or (neighbour, second_neighbour) in (("+", "."), ("+", ":"))
    return not (neighbour == "%" and last.isdigit()) and not _forms_number(last, neighbour, second_neighbour)


def _in_word(character: str) -> bool:
    if character.isascii():
        return character.isalnum() or character == "_"
    return character.isalnum() or unicodedata.category(character).startswith("M")


def _both_unspaced(first: str, second: str) -> bool:
    return bool(_UNSPACED.match(first) and _UNSPACED.match(second))


def _forms_number(left: str, between: str, right: str) -> bool:
    return between in ",:/" and left.isdigit() and right.isdigit()


def _forms_operator(left: str, right: str) -> bool:
    return bool(_OPERATOR.match(left + right)) or (left == right and left not in _REPEATED)


MOST_TRIED = 2_000
"""Maximum number of places that are tried for one quotation. Only hostile, repetitive texts have more places."""
# The escape character is U+FFFD here, because `replace_invisible` has already replaced it. Possessive quantifiers
# prevent backtracking in a text of a million unfinished escape codes.
_CODE = r"\ufffd\[[0-?]*+[ -/]*+[@-~]"
# A single space or line feed is already folded, so it does not match.
_BLANKS = re.compile(r"\s{2,}+|[^\S \n]")
_BLANKS_AND_CODES = re.compile(rf"(?:\s|{_CODE})++")
_CODES = re.compile(_CODE)


class _Folded:
    """A text with folded whitespace. It maps offsets in the folded text to offsets in the original text."""

    def __init__(self, text: str) -> None:
        self._after = array("q", [0])
        self._removed = array("q", [0])
        self.text = "".join(self._pieces(replace_invisible(text)))

    def _pieces(self, text: str) -> Iterator[str]:
        """Yield the folded text in segments.

        Wherever characters are removed, record the offset in the folded text and the total number of characters removed
        so far.
        """
        at = removed = 0
        for run in (_BLANKS_AND_CODES if "\ufffd[" in text else _BLANKS).finditer(text):
            start, end = run.span()
            blank = _blank(run[0])
            yield text[at:start]
            yield blank
            at = end
            if end - start != len(blank):
                removed += end - start - len(blank)
                self._after.append(end - removed)
                self._removed.append(removed)
        yield text[at:]

    def original(self, at: int) -> int:
        """Convert an offset in the folded text to the offset of the same character in the original text."""
        return at + self._removed[bisect_right(self._after, at) - 1]

    def folded(self, at: int) -> int:
        """Convert an offset in the original text to the offset in the folded text.

        If the character was removed, return the offset of the next character.
        """
        return bisect_left(range(len(self.text)), at, key=self.original)


def _blank(run: str) -> str:
    visible = _CODES.sub("", run) if "\ufffd" in run else run
    return "\n" if "\n" in visible else " " if visible else ""


def fold_text(text: str) -> str:
    """Fold the whitespace of a quotation, so that it can be found in folded texts."""
    return _Folded(_without_separators(text)).text.strip(" \n")


class Haystack:
    """The texts of a subject's items, in which quotations are searched for.

    A text is only folded when it is first searched. Most texts need no folding, because most quotations are found in
    the text that they cite.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        self._starts = [0, *accumulate(len(text) + 1 for text in texts)]
        self._each: dict[int, _Folded] = {}
        self._lines: dict[int, array[int]] = {}

    def spans(self, quote: str, number: int, lines: tuple[int, int] | None = None) -> Iterator[tuple[int, int]]:
        """Yield the spans at which the text with this number contains a folded quotation.

        `lines`: first and last line to search, counted from 0; None to search the whole text.
        """
        bounds = self._line_bounds(number, *lines) if lines else (0, len(self._texts[number]))
        if bounds:
            yield from _find_spans(self._of(number), quote, *bounds)

    def occurrences(self, quote: str, near: int) -> Iterator[tuple[int, int, int]]:
        """Yield the occurrences of a folded quotation in all texts as (number of the text, start, end).

        The text with the number `near` and the texts after it are searched first.
        """
        middle = self._starts[near]
        for low, high in ((middle, self._starts[-1]), (0, middle)):
            for start, end in _find_spans(self._folded_all, quote, low, high):
                number = bisect_right(self._starts, start) - 1
                yield number, start - self._starts[number], end - self._starts[number]

    def line(self, number: int, at: int) -> int:
        """Return the number (from 0) of the line of a text that contains the offset `at`."""
        return bisect_right(self._line_starts(number), at) - 1

    def has_lines(self, number: int, first: int, last: int) -> bool:
        return 0 <= first <= last < len(self._line_starts(number))

    def _line_bounds(self, number: int, first: int, last: int) -> tuple[int, int] | None:
        if not self.has_lines(number, first, last):
            return None
        starts = self._line_starts(number)
        return starts[first], starts[last + 1] - 1 if last + 1 < len(starts) else len(self._texts[number])

    def _line_starts(self, number: int) -> "array[int]":
        if number not in self._lines:
            ends = (end.end() for end in re.finditer("\n", self._texts[number]))
            self._lines[number] = array("q", [0, *ends])
        return self._lines[number]

    def _of(self, number: int) -> _Folded:
        # Folding only the texts that are searched saves two milliseconds per verdict.
        if number not in self._each:
            self._each[number] = _Folded(_without_separators(self._texts[number]))
        return self._each[number]

    @cached_property
    def _folded_all(self) -> _Folded:
        return _Folded(SEPARATOR.join(map(_without_separators, self._texts)))


def _without_separators(text: str) -> str:
    return text.replace(SEPARATOR, "\ufffd")


def _find_spans(folded: _Folded, quote: str, low: int, high: int) -> Iterator[tuple[int, int]]:
    """Yield the spans of a quotation between two offsets. All offsets refer to the original text."""
    text, end = folded.text, folded.folded(high)
    at = text.find(quote, folded.folded(low), end)
    for _ in range(MOST_TRIED):
        if at < 0:
            return
        if is_whole(text, at, at + len(quote)):
            yield folded.original(at), folded.original(at + len(quote) - 1) + 1
        at = text.find(quote, at + 1, end)
