"""Finds keys by their shape, in time that hardly depends on how many shapes are known.

Every key has sixteen letters, digits, `_` or `-` in a row, and little else has: one search for such runs, in a copy of
the text in which all these characters are the same, replaces a search for each of 300 prefixes.
"""

import re
from collections.abc import Iterator
from string import ascii_letters, digits
from typing import NamedTuple

from evalscribe.redaction.shapes import key_at, may_begin

_CLASSES = bytes(97 if chr(n) in ascii_letters + digits + "_-" else 32 for n in range(256))
_SHORTEST = 16
_RUN = b"a" * _SHORTEST
_SEGMENT = 40
"""Characters before a run in which a key may have begun: `dp.st.production.` and more."""
_ESCAPED = {"n": 1, "r": 1, "t": 1, "b": 1, "f": 1, "u": 5, "x": 3}
"""Characters of an escape after its backslash: what follows is where a key may begin."""
_INSIDE = ".~/:|,+"
"""What can stand between the runs of a key."""
_ODD = _INSIDE + "\\%[;"
"""What can end an escape too."""
_COLOR_END = re.compile(r"[0-9]{0,3}m")


class Found(NamedTuple):
    start: int
    end: int
    kind: str


def keys_in(text: str) -> Iterator[Found]:
    """The keys in a text from left to right, also those that stand right behind another."""
    classes = text.encode("latin-1", "replace").translate(_CLASSES)
    end = 0
    at = classes.find(_RUN)
    while at >= 0:
        if found := _key_from(text, classes, at, end):
            yield found
            end = found.end
            while behind := key_at(text, end):
                yield Found(end, behind.end, behind.kind)
                end = behind.end
            at = classes.find(_RUN, end)
        else:
            space = classes.find(b" ", at + _SHORTEST)
            at = classes.find(_RUN, space) if space >= 0 else -1


def redact_keys(text: str) -> str:
    """Keeps the number of lines."""
    pieces, end = [], 0
    for found in keys_in(text):
        lines = text.count("\n", found.start, found.end)
        pieces += [text[end : found.start], f"[redacted:{found.kind}]", "\n" * lines]
        end = found.end
    return "".join([*pieces, text[end:]]) if pieces else text


def _key_from(text: str, classes: bytes, run: int, end: int) -> Found | None:
    """The key that begins with or shortly before the run at `run`, but not before `end`."""
    before = text[run - 1] if run else " "
    if before not in _ODD and not may_begin(text, run) and text[run] not in "_-":
        return None
    for start in _starts(text, classes, run):
        if start >= end and (key := key_at(text, start)):
            return Found(start, key.end, key.kind)
    return None


def _starts(text: str, classes: bytes, run: int) -> Iterator[int]:
    """Where a key may begin that has this run: in parts before it, with it, or behind an escape that looks like it."""
    before = text[run - 1] if run else " "
    if before in _INSIDE:
        for start in _starts_before(text, classes, run):
            yield from _unescaped(text, start)
    yield from _unescaped(text, run)


def _unescaped(text: str, start: int) -> Iterator[int]:
    yield start
    before, first = text[start - 1] if start else "", text[start]
    if before == "\\" and first in _ESCAPED:
        yield start + _ESCAPED[first]
    elif before == "%":
        yield from (start + 2, start + 4)
    elif before and before in "[;" and (color := _COLOR_END.match(text, start)):
        yield color.end()
    if first in "_-":
        yield start + 1 if text[start + 1 : start + 2] not in ("_", "-") else start + 2


def _starts_before(text: str, classes: bytes, run: int) -> Iterator[int]:
    """Where a key of several parts may have begun of which the run is a later one."""
    if text.endswith("1//", 0, run):
        yield run - 3
    start = run
    for _ in range(4):
        start = classes.rfind(b" ", max(0, start - _SEGMENT), start - 1) + 1
        yield start
        if not start or text[start - 1] not in _INSIDE:
            return
