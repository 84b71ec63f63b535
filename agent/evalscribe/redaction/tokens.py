"""Find keys by their shape, in time that hardly depends on the number of known shapes.

Every key contains a run of twenty letters, digits, `_` or `-`, and few other words do. One search for such runs, in a
copy of the text that maps all these characters to the same one, replaces a search for each of 300 prefixes.
"""

import re
from collections.abc import Iterator
from string import ascii_letters, digits
from typing import NamedTuple

from evalscribe.redaction.scanned import Scanned
from evalscribe.redaction.shapes import key_at, may_begin, may_begin_before

_CLASSES = bytes(97 if chr(n) in ascii_letters + digits + "_-" else 32 for n in range(256))
_SHORTEST = 20
_RUN = b"a" * _SHORTEST
_SEGMENT = 40
"""Most characters in one part of a key with several parts, such as `dp.st.production.…`."""
_SEGMENTS = 9
"""Most parts before a run, as in `hooks.slack.com/services/…/…/` or in base64 with `+` and `/`."""
_INSIDE = ".~/:|,+"
"""Characters between the parts of a key."""
_ESCAPES = frozenset("\\%[;")
_ODD = _ESCAPES | frozenset(_INSIDE)
"""After one of these characters, the key may begin elsewhere than the run."""
_ESCAPED = {"n": 1, "r": 1, "t": 1, "b": 1, "f": 1, "u": 5, "x": 3}
"""Length of an escape after its backslash; a key may begin right after it."""
_COLOR_END = re.compile(r"[0-9]{0,3}m")


class FoundKey(NamedTuple):
    start: int
    end: int
    kind: str


def keys_in(scanned: Scanned) -> Iterator[FoundKey]:
    """Find the keys in a text from left to right, including those directly after another key."""
    text, classes, end = scanned.text, scanned.lowered.translate(_CLASSES), 0
    at = classes.find(_RUN)
    while at >= 0:
        stop = classes.find(b" ", at + _SHORTEST)
        if stop < 0:
            stop = len(text)
        worth = may_begin(text, at, stop) or text[at] in "_-" or text[at - 1] in _ODD
        if worth and (found := _key_from(text, classes, at, end)):
            yield found
            end = found.end
            while behind := key_at(text, end):
                yield FoundKey(end, behind.end, behind.kind)
                end = behind.end
            at = classes.find(_RUN, end)
        else:
            at = classes.find(_RUN, stop)


def redact_keys(scanned: Scanned) -> str:
    text, pieces, end = scanned.text, [], 0
    for found in keys_in(scanned):
        lines = text.count("\n", found.start, found.end)
        pieces += [text[end : found.start], f"[redacted:{found.kind}]", "\n" * lines]
        end = found.end
    return "".join([*pieces, text[end:]]) if pieces else text


def _key_from(text: str, classes: bytes, run: int, end: int) -> FoundKey | None:
    """Find the key that begins at the run or in the parts before it, but not before `end`."""
    start = run
    for _ in range(_SEGMENTS):
        if start == run or text[start - 1] in _ESCAPES or may_begin_before(text, start):
            for one in _unescaped(text, start):
                if one >= end and (key := key_at(text, one)) and key.end > run:
                    escaped = text[one - 1 : one] == "\\" and text[one] in _ESCAPED
                    return FoundKey(one + escaped, key.end, key.kind)  # `\n` stays whole: this may be JSON
        if start <= end or text[start - 1] not in _INSIDE:
            return None
        start = classes.rfind(b" ", max(0, start - 1 - _SEGMENT), start - 1) + 1
    return None


def _unescaped(text: str, start: int) -> list[int]:
    """Return the places where a key may begin: `start`, or the end of an escape there."""
    before, first = text[start - 1 : start], text[start : start + 1]
    if before == "\\" and first in _ESCAPED:
        return [start, start + _ESCAPED[first]]
    if before == "%":
        return [start, start + 2, start + 4]
    if before and before in "[;" and (color := _COLOR_END.match(text, start)):
        return [start, color.end()]
    if first and first in "_-":
        return [start, start + (2 if text[start + 1 : start + 2] in ("_", "-") else 1)]
    return [start]
