"""Traces built from target replies."""

from typing import Any

from evalscribe.experiments.trials import build_trace
from evalscribe.model.chat import Usage
from evalscribe.model.target import TargetFailure, TargetReply, ToolUse
from evalscribe.model.transcript import Transcript


def transcript(*messages: dict[str, Any]) -> Transcript:
    return Transcript.model_validate({"messages": messages})


def calls(*tools: tuple[str, str]) -> dict[str, Any]:
    named = [{"id": id, "function": name, "arguments": {"for": name}} for id, name in tools]
    return {"role": "assistant", "tool_calls": named}


def test_tool_calls_are_matched_with_their_results_by_id() -> None:
    agent_transcript = transcript(
        calls(("1", "search"), ("2", "book")),
        {"role": "tool", "tool_call_id": "2", "error": "no seat"},
        {"role": "tool", "tool_call_id": "1", "content": "found"},
        {"role": "assistant", "content": "sorry"},
    )
    trace = build_trace(TargetReply(output="sorry", transcript=agent_transcript, duration_ms=5))
    assert trace.tools == (
        ToolUse(tool="search", arguments={"for": "search"}),
        ToolUse(tool="book", arguments={"for": "book"}, failed=True, error="no seat"),
    )
    assert trace.errors == ("book: no seat",)
    assert (trace.model_calls, trace.tokens, trace.duration_ms, trace.recorded) == (2, None, 5, True)


def test_tool_results_without_an_id_are_matched_in_order() -> None:
    agent_transcript = transcript(
        calls(("", "a"), ("", "b")), {"role": "tool", "content": "1"}, {"role": "tool", "error": "no"}
    )
    assert [use.failed for use in build_trace(TargetReply(output=1, transcript=agent_transcript)).tools] == [
        False,
        True,
    ]


def test_trace_without_messages_is_not_recorded() -> None:
    trace = build_trace(TargetReply(output=1, state={"cart": []}, duration_ms=7))
    assert (trace.recorded, trace.tools, trace.model_calls) == (False, (), None)
    assert (trace.duration_ms, trace.state) == (7, {"cart": []})


def test_usage_overrides_the_number_of_calls_in_the_transcript() -> None:
    usage = Usage(calls=3, input_tokens=10, output_tokens=5)
    trace = build_trace(TargetReply(output=1, transcript=transcript({"role": "assistant"}), usage=usage))
    assert (trace.model_calls, trace.tokens) == (3, 15)


def test_reason_of_a_failed_trial_is_among_the_trace_errors() -> None:
    trace = build_trace(TargetFailure(reason="ValueError: no", transcript=transcript(calls(("1", "a")))))
    assert trace.errors == ("ValueError: no",)
    assert [use.tool for use in trace.tools] == ["a"]
