"""Whether a schema is one that judges can answer in.

The meta-schema is applied node by node, so that depth costs no stack and the first error in reading order is told.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache, reduce
from typing import TYPE_CHECKING, Any

from evalscribe.errors import RubricError
from evalscribe.output_schema.meta import LOWER, PROPERTY, TYPES, UPPER
from evalscribe.output_schema.path import joined, listed, short, shown

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import ValidationError

DEEPEST = 100
"""Levels of mappings and lists, one within the other."""
LARGEST = 20_000
"""Values in a schema; what YAML aliases repeat counts each time."""
_NAMES: dict[type, str] = {dict: "an object", list: "a list"}


def check_schema(schema: object, path: str = "output_schema") -> None:
    """Raises `RubricError`, its path beginning with `path`, unless judges can answer in this schema."""
    _check_json(schema, path)
    for place, node in _nodes(schema, path):
        _check_node(node, place)
    if isinstance(schema, dict) and schema["type"] != "object":
        raise RubricError(f"{path}.type", f'the whole must be of type "object", not {shown(schema["type"])}')


def _check_json(schema: object, path: str) -> None:
    """Raises `RubricError` for what JSON cannot say, and for more than a schema can sensibly be."""
    waiting: list[tuple[str, object, int]] = [(path, schema, 0)]
    seen = 0
    while waiting:
        place, value, depth = waiting.pop()
        seen += 1
        if depth > DEEPEST:
            raise RubricError(short(place), f"is nested more than {DEEPEST} levels deep")
        if seen > LARGEST:
            raise RubricError(path, f"has more than {LARGEST} values")
        parts = list(_parts(value, place))
        waiting.extend((joined(place, key), part, depth + 1) for key, part in reversed(parts))


def _parts(value: object, path: str) -> Iterable[tuple[object, object]]:
    if isinstance(value, list):
        return enumerate(value)
    if not isinstance(value, dict):
        _check_scalar(value, path)
        return ()
    for key in value:
        if not isinstance(key, str):
            raise RubricError(short(path), f"the name {key!r} is no text: put it in quotes")
        _check_scalar(key, path)
    return value.items()


def _check_scalar(value: object, path: str) -> None:
    if value is not None and not isinstance(value, str | int | float):
        raise RubricError(
            short(path), f"a {type(value).__name__} is no JSON value: put text in quotes, items in a list"
        )
    if isinstance(value, float) and not math.isfinite(value):
        raise RubricError(short(path), f"{value} is no JSON number")
    if isinstance(value, str) and not _is_unicode(value):
        raise RubricError(short(path), "the text holds half a character (a lone surrogate)")


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _nodes(schema: object, path: str) -> Iterator[tuple[str, object]]:
    """Every schema in the schema, each before its parts, in reading order."""
    waiting = [(path, schema)]
    while waiting:
        place, node = waiting.pop()
        yield place, node
        if not isinstance(node, dict):
            continue
        if node["type"] == "object":
            inner = [(joined(f"{place}.properties", name), part) for name, part in node["properties"].items()]
            waiting.extend(reversed(inner))
        elif node["type"] == "array":
            waiting.append((f"{place}.items", node["items"]))


@cache
def _node_validator() -> "Draft202012Validator":
    from jsonschema import Draft202012Validator

    return Draft202012Validator({**PROPERTY, "$defs": {**TYPES, "property": True}})


def _check_node(node: object, path: str) -> None:
    """One schema without the schemas in it."""
    error = next(_node_validator().iter_errors(node), None)
    if error is not None:
        raise _told(error, node, path)
    assert isinstance(node, dict)
    for check in _CHECKS:
        check(node, path)


def _told(error: "ValidationError", node: object, path: str) -> RubricError:
    """The error in our words. Its validator's own words would show whole schemas."""
    place = reduce(joined, error.absolute_path, path)
    say = _SAYINGS.get(str(error.validator))
    if isinstance(node, dict) and error.validator in ("additionalProperties", "required"):
        unknown = _unknown_key(node, path)
        if unknown:
            return unknown
    return RubricError(short(place), say(error) if say else error.message)


def _unknown_key(node: dict[str, Any], path: str) -> RubricError | None:
    """Told before anything that is missing: who writes `anyOf` leaves out the type."""
    kinds = [node["type"]] if node.get("type") in TYPES else list(TYPES)
    allowed = list(dict.fromkeys(key for kind in kinds for key in TYPES[kind]["properties"]))
    key = next((key for key in node if key not in allowed), None)
    if key is None:
        return None
    of_type = f' of type "{kinds[0]}"' if len(kinds) == 1 else ""
    return RubricError(short(joined(path, key)), f"is not allowed in a schema{of_type}; allowed: {listed(allowed)}")


def _wrong_type(error: "ValidationError") -> str:
    value = error.instance
    found = _NAMES[type(value)] if isinstance(value, dict | list) else shown(value)
    return f"must be {_TYPE_NAMES[str(error.validator_value)]}, not {found}"


def _not_in_enum(error: "ValidationError") -> str:
    return f"must be one of {listed(error.validator_value)}, not {shown(error.instance)}"


def _missing(error: "ValidationError") -> str:
    rule: Any = error.validator_value
    node: Any = error.instance
    return f"needs {' and '.join(key for key in rule if key not in node)}"


def _twice(error: "ValidationError") -> str:
    members: Any = error.instance
    return f"holds {listed([shown(part) for n, part in enumerate(members) if part in members[:n]])} twice"


_TYPE_NAMES = {
    "object": "an object",
    "array": "a list",
    "string": "a text",
    "boolean": "true or false",
    "integer": "an integer",
    "number": "a number",
}
_SAYINGS: dict[str, Callable[["ValidationError"], str]] = {
    "type": _wrong_type,
    "enum": _not_in_enum,
    "required": _missing,
    "uniqueItems": _twice,
    "const": lambda error: f"must be {shown(error.validator_value)}, not {shown(error.instance)}",
    "minItems": lambda _: "is empty: nothing could be answered",
    "minLength": lambda _: "a property has an empty name",
    "minimum": lambda error: f"must be at least {error.validator_value}, not {shown(error.instance)}",
    "exclusiveMinimum": lambda error: f"must be above {error.validator_value}, not {shown(error.instance)}",
}


def _check_required(node: dict[str, Any], path: str) -> None:
    for n, name in enumerate(node.get("required", ())):
        if name not in node["properties"]:
            there = listed(node["properties"]) or "none"
            raise RubricError(f"{path}.required[{n}]", f"names {shown(name)}, which is no property; there is: {there}")


def _check_pattern(node: dict[str, Any], path: str) -> None:
    if "pattern" not in node:
        return
    try:
        re.compile(node["pattern"])
    except (re.error, RecursionError, OverflowError) as error:
        raise RubricError(f"{path}.pattern", f"is no regular expression: {error}") from error


def _check_lengths(node: dict[str, Any], path: str) -> None:
    low, high = node.get("minLength", 0), node.get("maxLength", math.inf)
    if low > high:
        raise RubricError(f"{path}.minLength", f"{low} is above maxLength {high}: no text fits")


def _check_range(node: dict[str, Any], path: str) -> None:
    for low in LOWER:
        for high in UPPER:
            if low in node and high in node and not _fits_between(node, low, high):
                problem = f"{node[low]} leaves no {node['type']} up to {high} {node[high]}"
                raise RubricError(f"{path}.{low}", problem)


def _fits_between(node: dict[str, Any], low: str, high: str) -> bool:
    """Whether a value of the node's type lies between both bounds."""
    least, most = node[low], node[high]
    if node["type"] == "integer":
        least = math.floor(least) + 1 if low in LOWER[1:] else math.ceil(least)
        most = math.ceil(most) - 1 if high in UPPER[1:] else math.floor(most)
        return bool(least <= most)
    return bool(least < most or (least == most and low not in LOWER[1:] and high not in UPPER[1:]))


_CHECKS = (_check_required, _check_pattern, _check_lengths, _check_range)
