"""Tests of tool_calls, limits, no_errors, state_equals and their aliases."""

from typing import Any

import pytest

from evalscribe.model.target import ToolUse, Trace

SEARCH = ToolUse(tool="search", arguments={"q": "boots", "filter": {"size": 42, "colour": "red"}, "ids": [1, 2]})
FAILED = ToolUse(tool="pay", arguments={"order": 7}, failed=True, error="card refused")
PAID = ToolUse(tool="pay", arguments={"order": 7})
TRACE = Trace(
    tools=(SEARCH, FAILED, PAID),
    model_calls=4,
    tokens=1_500,
    duration_ms=20.5,
    errors=("pay: card refused",),
    state={"db": {"orders": [{"id": 7, "paid": True}], "stock": {"boots": 3}}, "empty": None},
)
QUIET = Trace()
UNRECORDED = Trace(recorded=False, duration_ms=20.5)


@pytest.mark.parametrize(
    ("name", "config", "value"),
    [
        ("tool_calls", {"called": ["search"]}, 1),
        ("tool_calls", {"called": ["search", "refund"]}, 0.5),
        ("tool_calls", {"not_called": ["refund"]}, 1),
        ("tool_calls", {"not_called": ["pay"]}, 0),
        ("tool_calls", {"in_order": ["search", "pay"]}, 1),
        ("tool_calls", {"in_order": ["pay", "search"]}, 0),
        ("tool_calls", {"in_order": ["pay", "pay"]}, 1),
        ("tool_calls", {"in_order": ["pay", "pay", "pay"]}, 0),
        ("tool_calls", {"exact": ["search", "pay", "pay"]}, 1),
        ("tool_calls", {"exact": ["search", "pay"]}, 0),
        ("tool_calls", {"exact": []}, 0),
        ("tool_calls", {"any_order": ["pay", "search"]}, 1),
        ("tool_calls", {"any_order": ["search", "search"]}, 0),
        ("tool_calls", {"params": [{"tool": "search", "arguments": {"q": "boots"}}]}, 1),
        ("tool_calls", {"params": [{"tool": "search", "arguments": {"filter": {"size": 42}}}]}, 1),
        ("tool_calls", {"params": [{"tool": "search", "arguments": {"filter": {"size": "42"}}}]}, 0),
        ("tool_calls", {"params": [{"tool": "search", "arguments": {"ids": [1]}}]}, 0),
        ("tool_calls", {"params": [{"tool": "search", "arguments": {"q": "boots"}, "mode": "exact"}]}, 0),
        ("tool_calls", {"params": [{"tool": "pay", "arguments": {"order": 7}, "mode": "exact"}]}, 1),
        ("tool_calls", {"params": [{"tool": "refund", "arguments": {}}]}, 0),
        ("tool_calls", {"called": ["pay"], "not_called": ["pay", "refund"], "exact": []}, 0.5),
        ("tool_called", {"tool": "search"}, 1),
        ("tool_not_called", {"tool": "search"}, 0),
        ("tool_sequence", {"tools": ["search", "pay"]}, 1),
        ("tool_sequence_in_order", {"tools": ["search", "pay"]}, 1),
        ("tool_sequence_exact", {"tools": ["search", "pay"]}, 0),
        ("tool_sequence_any_order", {"tools": ["pay", "search"]}, 1),
        ("tool_trajectory", {"tools": ["search", "pay"]}, 0),
        ("tool_trajectory", {"tools": ["pay", "search"], "mode": "any_order"}, 1),
        ("tool_trajectory", {"tools": ["search", "pay"], "pattern": "in_order"}, 1),
        ("tool_params_match", {"tool": "pay", "params": {"order": 7}}, 1),
        ("tool_params_match", {"tool": "pay", "params": {"order": 8}}, 0),
        ("limits", {"max_tool_calls": 3}, 1),
        ("limits", {"max_tool_calls": 2}, 0),
        ("limits", {"max_tool_calls": 2, "max_model_calls": 4, "max_tokens": 1_500, "max_duration_ms": 20}, 0.5),
        ("max_tool_calls", {"max": 3}, 1),
        ("max_llm_calls", {"max": 3}, 0),
        ("max_tokens", {"max": 1_500}, 1),
        ("duration_under", {"max_ms": 20.5}, 1),
        ("no_errors", {}, 0),
        ("state_equals", {"name": "db", "expected": {"orders": [{"id": 7, "paid": True}], "stock": {"boots": 3}}}, 1),
        ("state_equals", {"name": "db", "expected": {"orders": [{"id": 7, "paid": 1}], "stock": {"boots": 3}}}, 2 / 3),
        ("state_equals", {"name": "db", "expected": {"stock": {"boots": 3}}}, 1 / 3),
        ("state_equals", {"name": "db", "expected": 3}, 0),
    ],
)
async def test_trace_scorers_compute_the_expected_value(scored: Any, name: str, config: Any, value: float) -> None:
    result = await scored(name, config, trace=TRACE)
    assert (result.status, result.passed) == ("ok", value == 1)
    assert result.value == pytest.approx(value)


@pytest.mark.parametrize(
    ("name", "config", "trace"),
    [
        ("tool_not_called", {"tool": "pay"}, None),
        ("tool_not_called", {"tool": "pay"}, UNRECORDED),
        ("tool_calls", {"exact": []}, UNRECORDED),
        ("no_errors", {}, UNRECORDED),
        ("no_errors", {}, None),
        ("limits", {"max_tool_calls": 5}, UNRECORDED),
        ("limits", {"max_tokens": 5, "max_duration_ms": 50}, UNRECORDED),
        ("limits", {"max_tokens": 5}, None),
        ("state_equals", {"name": "nowhere", "expected": 1}, TRACE),
        ("state_equals", {"name": "db", "expected": 1}, None),
    ],
)
async def test_unrecorded_data_is_an_artifact_error(scored: Any, name: str, config: Any, trace: Trace | None) -> None:
    result = await scored(name, config, trace=trace)
    assert (result.status, result.error_type, result.passed) == ("error", "artifact_error", None)


async def test_empty_trace_passes_empty_exact_list_and_no_errors(scored: Any) -> None:
    assert (await scored("tool_calls", {"exact": []}, trace=QUIET)).passed
    assert (await scored("no_errors", trace=QUIET)).passed


async def test_duration_is_checked_without_recorded_messages(scored: Any) -> None:
    assert (await scored("duration_under", {"max_ms": 21}, trace=UNRECORDED)).passed


async def test_no_errors_fails_on_a_failed_call_missing_from_trace_errors(scored: Any) -> None:
    result = await scored("no_errors", trace=Trace(tools=(FAILED,)))
    assert result.passed is False
    assert "pay: card refused" in result.explanation


async def test_state_equals_compares_with_the_expected_output(scored: Any) -> None:
    stock = {"name": "db", "expected_field": "expected.db"}
    assert (await scored("state_equals", stock, trace=TRACE, expected={"db": TRACE.state["db"]})).passed
    assert (await scored("state_equals", {"name": "db"}, trace=TRACE)).error_type == "input_error"


async def test_state_equals_passes_at_its_threshold(scored: Any) -> None:
    config = {"name": "db", "threshold": 0.6, "expected": {"orders": [{"id": 8, "paid": True}], "stock": {"boots": 3}}}
    result = await scored("state_equals", config, trace=TRACE)
    assert result.passed
    assert result.explanation == "db.orders[0].id is 7 instead of 8 (1 place)"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"called": ["refund"]}, "refund was not called"),
        ({"not_called": ["pay"]}, "pay was called 2 times"),
        ({"in_order": ["search", "refund"]}, "refund was not called after search; actual calls: search, pay, pay"),
        ({"exact": ["search", "refund", "pay"]}, "call 2 is pay instead of refund; actual calls: search, pay, pay"),
        ({"exact": ["search"]}, "3 calls instead of 1; actual calls: search, pay, pay"),
        ({"any_order": ["search", "search"]}, "search was called 1 of 2 times"),
        (
            {"params": [{"tool": "search", "arguments": {"q": "boots", "filter": {"size": 43}}}]},
            "no call of search has the arguments: in the most similar call, arguments.filter.size is 42 instead of 43",
        ),
    ],
)
async def test_tool_calls_explanation_states_the_mismatch(scored: Any, config: Any, message: str) -> None:
    assert (await scored("tool_calls", config, trace=TRACE)).explanation == message


async def test_tool_called_evidence_lists_the_calls(scored: Any) -> None:
    result = await scored("tool_called", {"tool": "refund"}, trace=TRACE)
    assert [call["tool"] for call in result.evidence] == ["search", "pay", "pay"]
    assert result.evidence[1] == {"tool": "pay", "arguments": {"order": 7}, "failed": True}
