"""Tests of json_valid, numeric_range and json_schema."""

from typing import Any

import pytest

from evalscribe.experiments.scorers import json_scorers
from evalscribe.experiments.scorers.catalogue import scorer_runner, scorer_spec
from evalscribe.model.score import ScorerRequest


@pytest.mark.parametrize(
    ("output", "passed"),
    [
        ('{"a": 1}', True),
        (" [1, 2] ", True),
        ("3", True),
        ("null", True),
        ("{'a': 1}", False),
        ("```json\n{}\n```", False),
        ("", False),
        ("{} {}", False),
        ("NaN", False),
        ("1e999", False),
        ("[" * 5_000, False),
        ("1" * 5_000, False),
        ({"a": 1}, True),
        ([], True),
        (0, True),
        (None, False),
    ],
)
async def test_json_valid_accepts_only_standard_json(scored: Any, output: Any, passed: bool) -> None:
    result = await scored("json_valid", output=output)
    assert (result.status, result.passed, result.label) == ("ok", passed, "valid" if passed else "invalid")


@pytest.mark.parametrize(("name", "config"), [("json_valid", None), ("json_schema", {"schema": {"type": "object"}})])
async def test_evidence_locates_the_json_syntax_error(scored: Any, name: str, config: Any) -> None:
    text = '{"a": 1,\n "b": nope}'
    result = await scored(name, config, output=text)
    assert result.evidence == {"line": 2, "column": 7, "at": 15, "near": text}
    beyond = await scored(name, config, output="1e999")
    assert beyond.evidence == {"output": "1e999"}, "the reader names no place"


async def test_numeric_range_evidence_holds_the_parsed_number(scored: Any) -> None:
    assert (await scored("numeric_range", {"max": 3}, output=" 7 ")).evidence == {"output": 7.0}


async def test_json_valid_explains_that_null_is_no_output(scored: Any) -> None:
    assert (await scored("json_valid", output=None)).explanation == "there is no output"


@pytest.mark.parametrize(
    ("config", "output", "label"),
    [
        ({"min": 0, "max": 1}, 0.5, "in_range"),
        ({"min": 0, "max": 1}, 1, "in_range"),
        ({"min": 0, "max": 1}, 0, "in_range"),
        ({"min": 0, "max": 1, "inclusive": False}, 1, "out_of_range"),
        ({"min": 0, "max": 1, "inclusive": False}, 0.999, "in_range"),
        ({"min": 3}, 10**40, "in_range"),
        ({"max": 3}, -5, "in_range"),
        ({"max": 3}, 3.0001, "out_of_range"),
        ({"max": 3}, " 2.5e0 ", "in_range"),
        ({"max": 3}, "-.5", "in_range"),
        ({"max": 3}, "2 apples", "parse_error"),
        ({"max": 3}, "1_0", "parse_error"),
        ({"min": 0}, "١", "parse_error"),
        ({"min": 0}, "inf", "parse_error"),
        ({"min": 0}, "nan", "parse_error"),
        ({"min": 0}, "1e999", "parse_error"),
        ({"min": 0}, float("nan"), "parse_error"),
        ({"min": 0}, True, "parse_error"),
        ({"min": 0}, None, "parse_error"),
        ({"min": 0}, [1], "parse_error"),
    ],
)
async def test_numeric_range_labels_values_in_range_out_of_range_or_unparsable(
    scored: Any, config: Any, output: Any, label: str
) -> None:
    result = await scored("numeric_range", config, output=output)
    assert (result.status, result.label, result.passed) == ("ok", label, label == "in_range")


POINT = {
    "type": "object",
    "properties": {"x": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}}},
    "required": ["x"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("schema", "output", "label"),
    [
        (POINT, {"x": 1}, "valid"),
        (POINT, '{"x": 1, "tags": ["a"]}', "valid"),
        (POINT, {"x": "1"}, "invalid"),
        (POINT, {}, "invalid"),
        (POINT, {"x": 1, "y": 2}, "invalid"),
        (POINT, "x = 1", "parse_error"),
        ({"type": "null"}, None, "valid"),
        (POINT, None, "invalid"),
        (True, 3, "valid"),
        (False, 3, "invalid"),
        ({"prefixItems": [{"const": 1}], "items": False}, [1, 2], "invalid"),
        ({"$ref": "#/$defs/p", "$defs": {"p": {"type": "string"}}}, 3, "invalid"),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"const": 1}]}, [2], "invalid"),
    ],
)
async def test_json_schema_labels_outputs_valid_invalid_or_unparsable(
    scored: Any, schema: Any, output: Any, label: str
) -> None:
    result = await scored("json_schema", {"schema": schema}, output=output)
    assert (result.status, result.label, result.passed) == ("ok", label, label == "valid")


async def test_json_schema_lists_every_error_with_its_path_and_keyword(scored: Any) -> None:
    result = await scored("json_schema", {"schema": POINT}, output={"tags": ["a", 3], "z\u202e": None})
    messages = {error["said"] for error in result.metadata["errors"]}
    assert 'output has members that the schema does not allow: ["z\N{REPLACEMENT CHARACTER}"]' in messages
    assert result.explanation == "output.tags[1] must be of type string, is 3 (a number) (3 problems)"
    places = {(error["path"], error["keyword"]) for error in result.metadata["errors"]}
    assert places == {("output", "additionalProperties"), ("output", "required"), ("output.tags[1]", "type")}


async def test_catastrophic_schema_pattern_is_a_timeout_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_scorers, "LONGEST_S", 2.0)
    ready = scorer_runner(scorer_spec("json_schema", {"schema": {"pattern": "^(a+)+$"}}))
    good = await ready.score(ScorerRequest(input=None, output='"aaa"'))
    bad = await ready.score(ScorerRequest(input=None, output='"b"'))
    slow = await ready.score(ScorerRequest(input=None, output=f'"{"a" * 60}b"'))
    await ready.close()
    assert (slow.status, slow.error_type) == ("error", "timeout_error")
    assert (good.passed, bad.passed) == (True, False)
    assert bad.metadata["errors"][0]["keyword"] == "pattern"


@pytest.mark.parametrize("nested", [False, True], ids=["here", "in a process"])
async def test_deeply_nested_output_of_recursive_schema_is_an_input_error(scored: Any, nested: bool) -> None:
    schema = {"$defs": {"n": {"items": {"$ref": "#/$defs/n"}, **({"uniqueItems": True} if nested else {})}}}
    output = "[" * 900 + "]" * 900
    result = await scored("json_schema", {"schema": {**schema, "$ref": "#/$defs/n"}}, output=output)
    assert (result.status, result.error_type) == ("error", "input_error")
