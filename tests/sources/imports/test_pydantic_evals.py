"""Import of pydantic-evals reports."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

RAISED = {"name": "NeedsNumber", "error_message": "IndexError: no number", "error_stacktrace": "Traceback …"}


def case(name: str = "refund", **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "inputs": {"question": "How long?"},
        "expected_output": "14 days",
        "output": "5 days",
        "metadata": {"topic": "shop"},
        "assertions": {"short": verdict(True), "EqualsExpected": verdict(False)},
        "scores": {"brevity": {"value": 0.5}},
        "labels": {},
        "metrics": {"input_tokens": 12, "output_tokens": 3},
        "attributes": {"model": "openai/gpt-4o"},
        "evaluator_failures": [],
        **more,
    }


def verdict(value: bool, reason: str | None = None, name: str = "EqualsExpected") -> dict[str, Any]:
    return {"value": value, "reason": reason, "source": {"name": name, "arguments": None}}


def report(*cases: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": "answer", "cases": [*cases], "failures": [], "analyses": [], "dataset_name": "shop", **more}


@pytest.mark.parametrize(("name", "times"), [("report.json", 1), ("report-repeat-2.json", 2)])
def test_real_reports_are_read_with_their_trials(
    real_data: Path, read_file: Callable[..., Any], name: str, times: int
) -> None:
    read = read_file(real_data / "formats" / "pydantic_evals" / name)
    assert Counter(one.eval.status for one in read.records) == {
        "failed": 5 * times,
        "passed": 2 * times,
        "error": times,
    }
    assert {(one.eval.task, one.eval.trials) for one in read.records} == {
        (task, times) for task in ("refund", "opening", "price", "address", "phone", "delivery", "warranty", "stock")
    }
    assert (read.run.model, read.run.experiment) == ("example-1", "shop-questions")
    price = next(one for one in read.records if one.eval.task == "price")
    assert [(step.name, step.status) for step in price.steps][-1] == ("NeedsNumber", "skipped")
    assert price.missing == ("the grader `NeedsNumber` raised an error",)


@pytest.mark.parametrize(
    ("change", "status", "step", "reason"),
    [
        pytest.param({}, "failed", "EqualsExpected", "expected '14 days', got '5 days'", id="failed"),
        pytest.param({"assertions": {"a": verdict(False, "why")}}, "failed", "a", "why", id="with its reason"),
        pytest.param({"assertions": {"a": verdict(True)}}, "passed", None, None, id="passed"),
        pytest.param({"assertions": {}}, "incomplete", None, "the case has no assertion", id="scores are no verdict"),
        pytest.param(
            {"assertions": {"a": verdict(True)}, "evaluator_failures": [RAISED]},
            "error",
            None,
            "the grader `NeedsNumber` raised: IndexError: no number",
            id="a grader raised, all green",
        ),
    ],
)
def test_assertions_and_evaluator_failures_decide_the_status(
    read_value: Callable[..., Any], change: dict[str, Any], status: str, step: str | None, reason: str | None
) -> None:
    read = read_value(report(case(**change)))
    (record,) = read.records
    assert (record.eval.status, record.eval.failed_step, record.eval.reason) == (status, step, reason)
    assert (read.run.provider, read.run.input_tokens, read.run.output_tokens) == ("openai", 12, 3)


def test_raised_task_is_an_error_and_differing_models_are_unknown(read_value: Callable[..., Any]) -> None:
    broke = {"name": "x [2/2]", "source_case_name": "x", "inputs": "?", "error_message": "TimeoutError: late"}
    read = read_value(report(case(), case("b", attributes={"model": "other"}), failures=[broke], analyses=[{"a": 1}]))
    assert read.run.model == "unknown"
    assert [(one.eval.status, one.eval.reason) for one in read.records][-1] == ("error", "TimeoutError: late")
    assert read.left_out == {"`analyses` of the report": 1}
