"""A JSON value as people name its parts and read it."""

import json

from pydantic import JsonValue

LONGEST_NUMBER = 9
"""Digits of a place in a list."""


def member(value: JsonValue, name: str) -> JsonValue:
    """Of an object by name, of a list by number, from 0. Raises `LookupError` where there is none."""
    if isinstance(value, dict):
        return value[name]
    if isinstance(value, list) and name.isdecimal() and len(name) <= LONGEST_NUMBER:
        return value[int(name)]
    raise LookupError(name)


def as_text(value: JsonValue) -> str:
    """A text as it is, all else as JSON, its members in their order.

    Scorers and what shows a run spell JSON more closely, each for a reason of its own (see there).
    """
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
