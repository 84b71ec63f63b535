"""Many texts as quotations are compared with them, and the way back to where a quotation really stands.

White space folds to single blanks within a line and to single line ends between lines, terminal codes vanish, what
cannot be seen becomes what is shown instead. Everything else, the line structure included, stays.
"""

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate

from evalscribe.judging.fence import unseen_shown
from evalscribe.judging.subject.seams import SEPARATOR, at_seams

MOST_TRIED = 2_000
"""Places of one quotation that are looked at; it only binds where hostile text repeats itself."""
_CODE = r"\ufffd\[[0-?]*+[ -/]*+[@-~]"
_BLANKS = re.compile(r"\s{2,}+|[^\S \n]")
_BLANKS_AND_CODES = re.compile(rf"(?:\s|{_CODE})++")
_CODES = re.compile(_CODE)


class _Folded:
    """One text, folded, with the offsets of the original."""

    def __init__(self, text: str) -> None:
        self._after = array("q", [0])
        self._gone = array("q", [0])
        self.text = "".join(self._pieces(unseen_shown(text)))

    def _pieces(self, text: str) -> Iterator[str]:
        """The text in pieces; wherever it got shorter the folded offset and the characters gone so far are noted."""
        at = gone = 0
        for run in (_BLANKS_AND_CODES if "\ufffd[" in text else _BLANKS).finditer(text):
            start, end = run.span()
            blank = _blank(run[0])
            yield text[at:start]
            yield blank
            at = end
            if end - start != len(blank):
                gone += end - start - len(blank)
                self._after.append(end - gone)
                self._gone.append(gone)
        yield text[at:]

    def original(self, at: int) -> int:
        """Where the folded character `at` stands in the original."""
        return at + self._gone[bisect_right(self._after, at) - 1]

    def folded(self, at: int) -> int:
        """The first folded character that stands at the original offset `at` or after it."""
        return bisect_left(range(len(self.text)), at, key=self.original)


def _blank(run: str) -> str:
    left = _CODES.sub("", run) if "\ufffd" in run else run
    return "\n" if "\n" in left else " " if left else ""


def fold(text: str) -> str:
    """A quotation as it is compared."""
    return _Folded(_without_separators(text)).text.strip(" \n")


class Haystack:
    """The texts of a subject's items. Most quotations stand where they are said to, so texts are folded when needed."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        self._starts = [0, *accumulate(len(text) + 1 for text in texts)]
        self._each: dict[int, _Folded] = {}
        self._lines: dict[int, array[int]] = {}

    def spans(self, quote: str, number: int, lines: tuple[int, int] | None = None) -> Iterator[tuple[int, int]]:
        """Where a folded quotation stands in one text, ends at whole words; `lines` (from 0) bound where to look."""
        bounds = self._line_bounds(number, *lines) if lines else (0, len(self._texts[number]))
        if bounds:
            yield from _found(self._of(number), quote, *bounds)

    def elsewhere(self, quote: str, near: int) -> Iterator[tuple[int, int, int]]:
        """Where it stands in any text: number, start, end; first from text `near` on, then from the beginning."""
        middle = self._starts[near]
        for low, high in ((middle, self._starts[-1]), (0, middle)):
            for start, end in _found(self._all, quote, low, high):
                number = bisect_right(self._starts, start) - 1
                yield number, start - self._starts[number], end - self._starts[number]

    def line(self, number: int, at: int) -> int:
        """Which line of a text (from 0) an offset stands in."""
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
        if number not in self._each:
            self._each[number] = _Folded(_without_separators(self._texts[number]))
        return self._each[number]

    @cached_property
    def _all(self) -> _Folded:
        return _Folded(SEPARATOR.join(map(_without_separators, self._texts)))


def _without_separators(text: str) -> str:
    return text.replace(SEPARATOR, "\ufffd")


def _found(folded: _Folded, quote: str, low: int, high: int) -> Iterator[tuple[int, int]]:
    """Original spans between two original offsets."""
    text, end = folded.text, folded.folded(high)
    at = text.find(quote, folded.folded(low), end)
    for _ in range(MOST_TRIED):
        if at < 0:
            return
        if at_seams(text, at, at + len(quote)):
            yield folded.original(at), folded.original(at + len(quote) - 1) + 1
        at = text.find(quote, at + 1, end)
