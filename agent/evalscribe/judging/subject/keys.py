"""Dotted keys into metadata, `scores.reward` or `steps.0.name`; a key may itself hold dots, blanks or brackets."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_INDEX = re.compile(r"[0-9]{1,9}")
_ENDS = ("]", ",", ";", ":<RANGE>", ": <RANGE>")
MOST_STEPS = 10_000
"""Ways through hostile metadata that are tried for one key."""


@dataclass(frozen=True)
class Value:
    """A value that a key leads to; `end`: where the key ended in the text that it was read from."""

    value: Any
    end: int


def found(metadata: Any, text: str, at: int = 0) -> Value | None:
    """The value whose key stands at `at`: of several that could be meant the one with the longest key; None if none."""
    reached = list(_ways(metadata, text, at, [MOST_STEPS]))
    return max(reached, key=lambda value: value.end, default=None)


def _ways(node: Any, text: str, at: int, left: list[int]) -> Iterator[Value]:
    for end, child in _children(node, text, at):
        left[0] -= 1
        if left[0] < 0:
            return
        if end == len(text) or text.startswith(_ENDS, end):
            yield Value(child, end)
        if text.startswith(".", end):
            yield from _ways(child, text, end + 1, left)
        elif text.startswith("[", end) and isinstance(child, list):
            yield from _ways(child, text, end, left)


def _children(node: Any, text: str, at: int) -> Iterator[tuple[int, Any]]:
    """The parts of a value that are named at `at`, each with the end of its name."""
    if isinstance(node, dict):
        for length in {len(key) for key in node}:
            key = text[at : at + length]
            if key in node and length:
                yield at + length, node[key]
    elif isinstance(node, list):
        bracket = text.startswith("[", at)
        index = _INDEX.match(text, at + bracket)
        if index and int(index[0]) < len(node) and (not bracket or text.startswith("]", index.end())):
            yield index.end() + bracket, node[int(index[0])]


def value_text(value: Any) -> str:
    """A value of metadata as text: a string as it is, anything else as indented JSON."""
    return value if isinstance(value, str) else as_json(value)


def as_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)
