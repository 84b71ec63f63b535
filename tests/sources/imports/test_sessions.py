"""Import of coding agent sessions and ATIF trajectories: each message once, in order, and without a verdict."""

import json
from pathlib import Path
from typing import Any

import pytest

from evalscribe.errors import DataError
from evalscribe.model.record import Record
from evalscribe.model.run import Run
from evalscribe.model.transcript import AssistantMessage, ToolMessage
from evalscribe.sources.address import RunOverrides
from evalscribe.sources.formats import open_records, recognise, run_files


def lines(path: Path, values: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(value) + "\n" for value in values))
    return path


def opened(path: Path) -> tuple[list[Run], list[Record], dict[str, int]]:
    records = open_records(path, RunOverrides())
    entries = list(records.read())
    runs = [one for one in entries if isinstance(one, Run)]
    return runs, [one for one in entries if isinstance(one, Record)], dict(records.left_out)


def session_line(uuid: str, parent: str | None, role: str, content: object, **more: object) -> dict[str, Any]:
    return {
        "type": role,
        "uuid": uuid,
        "parentUuid": parent,
        "sessionId": "s",
        "cwd": "/home/someone/project",
        "message": {"role": role, "content": content, **more},
    }


def test_claude_code_sessions_of_a_project_are_read(real_data: Path) -> None:
    (run,), records, left_out = opened(real_data / "formats" / "claude_code")
    assert (run.provider, run.model) == ("anthropic", "claude-opus-4-5-20251101")
    assert len(records) == 12
    assert not left_out
    assert {one.eval.status for one in records} == {"incomplete"}
    by_name = {one.eval.name: one for one in records}
    explored = by_name["agent-session-slug"]
    assert [one.name for one in explored.transcripts] == [None, "agent-atest01"]
    merged = by_name["merged-slug-test"].transcripts[0].messages
    assert [one.content for one in merged if one.role == "user"] == [
        "Plan how to implement the feature",
        "Now execute the plan",
    ]
    assert (run.input_tokens or 0) > 0
    assert run_files(real_data / "formats" / "claude_code") == (real_data / "formats" / "claude_code",)


def test_answer_in_several_lines_is_merged_and_its_usage_counted_once(tmp_path: Path) -> None:
    usage = {"input_tokens": 10, "output_tokens": 4}
    path = lines(
        tmp_path / "a.jsonl",
        [
            session_line("1", None, "user", "List the files"),
            session_line(
                "2", "1", "assistant", [{"type": "text", "text": "I look."}], id="m", model="claude-x", usage=usage
            ),
            session_line(
                "3",
                "2",
                "assistant",
                [{"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "ls"}}],
                id="m",
                model="claude-x",
                usage=usage,
            ),
            session_line(
                "4", "3", "user", [{"type": "tool_result", "tool_use_id": "t", "content": "no", "is_error": True}]
            ),
        ],
    )
    (run,), (record,), _ = opened(path)
    _, answer, result = record.transcripts[0].messages
    assert isinstance(answer, AssistantMessage)
    assert answer.content == "I look."
    assert [call.function for call in answer.tool_calls] == ["Bash"]
    assert isinstance(result, ToolMessage)
    assert (result.content, result.error) == ("no", "the tool reported an error")
    assert (run.input_tokens, run.output_tokens) == (10, 4)
    assert (run.experiment, record.documents[0].text) == ("project", "List the files")


def test_rewound_messages_are_left_out_and_parallel_results_kept(tmp_path: Path) -> None:
    calls = [{"type": "tool_use", "id": id, "name": "Read", "input": {}} for id in ("a", "b")]
    path = lines(
        tmp_path / "a.jsonl",
        [
            session_line("1", None, "user", "first"),
            session_line("2", "1", "assistant", "a wrong way", id="m1"),
            session_line("3", "2", "user", "go on"),
            session_line("4", "1", "assistant", calls[:1], id="m2"),
            session_line("5", "4", "assistant", calls[1:], id="m2"),
            session_line("6", "4", "user", [{"type": "tool_result", "tool_use_id": "a", "content": "A"}]),
            session_line("7", "5", "user", [{"type": "tool_result", "tool_use_id": "b", "content": "B"}]),
            session_line("8", "7", "assistant", "done", id="m3"),
        ],
    )
    _, (record,), left_out = opened(path)
    assert [one.content for one in record.transcripts[0].messages] == ["first", "", "A", "B", "done"]
    assert left_out == {"a message that was taken back by a rewind (first: a.jsonl)": 2}


def test_codex_session_is_read(real_data: Path) -> None:
    (path,) = (real_data / "formats" / "codex").glob("*.jsonl")
    (run,), (record,), left_out = opened(path)
    assert (run.provider, run.model, run.experiment) == ("openai", "gpt-5.5", "codemie-code")
    messages = record.transcripts[0].messages
    calls = [call for one in messages if isinstance(one, AssistantMessage) for call in one.tool_calls]
    assert len(calls) == 99 + 3 + 3
    assert sum(isinstance(one, ToolMessage) for one in messages) == 99 + 3
    assert not left_out
    assert record.documents[0].text == "show tools"
    assert run.input_tokens
    assert run.output_tokens


def test_damaged_line_is_left_out_and_the_others_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    lines(path, [session_line("1", None, "user", "hello"), session_line("2", "1", "assistant", "hi", id="m")])
    path.write_text(path.read_text() + '{"type": "user", "uuid":\n')
    _, (record,), left_out = opened(path)
    assert len(record.transcripts[0].messages) == 2
    assert left_out == {"a line that cannot be read (first: a.jsonl:3)": 1}


def test_atif_trajectories_of_a_folder_are_read_and_continued(real_data: Path) -> None:
    runs, records, _ = opened(real_data / "formats" / "atif")
    assert {(run.provider, run.model, run.experiment) for run in runs} == {
        ("unknown", "unknown", "openhands"),
        ("openai", "gpt-4o", "terminus-2"),
    }
    continued = next(one for one in records if "terminus" in one.eval.name)
    steps = [
        step
        for name in ("trajectory.json", "trajectory.cont-1.json")
        for file in (real_data / "formats" / "atif").glob(f"*linear-history.{name}")
        for step in json.loads(file.read_text())["steps"]
        if not step.get("is_copied_context")
    ]
    results = sum(
        bool(result.get("content")) for step in steps for result in (step.get("observation") or {}).get("results", ())
    )
    spoken = sum(bool(step.get("message") or step.get("tool_calls")) for step in steps)
    assert len(continued.transcripts[0].messages) == spoken + results
    assert recognise(real_data / "formats" / "atif", RunOverrides()).format.name == "atif"


def test_atif_tool_call_and_sub_agent_are_read(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(
        json.dumps(
            {
                "schema_version": "ATIF-v1.8",
                "agent": {"name": "a", "model_name": "openai/m"},
                "steps": [
                    {"step_id": 1, "source": "user", "message": "Do it"},
                    {
                        "step_id": 2,
                        "source": "agent",
                        "message": "",
                        "tool_calls": [{"tool_call_id": "c", "function_name": "sh", "arguments": {"cmd": "ls"}}],
                        "observation": {"results": [{"source_call_id": "c", "content": "a.txt"}]},
                    },
                ],
                "subagent_trajectories": [
                    {"agent": {"name": "helper"}, "steps": [{"source": "agent", "message": "mine"}]}
                ],
                "continued_trajectory_ref": "../outside.json",
            }
        )
    )
    _, (record,), _ = opened(path)
    main, helper = record.transcripts
    assert [one.role for one in main.messages] == ["user", "assistant", "tool"]
    assert helper.name == "helper"


@pytest.mark.parametrize("text", ['{"schema_version": "ATIF-v1.7", "steps": [', '{"schema_version": "ATIF-v1.7"} x'])
def test_malformed_atif_trajectory_error_names_line_and_column(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.json"
    path.write_text(text)
    with pytest.raises(DataError, match="line 1, column"):
        opened(path)
