"""Generated schemas and rubrics: valid ones accept their answers, and an error is reported at its path."""

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from evalscribe.errors import RubricError
from evalscribe.json_data import join_path
from evalscribe.judging.rubrics import parse_rubric, to_yaml
from evalscribe.model.output_schema import META_SCHEMA, cited_strings, provider_schema, validate_answer, validate_schema
from evalscribe.model.rubric import OutputParsingMode, PromptTemplateMessage, Rubric

Schema = dict[str, Any]
META = Draft202012Validator(META_SCHEMA)
NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8) | st.sampled_from(["type", "label", "items"])
TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)
WORDS = st.fixed_dictionaries({}, optional={"title": TEXTS, "description": TEXTS})


def _merged(parts: tuple[Schema, ...]) -> Schema:
    return {key: value for part in parts for key, value in part.items()}


def _node(kind: str, **rules: Any) -> st.SearchStrategy[Schema]:
    optional = st.fixed_dictionaries({"type": st.just(kind)}, optional=rules)
    return st.tuples(optional, WORDS).map(_merged)


def _range(kind: str) -> st.SearchStrategy[Schema]:
    pairs = st.tuples(st.integers(-50, 0), st.integers(10, 50))
    bounds = pairs.map(lambda pair: {"type": kind, "minimum": pair[0], "exclusiveMaximum": pair[1]})
    return bounds | _node(kind, enum=st.lists(st.integers(-9, 9), min_size=1, max_size=4, unique=True))


LEAVES = st.one_of(
    _node("string", citations=st.booleans()),
    _node("string", enum=st.lists(TEXTS, min_size=1, max_size=4, unique=True)),
    _node("string", minLength=st.integers(0, 3), maxLength=st.integers(3, 9)),
    _node("boolean"),
    _range("integer"),
    _range("number"),
)


@st.composite
def objects(draw: st.DrawFn, inner: st.SearchStrategy[Schema] = LEAVES) -> Schema:
    properties = draw(st.dictionaries(NAMES, inner, max_size=4))
    required = draw(st.lists(st.sampled_from(sorted(properties)), unique=True)) if properties else []
    closed = {"additionalProperties": False} if draw(st.booleans()) else {}
    return {"type": "object", "properties": properties, "required": required, **closed}


def _containers(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    return objects(inner) | st.fixed_dictionaries({"type": st.just("array"), "items": inner})


SCHEMAS = objects(st.recursive(LEAVES, _containers, max_leaves=6))


def instances(schema: Schema) -> st.SearchStrategy[Any]:
    """Return a strategy for answers that fit the schema."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema["type"]:
        case "object":
            parts = {name: instances(inner) for name, inner in schema["properties"].items()}
            required = {name: parts.pop(name) for name in schema["required"]}
            return st.fixed_dictionaries(required, optional=parts)
        case "array":
            return st.lists(instances(schema["items"]), max_size=2)
        case "string":
            return st.text(min_size=schema.get("minLength", 0), max_size=schema.get("maxLength", 9))
        case "boolean":
            return st.booleans()
        case _:
            return st.integers(schema.get("minimum", -99), schema.get("exclusiveMaximum", 99) - 1)


def nodes(schema: Schema, path: str = "output_schema") -> Iterator[tuple[str, Schema]]:
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from nodes(inner, join_path(f"{path}.properties", name))
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}.items")


@given(SCHEMAS, st.data())
@settings(max_examples=75, suppress_health_check=list(HealthCheck))
def test_generated_schema_is_valid_and_accepts_its_answers(schema: Schema, data: st.DataObject) -> None:
    validate_schema(schema)
    assert META.is_valid(schema)
    answer = data.draw(instances(schema))
    assert validate_answer(answer, schema) == []
    assert all(isinstance(text, str) for _, text in cited_strings(answer, schema))
    assert Draft202012Validator(provider_schema({**schema, "additionalProperties": False})).is_valid(answer)


WRONG: dict[str, tuple[str, Any]] = {
    "anyOf": ("anyOf", []),
    "citations": ("citations", "true"),
    "title": ("title", 5),
    "type": ("type", "null"),
    "enum": ("enum", []),
}


@given(SCHEMAS, st.sampled_from(sorted(WRONG)), st.data())
@settings(max_examples=75, suppress_health_check=list(HealthCheck))
def test_invalid_keyword_is_reported_at_its_path(schema: Schema, what: str, data: st.DataObject) -> None:
    changed = deepcopy(schema)
    path, node = data.draw(st.sampled_from(list(nodes(changed))))
    key, value = WRONG[what]
    node[key] = value
    assert not META.is_valid(changed)
    with pytest.raises(RubricError) as caught:
        validate_schema(changed)
    assert caught.value.path == f"{path}.{key}"


@given(SCHEMAS, st.data())
@settings(max_examples=50, suppress_health_check=list(HealthCheck))
def test_required_property_must_exist_at_any_depth(schema: Schema, data: st.DataObject) -> None:
    changed = deepcopy(schema)
    path, node = data.draw(st.sampled_from([pair for pair in nodes(changed) if "required" in pair[1]]))
    node["required"].append("not there at all")
    with pytest.raises(RubricError) as caught:
        validate_schema(changed)
    assert caught.value.path == f"{path}.required[{len(node['required']) - 1}]"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


@given(JSON | st.builds(lambda value: {"type": "object", "properties": {"a": value}}, JSON))
@settings(max_examples=75)
def test_any_json_value_is_accepted_or_refused_with_a_path(value: Any) -> None:
    error_path = None
    try:
        validate_schema(value)
    except RubricError as error:
        error_path = error.path
    assert META.is_valid(value) if error_path is None else error_path.startswith("output_schema")


TEMPLATES = st.text(st.sampled_from("ab \n\t:#'\"-|>{}é\u2028"), max_size=12).map(
    lambda text: text.replace("{", "{{").replace("}", "}}")
)
RUBRIC_TEXTS = st.text(st.characters(codec="utf-8"), max_size=30) | st.text(
    st.sampled_from("ab \n\t:#'\"-|>"), max_size=30
)


@st.composite
def rubrics(draw: st.DrawFn) -> Rubric:
    templates: dict[str, Any] = {}
    if draw(st.booleans()):
        content = (
            draw(TEMPLATES) + "{rubric}{agent_run}" + draw(TEMPLATES) + "{output_schema}<answer>" + draw(TEMPLATES)
        )
        templates = {"prompt_templates": (PromptTemplateMessage(role="user", content=content),)}
    return Rubric(
        rubric_text=draw(RUBRIC_TEXTS) + "x" + draw(RUBRIC_TEXTS),
        output_schema=draw(SCHEMAS),
        judge_model=draw(st.sampled_from(["openai/gpt-5", "openrouter/a/b", "anthropic/claude-opus-5-5"])),
        output_parsing_mode=draw(st.sampled_from(OutputParsingMode)),
        response_xml_key="answer",
        n_rollouts_per_input=draw(st.integers(1, 5)),
        **templates,
    )


@given(rubrics())
@settings(max_examples=100, suppress_health_check=list(HealthCheck))
def test_any_rubric_survives_a_round_trip_through_yaml(rubric: Rubric) -> None:
    again = parse_rubric(to_yaml(rubric), "again", "f.yaml")
    assert again.digest == rubric.digest
    assert json.dumps(again.output_schema) == json.dumps(rubric.output_schema)
