"""Import of trajectories in the Agent Trajectory Interchange Format (ATIF): steps, sub-agents and usage."""

import json
from pathlib import Path
from typing import Any

import pytest

from evalscribe.model.record import Record
from evalscribe.model.run import Run
from evalscribe.model.transcript import AssistantMessage, ToolMessage
from evalscribe.sources.address import RunOverrides
from evalscribe.sources.formats import open_records, recognise

AGENT = {"name": "made", "version": "1", "model_name": "example/example-1"}


def step(number: int, source: str, message: object = "", **more: object) -> dict[str, Any]:
    return {"step_id": number, "source": source, "message": message, **more}


def write(path: Path, *steps: dict[str, Any], **more: object) -> Path:
    whole = {"schema_version": "ATIF-v1.6", "session_id": "s", "agent": AGENT, "steps": steps, **more}
    path.write_text(json.dumps(whole))
    return path


def read(path: Path) -> tuple[Run, Record]:
    run, record = open_records(path, RunOverrides()).read()
    assert isinstance(run, Run)
    assert isinstance(record, Record)
    return run, record


@pytest.mark.parametrize("version", [f"ATIF-v1.{n}" for n in range(2, 9)])
def test_every_schema_version_is_recognised(tmp_path: Path, version: str) -> None:
    path = write(tmp_path / "t.json", step(1, "user", "hello"), schema_version=version)
    assert recognise(path, RunOverrides()).feature == f"its `schema_version` is {version}"


def test_copied_context_is_dropped_unless_a_continuation_is_read_alone(tmp_path: Path) -> None:
    write(
        tmp_path / "t.json",
        step(1, "user", "do it"),
        step(2, "agent", "begun"),
        continued_trajectory_ref="t.cont-1.json",
    )
    copied = {"is_copied_context": True}
    write(tmp_path / "t.cont-1.json", step(1, "user", "do it", **copied), step(2, "agent", "ended"))
    _, record = read(tmp_path)
    assert [one.content for one in record.transcripts[0].messages] == ["do it", "begun", "ended"]
    _, alone = read(tmp_path / "t.cont-1.json")
    assert [one.content for one in alone.transcripts[0].messages] == ["do it", "ended"]


def test_usage_is_summed_over_steps_without_file_totals(tmp_path: Path) -> None:
    measured = {"metrics": {"prompt_tokens": 10, "completion_tokens": 2, "cost_usd": 0.5}, "llm_call_count": 2}
    steps = (step(1, "user", "go"), step(2, "agent", "a", **measured), step(3, "agent", "b", **measured))
    path = write(tmp_path / "t.json", *steps)
    run, record = read(path)
    assert (run.input_tokens, run.output_tokens, run.cost_usd) == (20, 4, 1.0)
    assert record.metadata["usage"] == {"input_tokens": 20, "output_tokens": 4, "cost_usd": 1.0}


def test_step_without_llm_calls_has_no_model(tmp_path: Path) -> None:
    path = write(
        tmp_path / "t.json",
        step(1, "agent", "by rule", model_name="m", llm_call_count=0),
        step(2, "agent", "asked", model_name="m", llm_call_count=1),
    )
    _, record = read(path)
    models = [one.model for one in record.transcripts[0].messages if isinstance(one, AssistantMessage)]
    assert models == [None, "m"]


def test_observations_without_tool_calls_become_messages(tmp_path: Path) -> None:
    seen = {"observation": {"results": [{"content": [{"type": "text", "text": "12 files"}, {"type": "image"}]}]}}
    path = write(
        tmp_path / "t.json",
        step(1, "user", "count"),
        step(2, "agent", "ls | wc -l", **seen),
        step(3, "system", "", observation={"results": [{"content": "context was summarised"}]}),
    )
    _, record = read(path)
    assert [(one.role, one.content) for one in record.transcripts[0].messages] == [
        ("user", "count"),
        ("assistant", "ls | wc -l"),
        ("user", "12 files\n[image]"),
        ("system", "context was summarised"),
    ]


def test_embedded_and_linked_sub_agents_have_their_own_transcripts(tmp_path: Path) -> None:
    outside = write(tmp_path.parent / "outside.json", step(1, "agent", "elsewhere"))
    (tmp_path / "sub").mkdir()
    write(tmp_path / "sub" / "b.json", step(1, "agent", "from a file"), agent={**AGENT, "name": "searcher"})
    references = [{"trajectory_path": "sub/b.json"}, {"trajectory_path": f"../{outside.name}"}, {"trajectory_id": "a"}]
    call = {"tool_call_id": "c", "function_name": "delegate", "arguments": {}}
    result = {"source_call_id": "c", "content": None, "subagent_trajectory_ref": references}
    inside = {"trajectory_id": "a", "agent": {"name": "reviewer"}, "steps": [step(1, "agent", "embedded")]}
    path = write(
        tmp_path / "t.json",
        step(1, "user", "go"),
        step(2, "agent", "", tool_calls=[call], observation={"results": [result]}),
        subagent_trajectories=[inside],
    )
    _, record = read(path)
    assert {one.name: one.messages[0].content for one in record.transcripts[1:]} == {
        "reviewer": "embedded",
        "searcher": "from a file",
    }
    answer = record.transcripts[0].messages[-1]
    assert isinstance(answer, ToolMessage)
    assert answer.function == "delegate"
