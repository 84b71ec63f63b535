"""The meta-schema: which schemas a judge can answer in, as a JSON Schema. `check` adds what that cannot say."""

from typing import Any

FORMATS = ("date-time", "date", "time", "email", "hostname", "ipv4", "ipv6", "uri", "uuid")
LOWER, UPPER = ("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")
_WORDS: dict[str, Any] = {"title": {"type": "string"}, "description": {"type": "string"}}
_COUNT = {"type": "integer", "minimum": 0}
_BOUNDS: dict[str, Any] = {
    **{name: {"type": "number"} for name in (*LOWER, *UPPER)},
    "multipleOf": {"type": "number", "exclusiveMinimum": 0},
}
_PROPERTY_REF = {"$ref": "#/$defs/property"}


def _enum(member: str) -> dict[str, Any]:
    return {"enum": {"type": "array", "items": {"type": member}, "minItems": 1, "uniqueItems": True}}


def _of_type(keys: dict[str, Any], *required: str) -> dict[str, Any]:
    """The schema of the schemas of one type: which keys these may have, and which they must."""
    return {
        "properties": {"type": True, **_WORDS, **keys},
        "required": ["type", *required],
        "additionalProperties": False,
    }


TYPES: dict[str, dict[str, Any]] = {
    "string": _of_type(
        {
            "citations": {"type": "boolean"},
            **_enum("string"),
            "format": {"enum": list(FORMATS)},
            "minLength": _COUNT,
            "maxLength": _COUNT,
            "pattern": {"type": "string", "format": "regex"},
        }
    ),
    "integer": _of_type({**_enum("integer"), **_BOUNDS}),
    "number": _of_type({**_enum("integer"), **_BOUNDS}),
    "boolean": _of_type(_enum("boolean")),
    "array": _of_type({"items": _PROPERTY_REF}, "items"),
    "object": _of_type(
        {
            "properties": {
                "type": "object",
                "propertyNames": {"minLength": 1},
                "additionalProperties": _PROPERTY_REF,
            },
            "required": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
            "additionalProperties": {"const": False},
        },
        "properties",
    ),
}


def _where_type(name: str) -> dict[str, Any]:
    condition = {"properties": {"type": {"const": name}}, "required": ["type"]}
    return {"if": condition, "then": {"$ref": f"#/$defs/{name}"}}


PROPERTY: dict[str, Any] = {
    "type": "object",
    "properties": {"type": {"enum": list(TYPES)}},
    "required": ["type"],
    "allOf": [_where_type(name) for name in TYPES],
}
META_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Schema of a judge's answer, or of a label",
    "description": 'A JSON Schema of an object. "citations": true on a string asks for citations in it.',
    "properties": {"type": {"const": "object"}},
    "$ref": "#/$defs/property",
    "$defs": {"property": PROPERTY, **TYPES},
}
