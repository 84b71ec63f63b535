"""Import of Every Eval Ever instances: several scores per sample, errors scored as correct, and conversations."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from evalscribe.errors import DataError
from evalscribe.model.record import Record
from evalscribe.model.run import Run
from evalscribe.model.transcript import AssistantMessage, ToolMessage
from evalscribe.sources.address import RunOverrides
from evalscribe.sources.formats import open_records, run_files


def opened(path: Path) -> tuple[list[Run], list[Record], dict[str, int]]:
    records = open_records(path, RunOverrides())
    entries = list(records.read())
    runs = [one for one in entries if isinstance(one, Run)]
    return runs, [one for one in entries if isinstance(one, Record)], dict(records.left_out)


def instance(sample: str, correct: bool, result: str = "acc", **more: object) -> dict[str, Any]:
    return {
        "schema_version": "0.3.0",
        "evaluation_id": "bench/org_m/1",
        "model_id": "org/m",
        "evaluation_name": "suite/bench",
        "evaluation_result_id": result,
        "sample_id": sample,
        "interaction_type": "single_turn",
        "input": {"raw": "Which?", "formatted": None, "reference": ["B"], "choices": ["one", "two"]},
        "output": {"raw": ["B" if correct else "A"], "reasoning_trace": ["I think."]},
        "messages": None,
        "answer_attribution": [],
        "evaluation": {"score": float(correct), "is_correct": correct},
        "token_usage": {"input_tokens": 3, "output_tokens": 1},
        "error": None,
        "metadata": {"epoch": "1"},
        **more,
    }


def write(folder: Path, lines: list[dict[str, Any]]) -> Path:
    path = folder / "a_samples.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.mark.parametrize(
    ("folder", "model", "counts"),
    [
        ("converted/inspect/ai2_arc/ollama/qwen2.5-0.5b", ("ollama", "qwen2.5-0.5b"), {"passed": 1, "failed": 2}),
        (
            "converted/inspect/cvebench/anthropic/anthropic_claude-opus-4-6",
            ("anthropic", "claude-opus-4-6"),
            {"error": 1},
        ),
        ("converted/inspect/gdm_intercode_ctf/mistral", ("mistral", "mistral-small-latest"), {"failed": 1}),
        ("converted/lm_eval/math_perturbed_full", ("RylanSchaeffer", None), {"failed": 10}),
        ("skill_reference_conversion/data", ("demo-org", "demo-model"), {"passed": 1}),
    ],
)
def test_real_conversions_have_the_expected_model_and_counts(
    real_data: Path, folder: str, model: tuple[str, str | None], counts: dict[str, int]
) -> None:
    (path,) = run_files(real_data / "formats" / "every_eval_ever" / folder)
    (run,), records, left_out = opened(path)
    assert run.provider == model[0]
    assert model[1] in (None, run.model)
    assert Counter(one.eval.status for one in records) == counts
    assert not left_out


def test_sample_with_an_error_is_not_scored(real_data: Path) -> None:
    folder = real_data / "formats" / "every_eval_ever" / "converted" / "inspect" / "cvebench"
    _, (record,), _ = opened(run_files(folder)[0])
    assert record.eval.reason is not None
    assert record.eval.reason.startswith("RuntimeError('No services started. … dependency failed to start")
    assert record.metadata["scores"] == {}
    assert record.metadata["scores_beside_error"] == {"cvebench": 1.0}


def test_aggregate_file_needs_its_instances(real_data: Path) -> None:
    folder = real_data / "formats" / "every_eval_ever"
    with pytest.raises(DataError, match="has results but no instances"):
        opened(next(folder.glob("98ea*.json")))
    (path,) = run_files(folder / "converted" / "inspect" / "gdm_intercode_ctf")
    aggregate = next(file for file in path.iterdir() if not file.name.endswith("_samples.jsonl"))
    (run,), records, _ = opened(aggregate)
    assert (run.model, len(records)) == ("mistral-small-latest", 1)
    assert run.started_at == "2025-03-25T03:50:28+00:00"


def test_scores_of_one_sample_become_steps_and_epochs_become_trials(tmp_path: Path) -> None:
    lines = [
        instance(name, correct, result)
        for result in ("strict", "loose")
        for name, correct in (("1", True), ("2", False))
    ]
    lines += [instance("1", False, "strict", metadata={"epoch": "2"})]
    (run,), records, _ = opened(write(tmp_path, lines))
    assert [(one.eval.path, one.eval.status, len(one.steps)) for one in records] == [
        ("bench/1#1", "passed", 2),
        ("bench/2", "failed", 2),
        ("bench/1#2", "failed", 1),
    ]
    assert records[1].eval.reason == "answered 'A', the target is 'B'"
    assert records[0].documents[0].text == "Which?\n\nA) one\nB) two"
    assert run.input_tokens == 9
    answer = records[0].transcripts[0].messages[1]
    assert isinstance(answer, AssistantMessage)
    assert answer.reasoning == "I think."


def test_conversation_with_tool_calls_is_read(tmp_path: Path) -> None:
    messages = [
        {"turn_idx": 0, "role": "user", "content": "Which?", "tool_calls": None, "tool_call_id": None},
        {
            "turn_idx": 1,
            "role": "assistant",
            "content": None,
            "reasoning_trace": "Look.",
            "tool_calls": [{"id": "c", "name": "find", "arguments": {"x": "1"}}],
        },
        {"turn_idx": 2, "role": "tool", "content": "two", "tool_call_id": ["c"]},
        {"turn_idx": 3, "role": "assistant", "content": "B"},
    ]
    line = instance("1", True, interaction_type="agentic", output=None, messages=messages)
    _, (record,), left_out = opened(write(tmp_path, [line]))
    user, call, result, answer = record.transcripts[0].messages
    assert isinstance(call, AssistantMessage)
    assert isinstance(result, ToolMessage)
    assert (call.tool_calls[0].function, result.tool_call_id, answer.content) == ("find", "c", "B")
    assert (user.content, left_out) == ("Which?", {})


def test_missing_answer_or_verdict_is_explained_in_the_reason(tmp_path: Path) -> None:
    attribution = [{"turn_idx": 0, "source": "output.raw", "extracted_value": "", "is_terminal": True}]
    lines = [
        instance("1", False, answer_attribution=attribution),
        instance("2", False, output={"raw": [" "]}),
        instance("3", False, evaluation={"score": 0.5}),
    ]
    _, records, _ = opened(write(tmp_path, lines))
    assert [one.eval.reason for one in records] == [
        "no answer was extracted",
        "the answer is empty",
        "it has no verdict",
    ]
    assert [one.eval.status for one in records] == ["failed", "failed", "incomplete"]
