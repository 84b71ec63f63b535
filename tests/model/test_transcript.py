"""Agent runs as anybody writes them: understood or refused with the place, and nothing lost."""

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


def one(message: dict[str, Any]) -> Any:
    return parse_agent_run({"transcripts": [{"messages": [message]}]}, "run.json").transcripts[0].messages[0]


def test_a_run_of_the_constructors_survives_json() -> None:
    run = AgentRun(transcripts=(Transcript(messages=(UserMessage(content="a"), AssistantMessage(content="b"))),))
    assert parse_agent_run(run.model_dump_json(), "x") == run


def test_a_file_is_redacted_and_made_storable_as_it_is_read() -> None:
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


def test_ids_are_kept_when_given_and_made_when_not() -> None:
    run = parse_agent_run({"id": 7, "transcripts": [{"id": "t", "messages": [{"role": "user", "id": "m"}]}]}, "x")
    assert (run.id, run.transcripts[0].id, run.transcripts[0].messages[0].id) == ("7", "t", "m")
    made = parse_agent_run({"messages": []}, "x")
    assert len(made.id) == 36
    assert made.id != made.transcripts[0].id


def test_unknown_fields_are_kept_beside_metadata_that_is_there() -> None:
    message = one({"role": "user", "content": "x", "source": "input", "cost": 2, "metadata": {"source": "mine"}})
    assert message.metadata == {"source": "mine", "source (field)": "input", "cost": 2}
    run = parse_agent_run({"messages": [], "description": "d", "transcript_groups": [{"id": "g"}]}, "x")
    assert run.metadata == {"description": "d", "transcript_groups": [{"id": "g"}]}


def test_nulls_are_defaults() -> None:
    message = one({"role": "assistant", "content": None, "tool_calls": None, "metadata": None, "model": None})
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
def test_parts_become_one_text(part: Any, content: str) -> None:
    message = one({"role": "user", "content": ["first", part]})
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
    message = one({"role": "assistant", "content": parts, "reasoning_content": "zero"})
    assert message.reasoning == "zero\none\ntwo\nshort\n[reasoning withheld]"
    assert message.content == "said"
    assert one({"role": "user", "content": parts[:2]}).content == "one\nsaid"


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
def test_calls_of_tools_in_both_shapes(call: dict[str, Any], function: str, arguments: dict[str, Any]) -> None:
    (known,) = one({"role": "assistant", "tool_calls": [call]}).tool_calls
    assert (known.id, known.function, known.arguments, known.metadata) == ("c", function, arguments, {})


def test_what_else_a_call_says_is_kept() -> None:
    message = one({"role": "assistant", "tool_calls": [{"function": "f", "parse_error": "bad", "type": "custom"}]})
    assert message.tool_calls[0].metadata == {"parse_error": "bad", "type": "custom"}
    used = one({"role": "assistant", "content": [{"type": "tool_use", "id": "u", "name": "g", "input": {"k": 2}}]})
    assert [(call.id, call.function, call.arguments) for call in used.tool_calls] == [("u", "g", {"k": 2})]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ("boom", "boom"),
        ({"type": "timeout", "message": "slow"}, "timeout: slow"),
        ({"message": "slow"}, "slow"),
        ({"code": 3}, '{"code": 3}'),
        (None, None),
    ],
)
def test_a_tools_error_is_one_text(error: Any, told: str | None) -> None:
    message = one({"role": "tool", "name": "f", "error": error, "tool_call_id": "c"})
    assert message == ToolMessage(function="f", error=told, tool_call_id="c")


def test_a_developer_speaks_as_the_system() -> None:
    message = one({"role": "developer", "content": "x"})
    assert (message.role, message.content, message.metadata) == ("system", "x", {"spoken by": "developer"})


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"messages": [{"role": "robot"}]}, 'run.json: transcripts[0].messages[0]: unknown role "robot"; known are'),
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
        ({"transcripts": []}, "run.json: transcripts: an agent run has at least one transcript"),
        ({}, "run.json: transcripts"),
        ([], "run.json: an agent run is a JSON object"),
        ("[1", "run.json: no JSON at line 1, column 3"),
        ("null", "run.json: an agent run is a JSON object with transcripts, not null"),
        ("[" * 200_000, "run.json: "),
    ],
)
def test_what_is_no_run_is_refused_with_its_place(value: Any, told: str) -> None:
    with pytest.raises(DataError) as raised:
        parse_agent_run(value, "run.json")
    assert told in str(raised.value)
    assert len(str(raised.value)) < 700


def test_transcripts_by_name_become_a_list() -> None:
    run = parse_agent_run({"transcripts": {"main": {"messages": []}, "other": {"messages": []}}}, "x")
    assert [transcript.name for transcript in run.transcripts] == ["main", "other"]


def test_files_of_one_of_a_list_and_of_lines() -> None:
    run = {"id": "a", "messages": []}
    line = json.dumps(run)
    other = json.dumps({"id": "b", "messages": []})
    for text, ids in {
        json.dumps(run, indent=2): ["a"],
        f"\ufeff{line}": ["a"],
        f"[{line}, {other}]": ["a", "b"],
        f"{line}\r\n\n{other}\n": ["a", "b"],
    }.items():
        assert [found.id for found in parse_agent_runs(text, "runs.jsonl")] == ids


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "runs.jsonl: contains no agent run"),
        ("[]", "runs.jsonl: contains no agent run"),
        ('{"messages": []}\n{"messages": ', "runs.jsonl:2: no JSON"),
        ('{"messages": []}\n{}', "runs.jsonl:2: transcripts"),
        ('[{"messages": []}, 5]', "runs.jsonl[1]: an agent run is a JSON object"),
    ],
)
def test_a_bad_file_is_refused_with_the_line(text: str, told: str) -> None:
    with pytest.raises(DataError) as raised:
        parse_agent_runs(text, "runs.jsonl")
    assert str(raised.value).startswith(told)


def test_the_digest_is_of_what_is_seen_not_of_ids() -> None:
    def run(**changed: Any) -> AgentRun:
        return parse_agent_run({"messages": [{"role": "user", "content": "x", **changed}]}, "x")

    assert run().digest == run(id="another").digest
    assert run().digest != run(metadata={"id": "seen"}).digest
    assert run().digest != run(content="y").digest
