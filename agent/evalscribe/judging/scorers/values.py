"""JSON values side by side: equal by type and content, and if not, where they differ."""

import json
from collections.abc import Iterator
from typing import NamedTuple, cast

from pydantic import JsonValue

from evalscribe.json_data import join_path, preview
from evalscribe.text import printable

NOTHING = object()
"""The value of a place that one side does not have."""
LARGEST_EVIDENCE = 500
"""Characters of a value's JSON that are kept whole in evidence; of a larger one the beginning is."""
DEEPEST_EVIDENCE = 64
"""Levels of nesting that are kept as they are."""
AROUND = 24
"""Characters that are shown before the first one that differs."""
_KINDS: dict[type, str] = {
    str: "text",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    list: "a list",
    dict: "an object",
    type(None): "null",
}


class Place(NamedTuple):
    """Where two values differ."""

    path: str
    expected: object
    """`NOTHING` for what was not expected."""
    output: object
    """`NOTHING` for what is missing."""

    def __str__(self) -> str:
        if self.output is NOTHING:
            return f"{printable(self.path)} is missing, {told(self.expected)} is expected"
        if self.expected is NOTHING:
            return f"{printable(self.path)} is not expected, it is {told(self.output)}"
        return f"{printable(self.path)} is {_beside(self.output, self.expected)}"


def same(output: object, expected: object, *, fold: bool = False, subset: bool = False) -> bool:
    """Equal as JSON: 1 is 1.0 but neither "1" nor true. `fold`: upper and lower case are one; `subset`: objects of the
    output may have more members."""
    return next(places(output, expected, fold=fold, subset=subset), None) is None


def places(
    output: object, expected: object, path: str = "output", *, fold: bool = False, subset: bool = False
) -> Iterator[Place]:
    """In the order of what is expected, what is not expected after it. Raises `RecursionError` for what is too deep."""
    if isinstance(output, dict) and isinstance(expected, dict):
        for name in (*expected, *(() if subset else (name for name in output if name not in expected))):
            yield from _at(output.get(name, NOTHING), expected.get(name, NOTHING), join_path(path, name), fold, subset)
    elif isinstance(output, list) and isinstance(expected, list):
        for at in range(max(len(output), len(expected))):
            yield from _at(_member(output, at), _member(expected, at), join_path(path, at), fold, subset)
    elif not _equal(output, expected, fold):
        yield Place(path, expected, output)


def _at(output: object, expected: object, path: str, fold: bool, subset: bool) -> Iterator[Place]:
    if output is NOTHING or expected is NOTHING:
        yield Place(path, expected, output)
    else:
        yield from places(output, expected, path, fold=fold, subset=subset)


def leaves(value: object) -> int:
    """How many places a value has that hold no others; an empty list or object is one."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return sum(map(leaves, parts)) or 1


def kind(value: object) -> str:
    return _KINDS.get(type(value), "nothing")


def told(value: object) -> str:
    """In one safe line of bounded length."""
    return printable(preview(value[:LARGEST_EVIDENCE] if isinstance(value, str) else value))


def text_of(value: JsonValue) -> str | None:
    """Text as it is, any other value as compact JSON; None for null, which is no output.

    Scores that are stored rest on this spelling: edits are counted in it and expressions are looked for.
    """
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def kept(value: object) -> JsonValue:
    """For evidence: a large value is cut, one that is no JSON or too deep is text."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:
        return told(value)
    if len(text) > LARGEST_EVIDENCE:
        return f"{text[:LARGEST_EVIDENCE]}…"
    return text if text.count("[") + text.count("{") > DEEPEST_EVIDENCE else cast(JsonValue, value)


def kept_place(place: Place) -> JsonValue:
    """A place as evidence; a side that has nothing there is left out."""
    sides = {"expected": place.expected, "output": place.output}
    return {"path": place.path, **{side: kept(value) for side, value in sides.items() if value is not NOTHING}}


def _equal(output: object, expected: object, fold: bool) -> bool:
    if isinstance(output, str) and isinstance(expected, str):
        return output == expected or (fold and output.casefold() == expected.casefold())
    return output == expected and isinstance(output, bool) == isinstance(expected, bool)


def _member(values: list[object], at: int) -> object:
    return values[at] if at < len(values) else NOTHING


def _beside(output: object, expected: object) -> str:
    if isinstance(output, str) and isinstance(expected, str):
        return _texts(output, expected)
    if kind(output) == kind(expected):
        return f"{told(output)} instead of {told(expected)}"
    return f"{told(output)} ({kind(output)}) instead of {told(expected)} ({kind(expected)})"


def _texts(output: str, expected: str) -> str:
    """Two texts that differ, each from a little before the first character that does."""
    at = next((at for at, both in enumerate(zip(output, expected, strict=False)) if both[0] != both[1]), None)
    at = min(len(output), len(expected)) if at is None else at
    start = max(0, at - AROUND) if at > AROUND * 2 else 0
    if not start:
        return f"{told(output)} instead of {told(expected)}"
    return f"…{told(output[start:])} instead of …{told(expected[start:])} from character {at + 1:,} on"
