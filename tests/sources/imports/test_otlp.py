"""Import of agent traces in OTLP JSON, for each of the semantic conventions."""

import base64
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalscribe.errors import DataError
from evalscribe.model.record import Record
from evalscribe.sources.address import RunOverrides
from evalscribe.sources.formats import open_records

TRACE = "5bc8fbbcbde5c0994164d8399f767c45"
CALL = {"type": "tool_call", "id": "c1", "name": "get_order", "arguments": {"id": "A"}}


def value(raw: Any) -> dict[str, Any]:
    if isinstance(raw, list):
        return {"arrayValue": {"values": [value(one) for one in raw]}}
    if isinstance(raw, dict):
        return {"kvlistValue": {"values": attributes(raw)}}
    if isinstance(raw, bool):
        return {"boolValue": raw}
    if isinstance(raw, int):
        return {"intValue": str(raw)}
    return {"doubleValue": raw} if isinstance(raw, float) else {"stringValue": raw}


def attributes(fields: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": name, "value": value(one)} for name, one in fields.items()]


def span(id: str, parent: str = "", start: int = 0, **more: Any) -> dict[str, Any]:
    """Return a span; `given` holds its attributes, `events` maps event names to attributes."""
    given, events = more.pop("given", {}), more.pop("events", {})
    return {
        "traceId": TRACE,
        "spanId": id * 16,
        **({"parentSpanId": parent * 16} if parent else {}),
        "name": id,
        "startTimeUnixNano": str(1_767_700_000_000_000_000 + start),
        "endTimeUnixNano": str(1_767_700_001_000_000_000 + start),
        "attributes": attributes(given),
        "events": [{"name": name, "attributes": attributes(fields)} for name, fields in events.items()],
        "status": {},
        **more,
    }


def request(*spans: dict[str, Any], logs: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    resource = {"attributes": attributes({"service.name": "shop"})}
    payload: dict[str, Any] = {}
    if spans:
        payload["resourceSpans"] = [{"resource": resource, "scopeSpans": [{"scope": {}, "spans": list(spans)}]}]
    if logs:
        payload["resourceLogs"] = [{"resource": resource, "scopeLogs": [{"logRecords": list(logs)}]}]
    return payload


def evaluation(label: str | None = "fail", score: float | None = 0.0, name: str = "Correct") -> dict[str, Any]:
    fields = {"name": name, "score.label": label, "score.value": score, "explanation": "it is wrong"}
    return {f"gen_ai.evaluation.{key}": one for key, one in fields.items() if one is not None}


def text(role: str, content: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": content}]}


AGENT = {"gen_ai.operation.name": "invoke_agent", "gen_ai.request.model": "m-1", "gen_ai.provider.name": "openai"}
CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m-1"}
ASKED, ANSWERED = [text("user", "Where is A?")], [text("assistant", "It is sent.")]
SAID = {**CHAT, "gen_ai.input.messages": json.dumps(ASKED), "gen_ai.output.messages": json.dumps(ANSWERED)}


def read(path: Path, **overrides: Any) -> list[Record]:
    return [one for one in open_records(path, RunOverrides(**overrides)).read() if isinstance(one, Record)]


def messages_of(record: Record, number: int = 0) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in record.transcripts[number].messages]


@pytest.mark.parametrize(
    ("name", "counts", "messages"),
    [
        ("genai-spans.json", {"passed": 1, "failed": 2, "error": 1}, 17),
        ("genai-spans.jsonl", {"passed": 1, "failed": 2, "error": 1}, 17),
        ("genai-spans-base64-ids.json", {"passed": 1, "failed": 1}, 8),
        ("genai-logs.json", {"passed": 1, "failed": 2, "error": 1}, 17),
        ("openinference-spans.json", {"passed": 1, "failed": 2, "error": 1}, 17),
    ],
)
def test_sdk_files_have_the_expected_evals_and_messages(
    real_data: Path, name: str, counts: dict[str, int], messages: int
) -> None:
    records = read(real_data / "formats" / "otlp" / name)
    assert Counter(one.eval.status for one in records) == counts
    assert sum(len(one.transcripts[0].messages) for one in records) == messages  # no message appears twice
    assert [one.eval.name for one in records][:2] == ["Where is my order A-17?", "Cancel order B-3, please."]
    assert records[1].eval.reason == "No cancel call was made, and a shipped order cannot be cancelled."
    assert all(one.metadata["scores"] == {} or "Correctness" in str(one.metadata["scores"]) for one in records)


def test_spans_of_one_trace_are_joined_across_requests(tmp_path: Path) -> None:
    child, root = (
        span("b", "a", 5, given=SAID),
        span("a", given=AGENT, events={"gen_ai.evaluation.result": evaluation()}),
    )
    other = {**span("c", given=SAID), "traceId": "ab" * 16}
    path = tmp_path / "spans.jsonl"
    path.write_text("\n".join(json.dumps(request(one)) for one in (child, other, root)))
    first, second = read(path)
    assert (first.eval.status, second.eval.status) == ("failed", "incomplete")
    assert messages_of(first) == [("user", "Where is A?"), ("assistant", "It is sent.")]


def test_evaluations_are_read_from_log_records_in_sibling_files(tmp_path: Path) -> None:
    log = {"traceId": TRACE, "spanId": "a" * 16, "eventName": "gen_ai.evaluation.result"}
    record = {**log, "attributes": attributes(evaluation("pass", 1.0))}
    elsewhere = {**record, "traceId": "cd" * 16}
    (tmp_path / "spans.json").write_text(json.dumps(request(span("a", given={**AGENT, **SAID}))))
    assert [one.eval.status for one in read(tmp_path / "spans.json")] == ["incomplete"]
    (tmp_path / "logs.json").write_text(json.dumps(request(logs=(record, elsewhere))))
    (beside,) = read(tmp_path / "spans.json")
    assert (beside.eval.status, beside.metadata["scores"]) == ("passed", {"Correct": 1.0})
    assert read(tmp_path / "logs.json") == [beside]  # the same run, so a folder with both files yields it once
    (tmp_path / "spans.json").unlink()
    assert [one.eval.name for one in read(tmp_path / "logs.json")] == [TRACE, "cd" * 16]


@pytest.mark.parametrize(
    ("given", "threshold", "status"),
    [
        pytest.param(evaluation("PASS", 0.2), None, "passed", id="a label is the verdict"),
        pytest.param(evaluation("neutral", 0.0), None, "incomplete", id="a label that is no verdict"),
        pytest.param(evaluation(None, 1.0), None, "passed", id="a score of 1"),
        pytest.param(evaluation(None, 0.0), None, "failed", id="a score of 0"),
        pytest.param(evaluation(None, 0.7), None, "incomplete", id="a score between"),
        pytest.param(evaluation(None, 0.7), 0.5, "passed", id="a score from the threshold"),
        pytest.param(evaluation(None, 0.7), 0.8, "failed", id="a score below the threshold"),
        pytest.param({**evaluation(None, None), "error.type": "timeout"}, None, "error", id="the evaluator failed"),
    ],
)
def test_evaluation_label_score_and_threshold_decide_the_status(
    tmp_path: Path, given: dict[str, Any], threshold: float | None, status: str
) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(request(span("a", given=SAID, events={"gen_ai.evaluation.result": given}))))
    (record,) = read(path, threshold=threshold)
    assert record.eval.status == status


def test_tool_error_is_not_an_eval_error_but_agent_error_is(read_value: Callable[..., Any]) -> None:
    broke = {"code": 2, "message": "connection refused"}
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.id": "c1"}
    result = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "failed"}]}
    input_messages = json.dumps([*ASKED, {"role": "assistant", "parts": [CALL]}, result])
    chat = span("b", "a", 9, given={**CHAT, "gen_ai.input.messages": input_messages})
    used = span("c", "a", 3, given=tool, status=broke)
    (graded,) = read_value(request(span("a", given=AGENT), used, chat)).records
    assert graded.eval.status == "incomplete"
    assert graded.transcripts[0].messages[2].error == "connection refused"
    assert [document.text for document in graded.documents if document.role == "log"] == ["c: connection refused"]
    (whole,) = read_value(request(span("a", given=AGENT, status={"code": "STATUS_CODE_ERROR"}), used, chat)).records
    assert (whole.eval.status, whole.eval.reason) == ("error", "`a` failed")


def test_semantic_conventions_before_1_37_are_read(read_value: Callable[..., Any]) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "get_order", "arguments": '{"id": "A"}'}}
    as_events = {
        "gen_ai.system.message": {"content": "Be kind."},
        "gen_ai.user.message": {"content": "Where is A?"},
        "gen_ai.choice": {"index": 0, "message": json.dumps({"role": "assistant", "tool_calls": [call]})},
    }
    old = {"gen_ai.system": "openai", "gen_ai.operation.name": "chat", "gen_ai.request.model": "m-1"}
    read_events = read_value(request(span("a", given=old, events=as_events)))
    assert messages_of(read_events.records[0]) == [("system", "Be kind."), ("user", "Where is A?"), ("assistant", "")]
    assert read_events.records[0].transcripts[0].messages[2].tool_calls[0].arguments == {"id": "A"}
    assert read_events.run.provider == "openai"
    bodies = {"gen_ai.user.message": {"content": "Where is A?"}, "gen_ai.choice": {"message": {"content": "Sent."}}}
    logs = tuple(
        {"traceId": TRACE, "spanId": "a" * 16, "eventName": name, "body": value(body)} for name, body in bodies.items()
    )
    (of_logs,) = read_value(request(span("a", given=old), logs=logs)).records
    assert messages_of(of_logs) == [("user", "Where is A?"), ("assistant", "Sent.")]
    flat = {
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": "Where is A?",
        "gen_ai.completion.0.content": "Sent.",
    }
    (of_names,) = read_value(request(span("a", given={**old, **flat}))).records
    assert messages_of(of_names) == [("user", "Where is A?"), ("assistant", "Sent.")]


def test_flattened_messages_are_sorted_numerically(read_value: Callable[..., Any]) -> None:
    given: dict[str, Any] = {"openinference.span.kind": "LLM", "llm.model_name": "m-1"}
    for number in range(12):
        given[f"llm.input_messages.{number}.message.role"] = "user"
        given[f"llm.input_messages.{number}.message.content"] = f"message {number}"
    given["llm.output_messages.0.message.role"] = "assistant"
    given["llm.output_messages.0.message.contents.0.message_content.type"] = "text"
    given["llm.output_messages.0.message.contents.0.message_content.text"] = "done"
    (record,) = read_value(request(span("a", given=given))).records
    assert messages_of(record) == [*(("user", f"message {number}") for number in range(12)), ("assistant", "done")]


def test_each_agent_has_a_transcript_and_evaluators_are_excluded(read_value: Callable[..., Any]) -> None:
    below = {**AGENT, "gen_ai.agent.name": "search"}
    task = {**CHAT, "gen_ai.input.messages": json.dumps([text("user", "Search A")])}
    grading = {
        **SAID,
        "gen_ai.input.messages": json.dumps([text("user", "Judge this")]),
        "gen_ai.usage.input_tokens": 5,
    }
    spans = (
        span("a", given=AGENT),
        span("b", "a", 1, given={**SAID, "gen_ai.usage.input_tokens": 7}),
        span("c", "a", 2, given=below),
        span("d", "c", 3, given=task),
        span(
            "e", "a", 4, given={"openinference.span.kind": "EVALUATOR", "evaluation.name": "x", "evaluation.score": 1.0}
        ),
        span("f", "e", 5, given=grading),
    )
    read = read_value(request(*spans))
    (record,) = read.records
    assert [transcript.name for transcript in record.transcripts] == [None, "search"]
    assert messages_of(record, 1) == [("user", "Search A")]
    assert (record.eval.status, read.run.input_tokens) == ("passed", 7)


def test_structured_values_and_snake_case_keys_are_read(read_value: Callable[..., Any]) -> None:
    one = span("a", given={**CHAT, "gen_ai.input.messages": ASKED})
    one["trace_id"] = base64.b64encode(bytes.fromhex(one.pop("traceId"))).decode()
    given = {"resource_spans": [{"scope_spans": [{"spans": [one]}]}]}
    (record,) = read_value(given).records
    assert record.metadata["trace_id"] == TRACE
    assert messages_of(record) == [("user", "Where is A?")]


def test_traces_without_model_calls_are_counted_as_left_out(read_value: Callable[..., Any]) -> None:
    read = read_value(request({**span("a"), "traceId": "ab" * 16}, span("b", given=SAID)))
    assert len(read.records) == 1
    assert read.left_out == {f"a trace that calls no model (first: {'ab' * 16})": 1}


def test_truncated_file_gives_the_complete_traces_and_raises(tmp_path: Path) -> None:
    path = tmp_path / "torn.jsonl"
    path.write_text(json.dumps(request(span("a", given=SAID))) + '\n{"resourceSpans": [{"scopeSpans": [{"spa')
    entries: list[Any] = []
    with pytest.raises(DataError, match=r"torn\.jsonl"):
        entries.extend(open_records(path, RunOverrides()).read())
    assert [one.eval.name for one in entries[1:]] == ["Where is A?"]
