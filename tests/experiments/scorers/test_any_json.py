"""Scorer results are consistent for arbitrary JSON values."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalscribe.experiments.scorers.catalogue import scorer_runner, scorer_spec
from evalscribe.model.score import ScoreResult, ScorerRequest
from evalscribe.model.target import ToolUse, Trace

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
TEXTS = st.sampled_from(["", "{", '{"a": [1]}', "1e5", "NaN", '"\\ud800"', "[" * 200, "null"])
TOOLS = st.builds(
    ToolUse,
    tool=st.sampled_from(["a", "b"]),
    arguments=st.dictionaries(st.sampled_from(["a", "b"]), VALUES, max_size=2),
    failed=st.booleans(),
)
TRACES = st.none() | st.builds(
    Trace,
    recorded=st.booleans(),
    tools=st.lists(TOOLS, max_size=3).map(tuple),
    model_calls=st.none() | st.integers(0, 5),
    tokens=st.none() | st.integers(0, 5),
    duration_ms=st.none() | st.floats(0, 5),
    errors=st.lists(st.text(max_size=5), max_size=2).map(tuple),
    state=st.dictionaries(st.sampled_from(["a", "b"]), VALUES, max_size=2),
)
REQUESTS = st.builds(ScorerRequest, input=VALUES, output=VALUES | TEXTS, expected=VALUES | TEXTS, trace=TRACES)
NESTED = {"$defs": {"n": {"type": ["array", "null"], "items": {"$ref": "#/$defs/n"}}}, "$ref": "#/$defs/n"}
SPECS = [
    scorer_spec("exact_match", {}),
    scorer_spec("exact_match", {"output_field": "output.a", "case_sensitive": False}),
    scorer_spec("contains", {"pattern": "a", "case_sensitive": False}),
    scorer_spec("regex_match", {"pattern": "^.a?"}),
    scorer_spec("levenshtein", {"threshold": 0.5}),
    scorer_spec("json_valid", {}),
    scorer_spec("json_schema", {"schema": NESTED}),
    scorer_spec("numeric_range", {"min": 0, "max": 1, "inclusive": False}),
    scorer_spec(
        "structured_assertions",
        {
            "assertions": [
                {"name": "equal", "expr": "output == expected || !has(output.a)"},
                {"name": "alike", "expr": "is_number(output) && output > 1 || unique(expected) && size(output) > 1"},
            ],
            "score_threshold": 0.5,
        },
    ),
    scorer_spec(
        "tool_calls", {"called": ["a"], "in_order": ["a", "b"], "params": [{"tool": "a", "arguments": {"a": [1]}}]}
    ),
    scorer_spec("limits", {"max_tool_calls": 2, "max_tokens": 3}),
    scorer_spec("no_errors", {}),
    scorer_spec("state_equals", {"name": "a", "threshold": 0.5}),
]


@settings(max_examples=60)
@given(request=REQUESTS)
def test_every_scorer_returns_a_consistent_result_for_any_json(request: ScorerRequest) -> None:
    for result in asyncio.run(_scored(request)):
        whole(result)


async def _scored(request: ScorerRequest) -> list[ScoreResult]:
    ready = [scorer_runner(one) for one in SPECS]
    results = [await one.score(request) for one in ready]
    for one in ready:
        await one.close()
    return results


def whole(result: ScoreResult) -> None:
    assert (result.status == "ok") == (result.passed is not None) == (result.value is not None)
    assert (result.status == "error") == (result.error_type is not None)
    assert result.value is None or 0 <= result.value <= 1
    assert result.explanation
    assert result.explanation.isprintable()
    result.model_dump_json().encode()


@pytest.mark.parametrize("nested", [50, 200])
async def test_deeply_nested_values_give_a_consistent_result(scored: Any, nested: int) -> None:
    deep: Any = 1
    for _ in range(nested):
        deep = [deep]
    whole(await scored("exact_match", output=deep, expected=[deep]))
    whole(await scored("state_equals", {"name": "a", "expected": 1}, trace=Trace(state={"a": deep})))
    text = "[" * 30_000 + "]" * 30_000
    whole(await scored("exact_match", {"output_field": "output.0.0"}, output=text, expected=deep))
    assert (await scored("exact_match", {"output_field": "output.0"}, output=text, expected=1)).status == "error"


@pytest.mark.parametrize(
    ("selector", "output", "message"),
    [
        ("output.a", {"b": 1}, "the output has no a; it is an object"),
        ("output.a.b", {"a": [1, 2]}, "a of the output has no b; it is a list of 2"),
        ("output.a.2", {"a": [1, 2]}, "a of the output has no 2; it is a list of 2"),
        ("output.a.-1", {"a": [1, 2]}, "a of the output has no -1"),
        ("output.a", "no JSON", "the output is text that is not JSON, so it has no fields"),
        ("output.a", None, "the output has no a; it is null"),
        ("metadata.gold", None, "the metadata has no gold"),
    ],
)
async def test_missing_field_is_an_input_error(scored: Any, selector: str, output: Any, message: str) -> None:
    result = await scored("contains", {"pattern": "x", "output_field": selector}, output=output)
    assert (result.status, result.error_type) == ("error", "input_error")
    assert message in result.explanation


@pytest.mark.parametrize(
    ("selector", "output"),
    [
        ("output.a.1", {"a": ["y", "x"]}),
        ("output.1", {"1": "x"}),
        ("output.a", '{"a": "x"}'),
        ("output", '{"a": "x"}'),
        ("metadata.gold.0", None),
        ("input", None),
    ],
)
async def test_field_selector_reads_object_members_and_list_items(scored: Any, selector: str, output: Any) -> None:
    config = {"pattern": "x", "output_field": selector}
    assert (await scored("contains", config, output=output, input="x", metadata={"gold": ["x"]})).passed


@pytest.mark.parametrize("schema", [{"multipleOf": 0.1}, {"items": {"multipleOf": 0.1}}])
async def test_integer_beyond_float_range_is_an_input_error(schema: dict[str, Any]) -> None:
    ready = scorer_runner(scorer_spec("json_schema", {"schema": schema}))
    result = await ready.score(ScorerRequest(input=None, output=10**400 if "items" not in schema else [10**400]))
    await ready.close()
    assert (result.status, result.error_type) == ("error", "input_error")
