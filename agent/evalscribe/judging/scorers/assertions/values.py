"""What the functions and comparisons of assertions do with values."""

import operator
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import JsonValue

from evalscribe.judging.scorers.result import CannotScore
from evalscribe.judging.scorers.values import kind, same, told

Values = Callable[[str], JsonValue]
"""Gives what a path such as `output.items` names. Raises `CannotScore` where there is nothing."""
Expression = Callable[[Values], JsonValue]

PREDICATES: Mapping[str, Callable[[JsonValue], bool]] = {
    "is_string": lambda value: isinstance(value, str),
    "is_number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "is_boolean": lambda value: isinstance(value, bool),
    "is_null": lambda value: value is None,
    "is_array": lambda value: isinstance(value, list),
    "is_object": lambda value: isinstance(value, dict),
}
_ORDERS: Mapping[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
COMPARISONS = ("==", "!=", *_ORDERS)


def compared(sign: str, left: JsonValue, right: JsonValue) -> bool:
    """Any two values are equal or not; only numbers and numbers, texts and texts have an order."""
    if sign in ("==", "!="):
        return same(left, right) == (sign == "==")
    if not any(is_of(left) and is_of(right) for is_of in (PREDICATES["is_number"], PREDICATES["is_string"])):
        raise CannotScore(
            "input_error", f"{kind(left)} and {kind(right)} have no order: {told(left)} {sign} {told(right)}"
        )
    return bool(_ORDERS[sign](left, right))


def condition(value: JsonValue) -> bool:
    if not isinstance(value, bool):
        raise CannotScore("input_error", f"true or false is needed, not {told(value)}")
    return value


def size(value: JsonValue) -> int:
    """Characters, items or members."""
    if not isinstance(value, str | list | dict):
        raise CannotScore("input_error", f"{kind(value)} has no size: {told(value)}")
    return len(value)


def unique(value: JsonValue) -> bool:
    items = listed("unique", value)
    return len({_hashable(item) for item in items}) == len(items)


def listed(function: str, value: JsonValue) -> list[JsonValue]:
    if not isinstance(value, list):
        raise CannotScore("input_error", f"{function} asks about a list, not {kind(value)}: {told(value)}")
    return value


FUNCTIONS: Mapping[str, Callable[[JsonValue], JsonValue]] = {"size": size, "unique": unique, **PREDICATES}
QUANTIFIERS: Mapping[str, Callable[[list[bool]], bool]] = {"all": all, "any": any}


def _hashable(value: JsonValue) -> object:
    """Equal for equal JSON values only: 1 is 1.0, but not true."""
    if isinstance(value, dict):
        return "object", frozenset((name, _hashable(item)) for name, item in value.items())
    if isinstance(value, list):
        return "list", tuple(map(_hashable, value))
    return kind(value), value
