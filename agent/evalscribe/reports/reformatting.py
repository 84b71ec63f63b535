"""Undo what an editor's formatter changes: table alignment, blank lines, bullets, closed headings, escapes."""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from typing import NamedTuple

from evalscribe.evidence.differences import anchors

_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")
_BULLET = re.compile(r"[*+-]\s+")
_CLOSED_HEADING = re.compile(r"(#{1,6}\s.*?)\s+#+")
_ESCAPED = re.compile(r"\\([_*])")
_RULE = re.compile(r"(:?)-+(:?)")
_BAR = re.compile(r"(?<!\\)\|")


class TextChange(NamedTuple):
    """A region of two sequences that is either equal in both or changed.

    The fields are those of `SequenceMatcher.get_opcodes`.
    """

    kind: str
    first_old: int
    last_old: int
    first: int
    last: int


class NumberedLines(NamedTuple):
    """Lines of text, each with its line number on the page. Line numbers are counted from 1."""

    lines: list[str]
    numbers: list[int]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def changes(old: Sequence[str], new: Sequence[str]) -> list[TextChange]:
    """Return the equal and the changed regions of two sequences.

    Equal elements at both ends are matched first. Next, elements that occur exactly once in each sequence, and in the
    same order, are matched. `SequenceMatcher` compares only the remaining elements.
    """
    shorter = min(len(old), len(new))
    head = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    tail = next((at for at in range(shorter - head) if old[-1 - at] != new[-1 - at]), shorter - head)
    # `SequenceMatcher` alone takes minutes for the similar lines of a thousand findings. With anchors and with lookups
    # by number, such a page is read in 3 s of CPU instead of 290.
    middle = anchors(old[head : len(old) - tail], new[head : len(new) - tail])
    equal = [(0, 0, head), *((x + head, y + head, 1) for x, y in middle), (len(old) - tail, len(new) - tail, tail)]
    result: list[TextChange] = []
    i = j = 0
    for x, y, length in equal:
        # With `autojunk`, lines that occur often are ignored in sequences of 200 lines or more.
        between = SequenceMatcher(None, old[i:x], new[j:y], autojunk=False).get_opcodes() if i < x or j < y else []
        pieces = [TextChange(kind, i1 + i, i2 + i, j1 + j, j2 + j) for kind, i1, i2, j1, j2 in between]
        i, j = x + length, y + length
        for piece in (*pieces, TextChange("equal", x, i, y, j)):
            if piece.kind == "equal" and result and result[-1].kind == "equal":
                result[-1] = result[-1]._replace(last_old=piece.last_old, last=piece.last)
            elif piece.last_old > piece.first_old or piece.last > piece.first:
                result.append(piece)
    return result


def undo_formatting(page: NumberedLines, base: Sequence[str]) -> NumberedLines:
    """Return the page without the changes that a formatter made.

    If a line of the page differs from a line of `base` only in formatting, the line of `base` replaces the line of the
    page. The blank lines between two replaced lines are also taken from `base`.
    """
    page_forms, base_forms = _forms(page.lines), _forms(base)
    page_indexes = [at for at, form in enumerate(page_forms) if form is not None]
    base_indexes = [at for at, form in enumerate(base_forms) if form is not None]
    result = NumberedLines([], [])

    def add(lines: Sequence[str], numbers: Sequence[int]) -> None:
        result.lines.extend(lines)
        result.numbers.extend(numbers)

    def add_gap(at: int) -> None:
        first = page_indexes[at - 1] + 1 if at else 0
        add(page.lines[first : page_indexes[at]], page.numbers[first : page_indexes[at]])

    last_pair = (-1, -1)
    for change in changes([base_forms[at] or "" for at in base_indexes], [page_forms[at] or "" for at in page_indexes]):
        for offset, at in enumerate(range(change.first, change.last)):
            number = page.numbers[page_indexes[at]]
            old = change.first_old + offset
            if change.kind != "equal":
                add_gap(at)
                add([page.lines[page_indexes[at]]], [number])
                continue
            if last_pair == (old - 1, at - 1):
                gap = base[base_indexes[old - 1] + 1 if old else 0 : base_indexes[old]]
                add(gap, [number] * len(gap))
            else:
                add_gap(at)
            add([base[base_indexes[old]]], [number])
            last_pair = (old, at)
    add([""], [page.numbers[-1] if page.numbers else 1])
    return result


def _forms(lines: Sequence[str]) -> list[str | None]:
    """Return the part of each line that a formatter does not change; None for a blank line outside fences."""
    forms: list[str | None] = []
    fence = ""
    in_front = lines[:1] == ["---"]
    for at, line in enumerate(lines):
        if in_front or fence:
            # A formatter leaves these lines alone. The NUL keeps them apart from equal lines elsewhere.
            forms.append(f"\0{line}")
            in_front = in_front and not (at and line == "---")
            fence = "" if fence and line.strip().startswith(fence) and not line.strip().strip(fence[0]) else fence
        elif opening := _FENCE.match(line):
            forms.append(line.strip())
            fence = opening[1]
        else:
            forms.append(_form(line.strip()) if line.strip() else None)
    return forms


@lru_cache(maxsize=4096)  # The same page is compared with several others, and most of their lines are the same.
def _form(line: str) -> str:
    if line.startswith("|"):
        cells = [cell.strip() for cell in _BAR.split(line)[1:]]
        cells = cells if cells[-1] else cells[:-1]
        if all(_RULE.fullmatch(cell) for cell in cells):
            cells = [_RULE.sub(r"\1-\2", cell) for cell in cells]
        return "|".join(cells)
    if closed := _CLOSED_HEADING.fullmatch(line):
        return closed[1]
    return _ESCAPED.sub(r"\1", _BULLET.sub("- ", line, count=1) if _BULLET.match(line) else line)
