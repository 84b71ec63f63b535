"""An answer beside its schema: whether it fits, where it may cite, what rollouts can agree on."""

import json
import math
from collections.abc import Iterator
from functools import lru_cache, reduce
from typing import TYPE_CHECKING, Any

from evalscribe.output_schema.path import joined, listed, short, shown

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

MOST_PROBLEMS = 5
_FOR_PROVIDERS = ("type", "title", "description", "enum")
"""What every provider's grammar knows; lengths, ranges, formats and patterns are checked here instead."""
Path = tuple[str | int, ...]


def check_output(output: Any, schema: dict[str, Any]) -> list[str]:
    """What keeps an answer from fitting, as `path: what`, at most five; nothing when it fits."""
    try:
        found = list(_not_finite(output, "")) or [*map(_told, _validator(_spelled(schema)).iter_errors(output))]
    except RecursionError:
        return ["answer: is nested too deeply"]
    return found[:MOST_PROBLEMS]


def cited_strings(output: object, schema: dict[str, Any], path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Every string of an answer whose schema asks for citations, with where it stands."""
    if isinstance(output, str) and schema.get("citations"):
        yield path, output
    for part, inner in _inner(output, schema):
        assert isinstance(output, dict | list)
        yield from cited_strings(output[part], inner, (*path, part))


def _inner(output: object, schema: dict[str, Any]) -> list[tuple[Any, dict[str, Any]]]:
    if isinstance(output, dict) and schema.get("type") == "object":
        return [(name, inner) for name, inner in schema["properties"].items() if name in output]
    if isinstance(output, list) and schema.get("type") == "array":
        return [(n, schema["items"]) for n in range(len(output))]
    return []


def has_citations(schema: dict[str, Any]) -> bool:
    """Whether any string of it, however deep, asks for citations."""
    inner = [*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])]
    return bool(schema.get("citations")) or any(map(has_citations, inner))


def agreement_keys(schema: dict[str, Any]) -> tuple[str, ...]:
    """What rollouts are compared by: the top-level properties that are booleans or have an enum, in order."""
    properties = schema["properties"].items()
    return tuple(name for name, inner in properties if inner["type"] == "boolean" or "enum" in inner)


def for_provider(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema that a provider's structured output is asked for: closed objects, and no more than grammars know."""
    told = {key: schema[key] for key in _FOR_PROVIDERS if key in schema}
    if schema["type"] == "array":
        return {**told, "items": for_provider(schema["items"])}
    if schema["type"] != "object":
        return told
    properties = {name: for_provider(inner) for name, inner in schema["properties"].items()}
    required = [name for name in properties if name in schema.get("required", ())]
    return {**told, "properties": properties, "required": required, "additionalProperties": False}


def _spelled(schema: dict[str, Any]) -> str:
    return json.dumps(schema)


@lru_cache(maxsize=64)
def _validator(schema: str) -> "Validator":
    """Made once per schema: it is asked for every answer."""
    from evalscribe.output_schema.validator import validator

    return validator(json.loads(schema))


def _not_finite(output: object, path: str) -> Iterator[str]:
    """JSON has no NaN and no Infinity, and no range holds against them."""
    if isinstance(output, float) and not math.isfinite(output):
        yield f"{path or 'answer'}: {output} is no JSON number"
    parts = output.items() if isinstance(output, dict) else enumerate(output) if isinstance(output, list) else ()
    for part, value in parts:
        yield from _not_finite(value, joined(path, part))


def _told(error: "ValidationError") -> str:
    path = reduce(joined, error.absolute_path, "")
    return f"{short(path) or 'answer'}: {_said(error)}"


def _said(error: "ValidationError") -> str:
    """Bounded, unlike the validator's own words, which repeat the whole answer."""
    value: Any = error.instance
    rule: Any = error.validator_value
    match error.validator:
        case "type":
            return f"must be of type {rule}, is {shown(value)}"
        case "enum":
            return f"must be one of {listed([shown(member) for member in rule])}, is {shown(value)}"
        case "required":
            return f"lacks {listed([shown(name) for name in rule if name not in value])}"
        case "additionalProperties":
            known: Any = error.schema
            return f"has unknown {listed([shown(name) for name in value if name not in known['properties']])}"
        case _:
            return f"{shown(value)} breaks {error.validator} {shown(rule)}"
