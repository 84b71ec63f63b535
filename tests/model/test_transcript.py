"""Parsing of agent runs in various shapes: parsed without loss, or refused with the location of the error."""

import json
from typing import Any

import pytest

from evalscribe.errors import DataError
from evalscribe.model.transcript import (
    AgentRun,
    AssistantMessage,
    ToolMessage,
    Transcript,
    UserMessage,
    parse_agent_run,
    parse_agent_runs,
)


def parse_message(message: dict[str, Any]) -> Any:
    return parse_agent_run({"transcripts": [{"messages": [message]}]}, "run.json").transcripts[0].messages[0]


def test_agent_run_round_trips_through_json() -> None:
    run = AgentRun(transcripts=(Transcript(messages=(UserMessage(content="a"), AssistantMessage(content="b"))),))
    assert parse_agent_run(run.model_dump_json(), "x") == run


def test_parsing_redacts_secrets_and_replaces_unstorable_characters() -> None:
    key = "sk-ant-" + "api03-Zx81kQpLm4rT9vBnW2yC"
    call = {
        "id": key,
        "function": {"name": "f", "arguments": json.dumps({"api_key": key, "url": f"https://u:{key}@h"})},
    }
    message = {
        "role": "assistant",
        "content": f"half \ud800, none \0, {key}",
        "tool_calls": [call],
        "metadata": {key: 1},
    }
    run = {"id": f"\udfff{key}", "name": key, "transcripts": [{"name": key, "messages": [message]}], "token": key}
    for read in (parse_agent_run(run, "x"), *parse_agent_runs(json.dumps([run]), "x")):
        assert key not in read.model_dump_json()
        assert read.id == "\ufffd[redacted:anthropic-key]"
        assert read.transcripts[0].messages[0].content == "half \ufffd, none \ufffd, [redacted:anthropic-key]"


def test_given_ids_are_kept_and_missing_ids_are_generated() -> None:
    run = parse_agent_run({"id": 7, "transcripts": [{"id": "t", "messages": [{"role": "user", "id": "m"}]}]}, "x")
    assert (run.id, run.transcripts[0].id, run.transcripts[0].messages[0].id) == ("7", "t", "m")
    generated = parse_agent_run({"messages": []}, "x")
    assert len(generated.id) == 36
    assert generated.id != generated.transcripts[0].id


def test_unknown_fields_are_merged_into_existing_metadata() -> None:
    message = parse_message(
        {"role": "user", "content": "x", "source": "input", "cost": 2, "metadata": {"source": "mine"}}
    )
    assert message.metadata == {"source": "mine", "source (field)": "input", "cost": 2}
    run = parse_agent_run({"messages": [], "description": "d", "transcript_groups": [{"id": "g"}]}, "x")
    assert run.metadata == {"description": "d", "transcript_groups": [{"id": "g"}]}


def test_null_fields_get_their_defaults() -> None:
    message = parse_message({"role": "assistant", "content": None, "tool_calls": None, "metadata": None, "model": None})
    assert message == AssistantMessage()


@pytest.mark.parametrize(
    ("part", "content"),
    [
        ("plain", "plain"),
        ({"type": "text", "text": "a\nb"}, "a\nb"),
        ({"text": "no type"}, "no type"),
        ({"type": "image_url", "image_url": {"url": "data:" + "x" * 999}}, "[image]"),
        ({"type": "input_audio", "data": "y" * 999}, "[input_audio]"),
        ({"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": "out"}]}, "out"),
        ({"type": 5}, "[part]"),
        (17, "[part]"),
        (None, "[part]"),
    ],
)
def test_content_parts_are_joined_into_one_text(part: Any, content: str) -> None:
    message = parse_message({"role": "user", "content": ["first", part]})
    assert message.content == f"first\n{content}"
    assert len(json.dumps(message.metadata)) < 400
    assert ("parts" in message.metadata) == (content.startswith("[") or content == "out")


def test_every_reasoning_part_is_kept() -> None:
    parts = [
        {"type": "reasoning", "reasoning": "one"},
        {"type": "text", "text": "said"},
        {"type": "thinking", "thinking": "two", "signature": "s"},
        {"type": "reasoning", "reasoning": "cipher", "redacted": True, "summary": "short"},
        {"type": "redacted_thinking", "data": "cipher"},
    ]
    message = parse_message({"role": "assistant", "content": parts, "reasoning_content": "zero"})
    assert message.reasoning == "zero\none\ntwo\nshort\n[reasoning withheld]"
    assert message.content == "said"
    assert parse_message({"role": "user", "content": parts[:2]}).content == "one\nsaid"


@pytest.mark.parametrize(
    ("call", "function", "arguments"),
    [
        ({"id": "c", "function": "f", "arguments": {"a": 1}}, "f", {"a": 1}),
        ({"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}, "f", {"a": 1}),
        ({"id": "c", "type": "function", "function": {"name": "f", "arguments": ""}}, "f", {}),
        ({"id": "c", "function": "f", "arguments": '{"a": '}, "f", {"arguments": '{"a": '}),
        ({"id": "c", "function": "f", "arguments": "[1]"}, "f", {"arguments": [1]}),
        ({"id": "c", "function": "f"}, "f", {}),
    ],
)
def test_tool_calls_are_parsed_in_flat_and_nested_form(
    call: dict[str, Any], function: str, arguments: dict[str, Any]
) -> None:
    (parsed,) = parse_message({"role": "assistant", "tool_calls": [call]}).tool_calls
    assert (parsed.id, parsed.function, parsed.arguments, parsed.metadata) == ("c", function, arguments, {})


def test_extra_tool_call_fields_and_tool_use_parts_are_kept() -> None:
    message = parse_message(
        {"role": "assistant", "tool_calls": [{"function": "f", "parse_error": "bad", "type": "custom"}]}
    )
    assert message.tool_calls[0].metadata == {"parse_error": "bad", "type": "custom"}
    used = parse_message(
        {"role": "assistant", "content": [{"type": "tool_use", "id": "u", "name": "g", "input": {"k": 2}}]}
    )
    assert [(call.id, call.function, call.arguments) for call in used.tool_calls] == [("u", "g", {"k": 2})]


@pytest.mark.parametrize(
    ("error", "expected_text"),
    [
        ("boom", "boom"),
        ({"type": "timeout", "message": "slow"}, "timeout: slow"),
        ({"message": "slow"}, "slow"),
        ({"code": 3}, '{"code": 3}'),
        (None, None),
    ],
)
def test_tool_error_is_converted_to_one_text(error: Any, expected_text: str | None) -> None:
    message = parse_message({"role": "tool", "name": "f", "error": error, "tool_call_id": "c"})
    assert message == ToolMessage(function="f", error=expected_text, tool_call_id="c")


def test_developer_role_becomes_system() -> None:
    message = parse_message({"role": "developer", "content": "x"})
    assert (message.role, message.content, message.metadata) == ("system", "x", {"spoken by": "developer"})


@pytest.mark.parametrize(
    ("value", "expected_text"),
    [
        (
            {"messages": [{"role": "robot"}]},
            'run.json: transcripts[0].messages[0]: unknown role "robot"; known roles are',
        ),
        ({"messages": [{"content": "x"}]}, "run.json: transcripts[0].messages[0]: no role"),
        ({"messages": [{"role": ["user"]}]}, "run.json: transcripts[0].messages[0]: unknown role"),
        (
            {"messages": [{"role": "user", "content": 5, "metadata": 3}]},
            "run.json: transcripts[0].messages[0].metadata",
        ),
        ({"messages": [{"role": "assistant", "content": [{"type": "tool_use"}], "tool_calls": 5}]}, "tool_calls"),
        ({"messages": [{"role": "assistant", "tool_calls": [{}]}]}, "messages[0].tool_calls[0].function"),
        ({"messages": "x"}, "run.json: transcripts[0].messages"),
        ({"messages": [7]}, "run.json: transcripts[0].messages[0]"),
        ({"transcripts": []}, "run.json: transcripts: an agent run must have at least one transcript"),
        ({}, "run.json: transcripts"),
        ([], "run.json: an agent run is a JSON object"),
        ("[1", "run.json: no JSON at line 1, column 3"),
        ("null", "run.json: an agent run is a JSON object with transcripts, not null"),
        ("[" * 200_000, "run.json: "),
    ],
)
def test_invalid_agent_run_is_refused_with_its_location(value: Any, expected_text: str) -> None:
    with pytest.raises(DataError) as raised:
        parse_agent_run(value, "run.json")
    assert expected_text in str(raised.value)
    assert len(str(raised.value)) < 700


def test_transcripts_in_an_object_become_a_list() -> None:
    run = parse_agent_run({"transcripts": {"main": {"messages": []}, "other": {"messages": []}}}, "x")
    assert [transcript.name for transcript in run.transcripts] == ["main", "other"]


def test_file_may_hold_one_run_a_list_or_json_lines() -> None:
    run = {"id": "a", "messages": []}
    line = json.dumps(run)
    other = json.dumps({"id": "b", "messages": []})
    for text, ids in {
        json.dumps(run, indent=2): ["a"],
        f"\ufeff{line}": ["a"],
        f"[{line}, {other}]": ["a", "b"],
        f"{line}\r\n\n{other}\n": ["a", "b"],
    }.items():
        assert [agent_run.id for agent_run in parse_agent_runs(text, "runs.jsonl")] == ids


@pytest.mark.parametrize(
    ("text", "expected_text"),
    [
        ("", "runs.jsonl: contains no agent run"),
        ("[]", "runs.jsonl: contains no agent run"),
        ('{"messages": []}\n{"messages": ', "runs.jsonl:2: no JSON"),
        ('{"messages": []}\n{}', "runs.jsonl:2: transcripts"),
        ('[{"messages": []}, 5]', "runs.jsonl[1]: an agent run is a JSON object"),
    ],
)
def test_invalid_file_is_refused_with_the_location(text: str, expected_text: str) -> None:
    with pytest.raises(DataError) as raised:
        parse_agent_runs(text, "runs.jsonl")
    assert str(raised.value).startswith(expected_text)


def test_digest_covers_content_and_metadata_but_not_ids() -> None:
    def run(**changed: Any) -> AgentRun:
        return parse_agent_run({"messages": [{"role": "user", "content": "x", **changed}]}, "x")

    assert run().digest == run(id="another").digest
    assert run().digest != run(metadata={"id": "seen"}).digest
    assert run().digest != run(content="y").digest
