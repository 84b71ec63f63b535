"""Rules for the output schema of a judge, and the path in the error for each violation."""

from copy import deepcopy
from typing import Any

import pytest

from evalscribe.errors import DataError, RubricError
from evalscribe.model.output_schema import META_SCHEMA, validate_schema
from evalscribe.model.rubric import DEFAULT_SCHEMA, LabelSet

ISSUES: dict[str, Any] = {
    "type": "object",
    "properties": {
        "issues": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "description": {"type": "string", "citations": True},
                    "severity": {"type": "string", "enum": ["low", "medium", "high"]},
                },
                "required": ["description", "severity"],
                "additionalProperties": False,
            },
        },
        "overall_score": {"type": "integer", "minimum": 1, "maximum": 10},
    },
    "required": ["issues", "overall_score"],
    "additionalProperties": False,
}


def object_with(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return object_with(a=schema)


def severity(**changes: Any) -> dict[str, Any]:
    schema = deepcopy(ISSUES)
    schema["properties"]["issues"]["items"]["properties"]["severity"].update(changes)
    return schema


INNER = "output_schema.properties.issues.items.properties.severity"
ALLOWED = [
    pytest.param(DEFAULT_SCHEMA, id="the-default"),
    pytest.param(ISSUES, id="a-list-of-objects"),
    pytest.param(object_with(), id="no-property-at-all"),
    pytest.param({**object_with(a={"type": "string"}), "title": "t", "description": "d"}, id="words-about-the-whole"),
    pytest.param(object_with(a=object_with(b=object_with(c={"type": "boolean"}))), id="objects-in-objects"),
    pytest.param(nested(60), id="sixty-lists-deep"),
    pytest.param(object_with(a={"type": "string", "citations": False}), id="citations-switched-off"),
    pytest.param(object_with(a={"type": "integer", "enum": [1, 2]}, b={"type": "boolean", "enum": [True]}), id="enums"),
    pytest.param(
        object_with(a={"type": "number", "minimum": 0, "exclusiveMaximum": 1, "multipleOf": 0.1}), id="bounds"
    ),
    pytest.param(object_with(a={"type": "number", "minimum": 1, "maximum": 1}), id="a-single-value"),
    pytest.param(
        object_with(a={"type": "string", "minLength": 2, "maxLength": 2, "pattern": "^a"}), id="lengths-and-pattern"
    ),
    pytest.param(object_with(a={"type": "string", "format": "date-time"}), id="formats"),
    pytest.param(object_with(**{"odd name": {"type": "string"}, "type": {"type": "string"}}), id="odd-names"),
]
# A path that begins with `a` is relative to `output_schema.properties`.
REFUSED = [
    # root schema
    pytest.param("x", "output_schema", "must be an object", id="no-object"),
    pytest.param(None, "output_schema", "must be an object", id="none"),
    pytest.param({}, "output_schema", "needs type", id="empty"),
    pytest.param({"type": "string"}, "output_schema.type", 'of type "object"', id="root-is-a-string"),
    pytest.param({"type": "array", "items": {"type": "string"}}, "output_schema.type", "object", id="root-is-a-list"),
    pytest.param({"type": "object"}, "output_schema", "needs properties", id="root-without-properties"),
    *(
        pytest.param({**object_with(), key: value}, f"output_schema.{key}", "is not allowed", id=f"root-with-{key}")
        for key, value in {"$schema": "x", "$defs": {}, "if": {}, "patternProperties": {}, "items": {}}.items()
    ),
    pytest.param(
        {**object_with(), "additionalProperties": True}, "output_schema.additionalProperties", "false", id="open"
    ),
    pytest.param(
        {**object_with(), "additionalProperties": {}},
        "output_schema.additionalProperties",
        "false",
        id="open-by-schema",
    ),
    pytest.param(
        {**object_with(), "additionalProperties": 0}, "output_schema.additionalProperties", "false", id="zero-for-false"
    ),
    # types
    pytest.param(object_with(a={}), "a", "needs type", id="no-type"),
    pytest.param(object_with(a={"type": "null"}), "a.type", "one of string", id="null"),
    pytest.param(object_with(a={"type": ["string"]}), "a.type", "one of string", id="list-of-types"),
    pytest.param(object_with(a=7), "a", "must be an object, not 7", id="property-is-no-schema"),
    pytest.param(object_with(a={"type": "array"}), "a", "needs items", id="list-without-items"),
    pytest.param(object_with(a={"type": "object"}), "a", "needs properties", id="inner-without-properties"),
    pytest.param(
        object_with(a={"type": "array", "items": [{"type": "string"}]}), "a.items", "a list", id="tuple-items"
    ),
    # keywords
    *(
        pytest.param(object_with(a={key: []}), f"a.{key}", "is not allowed", id=key)
        for key in ("anyOf", "oneOf", "allOf", "$ref", "not")
    ),
    *(
        pytest.param(object_with(a={"type": "string", key: 1}), f"a.{key}", "is not allowed", id=f"string-{key}")
        for key in ("const", "default", "examples", "minItems", "maxItems", "uniqueItems", "minimum", "nullable")
    ),
    pytest.param(object_with(a={"type": "integer", "minLength": 1}), "a.minLength", "allowed", id="length-of-a-number"),
    # enums
    pytest.param(severity(enum=[]), f"{INNER}.enum", "is empty", id="empty-enum"),
    pytest.param(severity(enum=["low", 1]), f"{INNER}.enum[1]", "must be a text, not 1", id="enum-of-another-type"),
    pytest.param(severity(enum=["yes", True]), f"{INNER}.enum[1]", "must be a text, not true", id="unquoted-yes"),
    pytest.param(severity(enum=["low", "low"]), f"{INNER}.enum", '"low" twice', id="enum-member-twice"),
    pytest.param(severity(enum="low"), f"{INNER}.enum", "must be a list", id="enum-is-no-list"),
    pytest.param(object_with(a={"type": "number", "enum": [0.5]}), "a.enum[0]", "an integer", id="float-enum"),
    pytest.param(object_with(a={"type": "string", "enum": [None]}), "a.enum[0]", "null", id="null-enum"),
    # citations
    pytest.param(severity(citations="true"), f"{INNER}.citations", "true or false", id="citations-in-quotes"),
    pytest.param(object_with(a={"type": "integer", "citations": True}), "a.citations", "allowed", id="cited-number"),
    pytest.param(object_with(a={**object_with(), "citations": True}), "a.citations", "allowed", id="cited-object"),
    pytest.param(
        object_with(a={"type": "array", "items": {"type": "string"}, "citations": True}),
        "a.citations",
        "allowed",
        id="cited-list",
    ),
    # required
    pytest.param(
        {**object_with(a={"type": "string"}), "required": ["a", "b"]},
        "output_schema.required[1]",
        '"b"',
        id="required-unknown",
    ),
    pytest.param(
        {**object_with(a={"type": "string"}), "required": ["a", "a"]},
        "output_schema.required",
        "twice",
        id="required-twice",
    ),
    pytest.param(
        {**object_with(a={"type": "string"}), "required": "a"},
        "output_schema.required",
        "must be a list",
        id="required-is-no-list",
    ),
    # bounds
    *(
        pytest.param(object_with(a={"type": "number", low: 2, high: 1}), f"a.{low}", high, id=f"{low}-over-{high}")
        for low in ("minimum", "exclusiveMinimum")
        for high in ("maximum", "exclusiveMaximum")
    ),
    pytest.param(
        object_with(a={"type": "number", "minimum": 1, "exclusiveMaximum": 1}),
        "a.minimum",
        "both",
        id="no-number-between",
    ),
    pytest.param(
        object_with(a={"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 2}),
        "a.exclusiveMinimum",
        "both",
        id="no-integer-between",
    ),
    pytest.param(
        object_with(a={"type": "integer", "minimum": 1.2, "maximum": 1.8}),
        "a.minimum",
        "both",
        id="no-integer-in-fractions",
    ),
    pytest.param(
        object_with(a={"type": "string", "minLength": 3, "maxLength": 2}),
        "a.minLength",
        "maxLength",
        id="lengths-crossed",
    ),
    pytest.param(object_with(a={"type": "string", "minLength": -1}), "a.minLength", "at least 0", id="negative-length"),
    pytest.param(object_with(a={"type": "number", "multipleOf": 0}), "a.multipleOf", "above 0", id="multiple-of-zero"),
    pytest.param(object_with(a={"type": "number", "minimum": "1"}), "a.minimum", "a number", id="bound-in-quotes"),
    # patterns, formats and names
    pytest.param(
        object_with(a={"type": "string", "pattern": "("}), "a.pattern", "regular expression", id="bad-pattern"
    ),
    pytest.param(
        object_with(a={"type": "string", "format": "regex"}), "a.format", "one of date-time", id="unknown-format"
    ),
    pytest.param(object_with(a={"type": "string", "title": 1}), "a.title", "a text", id="title-is-no-text"),
    pytest.param(
        object_with(**{"": {"type": "string"}}), "output_schema.properties", "empty name", id="nameless-property"
    ),
    # values that JSON cannot represent
    pytest.param(
        object_with(a={"type": "number", "minimum": float("nan")}), "a.minimum", "not a JSON number", id="nan"
    ),
    pytest.param(
        object_with(a={"type": "number", "maximum": float("inf")}), "a.maximum", "not a JSON number", id="infinity"
    ),
    pytest.param(object_with(a={"type": "string", "enum": ("x",)}), "a.enum", "tuple", id="tuple"),
    pytest.param({1: 2}, "output_schema", "not text", id="number-as-name"),
    pytest.param(object_with(a={"type": "string", "title": "\ud800"}), "a.title", "surrogate", id="half-a-character"),
]


@pytest.mark.parametrize("schema", ALLOWED)
def test_valid_schema_is_accepted(schema: dict[str, Any]) -> None:
    validate_schema(schema)


@pytest.mark.parametrize(("schema", "path", "words"), REFUSED)
def test_invalid_schema_error_names_the_path(schema: object, path: str, words: str) -> None:
    with pytest.raises(RubricError) as caught:
        validate_schema(schema)
    path = f"output_schema.properties.{path}" if path.startswith("a") else path
    assert caught.value.path == path
    assert words in caught.value.problem
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("schema", ALLOWED)
def test_meta_schema_accepts_the_valid_schemas(schema: dict[str, Any]) -> None:
    from jsonschema import Draft202012Validator

    Draft202012Validator.check_schema(META_SCHEMA)
    assert Draft202012Validator(META_SCHEMA).is_valid(schema)


def test_deeply_nested_schema_is_refused_without_stack_overflow() -> None:
    with pytest.raises(RubricError, match="nested more than") as caught:
        validate_schema(nested(5_000))
    assert len(str(caught.value)) < 400


def test_recursive_schema_is_refused() -> None:
    endless = object_with()
    endless["properties"]["again"] = endless
    with pytest.raises(RubricError, match="nested more than"):
        validate_schema(endless)


def test_too_large_schema_is_refused() -> None:
    ten = {f"a{n}": {"type": "string"} for n in range(10)}
    shared: dict[str, Any] = object_with(**ten)
    for _ in range(8):
        shared = object_with(**{f"b{n}": shared for n in range(10)})
    with pytest.raises(RubricError, match="values"):
        validate_schema(shared)


def test_label_set_schema_obeys_the_same_rules() -> None:
    LabelSet(name="labels", label_schema=ISSUES)
    with pytest.raises(RubricError) as caught:
        LabelSet(name="labels", label_schema=severity(enum=[]))
    assert caught.value.path == INNER.replace("output_schema", "label_schema") + ".enum"


def test_rubric_error_is_a_data_error_with_exit_code_65() -> None:
    assert issubclass(RubricError, DataError)
    assert RubricError("a.b", "is wrong", "f.yaml:3").exit_code == 65
    assert str(RubricError("a.b", "is wrong", "f.yaml:3")) == "f.yaml:3: a.b: is wrong"
