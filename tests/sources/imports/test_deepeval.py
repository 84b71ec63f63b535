"""Import of DeepEval test runs."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def case(*metrics: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "name": "order",
        "input": "Where is my order?",
        "actualOutput": "On its way.",
        "success": False,
        "metricsData": [*metrics],
        **more,
    }


def metric(name: str, success: bool, score: float | None = 0.25, **more: Any) -> dict[str, Any]:
    return {"name": name, "threshold": 0.5, "success": success, "score": score, "reason": "too long", **more}


RAISED = metric("Brevity", False, None, error="ValueError: no words\nmore")


def run(*cases: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"testCases": [*cases], "conversationalTestCases": [], "metricsScores": [], "identifier": "shop", **more}


@pytest.mark.parametrize("name", ["latest_run_full.json", "latest_test_run.json", "evaluation-result.json"])
def test_real_run_is_read_from_each_of_its_three_forms(
    real_data: Path, read_file: Callable[..., Any], name: str
) -> None:
    read = read_file(real_data / "formats" / "deepeval" / name)
    assert Counter(one.eval.status for one in read.records) == {"passed": 1, "failed": 2, "error": 1}
    steps = Counter((step.name, step.status) for one in read.records for step in one.steps)
    assert steps == {
        ("Exact", "passed"): 2,
        ("Exact", "failed"): 2,
        ("Brevity", "passed"): 2,
        ("Brevity", "failed"): 1,
        ("Brevity", "skipped"): 1,
    }
    assert next(one.eval.reason for one in read.records if one.eval.name == "json") == (
        "the grader `Brevity` raised: ValueError: cannot count words of JSON"
    )


@pytest.mark.parametrize(
    ("given", "status", "step", "reason"),
    [
        pytest.param(
            case(metric("Exact", False)), "failed", "Exact", "too long (score 0.25, threshold 0.5)", id="failed"
        ),
        pytest.param(case(metric("Exact", True), success=True), "passed", None, None, id="passed"),
        pytest.param(
            case(metric("Exact", True), RAISED),
            "error",
            None,
            "the grader `Brevity` raised: ValueError: no words\nmore",
            id="a metric raised",
        ),
        pytest.param(
            case(RAISED, metric("Exact", False)),
            "failed",
            "Exact",
            "too long (score 0.25, threshold 0.5)",
            id="a metric raised, another failed",
        ),
        pytest.param(case(), "incomplete", None, "no metric was measured", id="no metric"),
    ],
)
def test_metric_results_decide_status_step_and_reason(
    read_value: Callable[..., Any], given: dict[str, Any], status: str, step: str | None, reason: str | None
) -> None:
    (record,) = read_value(run(given)).records
    assert (record.eval.status, record.eval.failed_step, record.eval.reason) == (status, step, reason)


def test_conversation_with_tool_calls_and_model_is_read(read_value: Callable[..., Any]) -> None:
    tool = {"name": "get_order", "inputParameters": {"id": 3}, "output": {"status": "sent"}}
    turns = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Sent.", "toolsCalled": [tool]}]
    talk = case(metric("Exact", False), name="talk", input=None, turns=turns, scenario="A customer asks")
    whole = {"testRunData": run(case(metric("Exact", False)), hyperparameters={"model": "openai/gpt-4o"})}
    whole["testRunData"]["conversationalTestCases"] = [talk]
    read = read_value(whole)
    assert (read.run.provider, read.run.model, read.run.experiment) == ("openai", "gpt-4o", "shop")
    messages = read.records[1].transcripts[0].messages
    assert [(message.role, message.content) for message in messages] == [
        ("user", "Hello"),
        ("assistant", ""),
        ("tool", '{\n  "status": "sent"\n}'),
        ("assistant", "Sent."),
    ]
    assert messages[1].tool_calls[0].arguments == {"id": 3}
    assert read.records[1].documents[0].text == "A customer asks"
