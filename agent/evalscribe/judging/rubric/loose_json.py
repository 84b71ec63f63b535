"""JSON objects in a model's free text: what people write around JSON is tolerated, what is not JSON is not repaired.

One pass, so that hostile text costs no more than other text: a value is skipped whole, strings and all, once it has
been read, and the text behind one that never ends is not searched for parts of it.
"""

# json-repair 0.64 in place of `parsed` fails 10 tests of answers. It makes one answer out of an ambiguous one: `tru`
# becomes a text, the first of two equal keys is dropped, comments and unescaped quotes are guessed at. NaN, infinity
# and lone surrogates, which cannot be stored, get through. 16,000 escaped quotes in a string without end take it
# 107 ms of CPU, and 1 ms here.

import json
import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

DEEPEST = 100
"""Levels of objects and lists, one within the other."""
_START = re.compile(r"\{\s*+[\"}]|\[\s*+\{")
"""What begins an object, or a list of objects: those are no answer, and neither is any of their members."""
_PART = re.compile(r'"(?:[^"\\]++|\\.)*+"|[{}\[\]"]', re.DOTALL)
_STRING_OR_COMMA = re.compile(r'"(?:[^"\\]++|\\.)*+"?|(?<![{\[,\s])\s*+,(?=\s*+[}\]])', re.DOTALL)


class Broken(NamedTuple):
    """What looks like JSON and is none, or not all of it."""

    problem: str


class Found(NamedTuple):
    value: dict[str, Any] | Broken
    start: int
    end: int | None
    """Where the text goes on behind it; None where it has no end."""


def found(text: str, start: int, stop: int) -> Iterator[Found]:
    """Every object in `text[start:stop]` that is no part of another value, in order; what has no end comes last."""
    while match := _START.search(text, start, stop):
        end = _end(text, match.start(), stop)
        if not isinstance(end, int):
            yield Found(end, match.start(), None)
            return
        yield Found(parsed(text[match.start() : end]), match.start(), end)
        start = end


def parsed(text: str) -> dict[str, Any] | Broken:
    """The object that is the whole text; raw line ends in strings and commas before a closing bracket are taken."""
    value = _loaded(text)
    if isinstance(value, Broken):
        again = _loaded(_STRING_OR_COMMA.sub(_without_comma, text))
        value = value if isinstance(again, Broken) else again
    if not isinstance(value, dict | Broken):
        return Broken(f"it must be a JSON object, not a {type(value).__name__}")
    return value


def _end(text: str, start: int, stop: int) -> int | Broken:
    depth = 0
    for part in _PART.finditer(text, start, stop):
        match part[0]:
            case "{" | "[":
                depth += 1
            case "}" | "]":
                depth -= 1
            case '"':
                return Broken("the JSON ends inside a string")
        if depth == 0:
            return part.end()
        if depth > DEEPEST:
            return Broken(f"the JSON is nested more than {DEEPEST} levels deep")
    return Broken("the JSON is not whole: closing brackets are missing")


def _loaded(text: str) -> Any:
    try:
        value = json.loads(
            text, strict=False, object_pairs_hook=_object, parse_constant=_no_number, parse_float=_number
        )
    except json.JSONDecodeError as error:
        return Broken(f"not JSON: {error.msg} (line {error.lineno} column {error.colno})")
    except ValueError as error:
        return Broken(f"not JSON: {error}")
    return _storable(value) if "\\ud" in text.lower() else value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice[:80]!r} stands there twice")
    return members


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def _number(digits: str) -> float:
    number = float(digits)
    return number if math.isfinite(number) else _no_number(digits[:40])


def _storable(value: Any) -> Any:
    """Without lone surrogates: JSON can spell them, but they can neither be sent nor stored."""
    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def _without_comma(match: re.Match[str]) -> str:
    return match[0] if match[0].startswith('"') else ""
