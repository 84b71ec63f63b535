"""Scorer names, aliases, configs and bindings: listing, translation and validation errors."""

import json
import re
from typing import Any

import pytest

from evalscribe.errors import UsageError
from evalscribe.experiments.scorers.catalogue import (
    REFUSED,
    is_reserved,
    list_scorers,
    parse_binding,
    scorer_runner,
    scorer_spec,
)

CANONICAL = [
    "exact_match",
    "contains",
    "levenshtein",
    "regex_match",
    "json_valid",
    "numeric_range",
    "json_schema",
    "structured_assertions",
    "tool_calls",
    "limits",
    "no_errors",
    "state_equals",
]


def test_list_scorers_gives_summary_aliases_and_required_keys() -> None:
    listed = {one.name: one for one in list_scorers()}
    assert [name for name, one in listed.items() if one.of is None and not one.needs_model] == CANONICAL
    assert {name for name, one in listed.items() if one.needs_model} == {"llm_judge", "correctness", "faithfulness"}
    assert listed["limits"].aliases == (
        "max_tool_calls",
        "max_llm_calls",
        "max_lm_calls",
        "max_tokens",
        "duration_under",
    )
    assert listed["tool_called"].of == "tool_calls"
    assert all(one.line for one in listed.values())
    assert listed["contains"].required == ("pattern",)
    assert listed["json_schema"].required == ("schema",)


def test_config_schemas_are_closed_for_scorers_without_a_model() -> None:
    for one in list_scorers():
        properties = one.config_schema.get("properties", {})
        assert all(key == key.strip("_") for key in properties), one.name
        if not one.needs_model:
            assert one.config_schema["additionalProperties"] is False


@pytest.mark.parametrize(
    ("name", "config", "canonical", "translated"),
    [
        ("tool_called", {"tool": "a"}, "tool_calls", {"called": ["a"]}),
        ("tool_not_called", {"tool": "a"}, "tool_calls", {"not_called": ["a"]}),
        ("tool_sequence", {"tools": ["a", "b"]}, "tool_calls", {"in_order": ["a", "b"]}),
        ("tool_trajectory", {"tools": []}, "tool_calls", {"exact": []}),
        ("max_llm_calls", {"max": 0}, "limits", {"max_model_calls": 0}),
        ("duration_under", {"max_ms": 5}, "limits", {"max_duration_ms": 5.0}),
    ],
)
def test_alias_translates_its_config_to_the_canonical_scorer(
    name: str, config: Any, canonical: str, translated: Any
) -> None:
    built_spec = scorer_spec(name, config)
    assert (built_spec.name, built_spec.scorer) == (name, canonical)
    assert {key: value for key, value in built_spec.config.items() if value is not None} == translated


def test_spec_config_includes_defaults() -> None:
    assert scorer_spec("exact_match", {}).config == {
        "output_field": "output",
        "expected_field": "expected",
        "case_sensitive": True,
    }
    assert scorer_spec("exact_match", {}).id == scorer_spec("exact_match", {"case_sensitive": True}).id
    assert scorer_spec("exact_match", {}).id != scorer_spec("exact_match", {"case_sensitive": False}).id


def test_stored_spec_creates_the_same_scorer() -> None:
    for name, config in (("tool_called", {"tool": "a"}), ("json_schema", {"schema": {"type": "object"}})):
        built_spec = scorer_spec(name, config)
        stored_spec = type(built_spec).model_validate_json(built_spec.model_dump_json())
        assert (stored_spec.id, scorer_runner(stored_spec).name, scorer_runner(stored_spec).depends_on) == (
            built_spec.id,
            name,
            (),
        )


@pytest.mark.parametrize(
    ("name", "config", "message"),
    [
        ("contains", {}, 'pattern is missing; write {"name": "contains", "config": {"pattern": "…'),
        ("contains", {"pattern": ""}, "pattern must have at least 1 character"),
        ("contains", {"pattern": 3}, "pattern must be a valid string, not 3"),
        ("contains", {"patern": "x", "pattern": "x"}, "patern is unknown; known keys: "),
        ("contains", {"pattern": "x", "case_sensitive": "no"}, "case_sensitive must be a valid boolean"),
        ("contains", {"pattern": "x", "expected_field": "expected"}, "expected_field is unknown"),
        ("contains", {"pattern": "x", "output_field": "label"}, "output_field must begin with one of output"),
        ("contains", {"pattern": "x", "output_field": "output..label"}, "output_field is not a dotted path such as"),
        ("json_valid", {"strict": True}, "strict is unknown; known keys: output_field"),
        ("no_errors", {"x": 1}, "x is unknown; known keys: none"),
        ("regex_match", {"pattern": "(a"}, "pattern is not a regular expression: missing )"),
        ("regex_match", {"pattern": "a{99999999999}"}, "pattern is not a regular expression"),
        ("numeric_range", {}, "needs min, max or both"),
        ("numeric_range", {"min": 2, "max": 1}, "there is no number between min 2 and max 1"),
        ("numeric_range", {"min": 1, "max": 1, "inclusive": False}, "there is no number between"),
        ("numeric_range", {"min": "0"}, "min must be a valid number"),
        ("numeric_range", {"min": float("nan")}, "its config is not JSON"),
        ("levenshtein", {"threshold": 0}, "threshold must be greater than 0"),
        ("levenshtein", {"threshold": 1.1}, "threshold must be less than or equal to 1"),
        ("structured_assertions", {"assertions": []}, "assertions must have at least 1 item"),
        ("structured_assertions", {"assertions": [{"name": "a"}]}, "assertions.0.expr is missing"),
        (
            "structured_assertions",
            {"assertions": [{"name": "a", "expr": "true"}, {"name": "a", "expr": "true"}]},
            "assertions has 'a' twice",
        ),
        (
            "structured_assertions",
            {"assertions": [{"name": "a", "expr": "true"}], "score_threshold": 0},
            "greater than 0",
        ),
        ("tool_calls", {}, "needs at least one of called, not_called, in_order, exact, any_order, params"),
        ("tool_calls", {"called": "a"}, "called must be a valid array"),
        ("tool_calls", {"called": []}, "called must have at least 1 item"),
        ("tool_calls", {"params": [{"tool": "a", "arguments": {}, "mode": "some"}]}, "params.0.mode must be 'subset'"),
        ("tool_called", {"tools": ["a"]}, "tool is missing"),
        ("tool_trajectory", {"tools": ["a"], "mode": "exact", "pattern": "in_order"}, "mode and pattern are names of"),
        ("max_tokens", {"max": -1}, "max must be greater than or equal to 0"),
        ("max_tokens", {"max": 1.5}, "max must be a valid integer"),
        ("limits", {}, "needs at least one of max_tool_calls"),
        ("state_equals", {}, "name is missing"),
        ("state_equals", {"name": "a", "expected": 1, "expected_field": "expected.a"}, "be combined with expected"),
        ("json_schema", {"schema": {"type": "thing"}}, "schema is not a JSON Schema"),
        ("json_schema", {"schema": 3}, "schema"),
        ("json_schema", {"schema": {"$schema": "https://example.test/draft"}}, "has the unknown $schema"),
        (
            "json_schema",
            {"schema": {"$ref": "https://example.test/a.json"}},
            "cannot be resolved: remote references are not fetched",
        ),
        ("json_schema", {"schema": {"$ref": "https://json-schema.org/draft/2020-12/schema"}}, "cannot be resolved"),
        ("json_schema", {"schema": {"properties": {"a": {"$ref": "#/$defs/b"}}}}, 'the $ref "#/$defs/b"'),
        ("json_schema", {"schema": {"$ref": "#"}}, "refers to itself endlessly"),
        ("json_schema", {"schema": {"pattern": "(a"}}, "schema is not a JSON Schema"),
        ("json_schema", {"schema": {"patternProperties": {"(a": {}}}}, "schema is not a JSON Schema"),
    ],
)
def test_invalid_config_is_refused_naming_scorer_key_and_rule(name: str, config: Any, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        scorer_spec(name, config)
    assert str(refused.value).startswith(f"scorer {name}: ")
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("exactmatch", "did you mean exact_match"),
        ("", "scorers: exact_match, contains"),
        ("plan_quality", "ask a model with llm_judge"),
        ("step_efficiency", "use limits"),
        ("tool_failure_recovered", "use no_errors"),
        ("agent_judge", "use llm_judge, which sees the transcript"),
        ("conciseness", "criteria of llm_judge"),
    ],
)
def test_unknown_scorer_name_suggests_an_alternative(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        scorer_spec(name, {})


def test_scorer_names_and_aliases_are_reserved() -> None:
    assert all(is_reserved(name) for name in (*CANONICAL, "tool_called", "llm_judge", *REFUSED))
    assert not is_reserved("polite")


def test_bare_name_is_a_required_binding() -> None:
    bound = parse_binding(" json_valid ")
    assert (bound.spec, bound.required, bound.threshold) == (scorer_spec("json_valid", {}), True, None)


def test_binding_json_sets_name_required_and_threshold() -> None:
    binding_fields = {
        "name": "contains",
        "config": {"pattern": "x"},
        "as": "has_x",
        "required": False,
        "threshold": 0.5,
    }
    bound = parse_binding(json.dumps(binding_fields))
    assert (bound.spec.name, bound.spec.scorer, bound.required, bound.threshold) == ("has_x", "contains", False, 0.5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"name":"contains","config":{"pattern":"x"}', "invalid JSON"),
        ('{"name":"contains","name":"exact_match"}', "twice"),
        ('{"config":{}}', "name is missing"),
        ('{"name":"contains","pattern":"x"}', "pattern is unknown; known keys: name, config, as"),
        ('{"name":"json_valid","threshold":0}', "threshold must be greater than 0"),
        ('{"name":"json_valid","required":"yes"}', "required must be a valid boolean"),
        ('{"name":"json_valid","as":"exact_match"}', "exact_match is already the name of a scorer"),
        ('{"name":"json_valid","as":"a b"}', "as must match pattern"),
        ('["json_valid"]', "not found; did you mean json_valid"),
        ("contains", "pattern is missing"),
    ],
)
def test_invalid_binding_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        parse_binding(text)
