"""Validation of a judge's answer against its schema."""

import json
from typing import Any

import pytest

from evalscribe.model.output_schema import (
    agreement_keys,
    cited_strings,
    provider_schema,
    validate_answer,
    validate_schema,
)
from evalscribe.model.rubric import DEFAULT_SCHEMA

LABELLED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "label": {"type": "string", "enum": ["pass", "fail"]},
        "sure": {"type": "boolean"},
        "score": {"type": "integer", "minimum": 1, "maximum": 5},
        "share": {"type": "number", "multipleOf": 0.1},
        "summary": {"type": "string", "citations": True, "maxLength": 40},
        "issues": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"text": {"type": "string", "citations": True}, "id": {"type": "string"}},
                "required": ["text"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["label"],
    "additionalProperties": False,
}


def schema_of(kind: str, **rules: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"a": {"type": kind, **rules}}}
    validate_schema(schema)
    return schema


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        pytest.param({"label": "maybe"}, 'label: must be one of "pass", "fail", is "maybe"', id="enum"),
        pytest.param({}, 'answer: lacks "label"', id="missing"),
        pytest.param({"label": "pass", "why": 1}, 'answer: has unknown "why"', id="unknown"),
        pytest.param([], "answer: must be of type object, is []", id="no-object"),
        pytest.param({"label": "pass", "score": 7}, "score: 7 breaks maximum 5", id="range"),
        pytest.param(
            {"label": "pass", "score": True}, "score: must be of type integer, is true", id="true-is-no-number"
        ),
        pytest.param(
            {"label": "pass", "sure": "yes"}, 'sure: must be of type boolean, is "yes"', id="yes-is-no-boolean"
        ),
        pytest.param({"label": "pass", "issues": [{"id": "x"}]}, 'issues[0]: lacks "text"', id="nested"),
        pytest.param(
            {"label": "pass", "issues": [{"text": 5}]}, "issues[0].text: must be of type string, is 5", id="inner"
        ),
        pytest.param({"label": "pass", "share": float("nan")}, "share: nan is not a JSON number", id="nan"),
    ],
)
def test_invalid_answer_is_reported_with_its_path(output: Any, problem: str) -> None:
    assert problem in validate_answer(output, LABELLED)


def test_valid_answer_has_no_problems() -> None:
    whole = {"label": "pass", "sure": True, "score": 3, "share": 0.3, "summary": "s", "issues": [{"text": "t"}]}
    assert validate_answer(whole, LABELLED) == []
    assert validate_answer({"label": "match", "explanation": "[T0B1]"}, DEFAULT_SCHEMA) == []


def test_problems_are_limited_in_number_and_length() -> None:
    wrong = {"label": "pass", "issues": [{"text": "x" * 9, "id": n} for n in range(50)], "summary": "x" * 100_000}
    problems = validate_answer(wrong, LABELLED)
    assert len(problems) == 5
    assert all(len(problem) < 400 for problem in problems)


def test_deeply_nested_answer_is_reported_without_a_crash() -> None:
    deep: Any = "x"
    for _ in range(100_000):
        deep = [deep]
    assert validate_answer({"label": deep}, LABELLED) == ["answer: is nested too deeply"]


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("date-time", "2026-11-21T10:00:00Z", "2026-11-21 10:00"),
        ("date", "2024-02-29", "2026-02-29"),
        ("time", "10:00:00+01:00", "25:00:00Z"),
        ("email", "a@b.example", "a b@c"),
        ("hostname", "a-b.example", "-a.example"),
        ("ipv4", "127.0.0.1", "127.0.0.256"),
        ("ipv6", "::1", "::g"),
        ("uri", "https://evals.example/run/1", "no uri"),
        ("uuid", "3f9a1c07-0000-4000-8000-000000000000", "3f9a1c07"),
    ],
)
def test_every_format_is_checked(name: str, good: str, bad: str) -> None:
    schema = schema_of("string", format=name)
    assert validate_answer({"a": good}, schema) == []
    assert validate_answer({"a": bad}, schema) == [f'a: {json.dumps(bad)} breaks format "{name}"']
    assert validate_answer({"a": ""}, schema) != []


def test_multiple_of_is_checked_in_decimal_arithmetic() -> None:
    tenths = schema_of("number", multipleOf=0.1)
    assert [validate_answer({"a": n / 10}, tenths) for n in range(-20, 20)] == [[]] * 40
    assert validate_answer({"a": 0.35}, tenths) == ["a: 0.35 breaks multipleOf 0.1"]
    assert validate_answer({"a": 1e308}, schema_of("number", multipleOf=1e-300)) == []


def test_cited_strings_include_nested_ones() -> None:
    output = {"label": "pass", "summary": "s", "issues": [{"text": "a", "id": "x"}, {"text": "b"}]}
    assert list(cited_strings(output, LABELLED)) == [
        (("summary",), "s"),
        (("issues", 0, "text"), "a"),
        (("issues", 1, "text"), "b"),
    ]
    assert list(cited_strings({"summary": 5, "issues": "x"}, LABELLED)) == []


def test_agreement_keys_are_top_level_enums_and_booleans_in_order() -> None:
    assert agreement_keys(LABELLED) == ("label", "sure")
    assert agreement_keys(schema_of("string")) == ()


def test_provider_schema_has_closed_objects_and_only_supported_keywords() -> None:
    sent = provider_schema({**LABELLED, "additionalProperties": False, "title": "t"})
    assert sent["additionalProperties"] is False
    assert sent["title"] == "t"
    assert sent["properties"]["issues"]["items"]["additionalProperties"] is False
    assert sent["properties"]["score"] == {"type": "integer"}
    text = json.dumps(sent)
    assert "citations" not in text
    assert "multipleOf" not in text
    assert list(sent["properties"]) == list(LABELLED["properties"])
    assert LABELLED["properties"]["summary"]["citations"] is True


def test_property_may_have_the_name_of_a_keyword() -> None:
    schema = {"type": "object", "properties": {"citations": {"type": "string", "citations": True}}}
    validate_schema(schema)
    assert provider_schema(schema)["properties"] == {"citations": {"type": "string"}}
    assert list(cited_strings({"citations": "x"}, schema)) == [(("citations",), "x")]


@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [
        ("^[a-z]+(-[a-z]+)*$", "missing-as-const", True),
        ("^[a-z]+(-[a-z]+)*$", "Missing", False),
        ("^a|b$", "xb", True),
        ("^\\d{3}$", "123", True),
        ("^\\d{3}$", "1234", False),
        ("b$", "a" * 5000 + "b", True),
    ],
)
def test_strings_are_matched_against_patterns(pattern: str, text: str, fits: bool) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}}
    assert (validate_answer({"a": text}, schema) == []) is fits


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|a)+$", "^" + "(a|a)" * 60 + "$"])
def test_endlessly_backtracking_pattern_is_reported_as_a_problem(pattern: str) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}}
    assert "breaks pattern" in validate_answer({"a": "a" * 59 + "!"}, schema)[0]
