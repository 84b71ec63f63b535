"""Evaluate test cases and conversations with every outcome TIMES times, and print what `evaluate` returns."""

import json
import os
import shutil
from pathlib import Path

from deepeval import evaluate
from deepeval.evaluate.configs import AsyncConfig, DisplayConfig, ErrorConfig
from deepeval.metrics import BaseConversationalMetric, BaseMetric
from deepeval.test_case import ConversationalTestCase, LLMTestCase, ToolCall, Turn


class Exact(BaseMetric):
    threshold, async_mode, include_reason = 0.5, False, True

    def measure(self, case, *args, **kwargs):
        self.score = self.rate(case)
        self.success = self.score >= self.threshold
        self.reason = f"{self.score:.2f} is {'enough' if self.success else 'too little'}"
        return self.score

    def rate(self, case):
        return float(case.actual_output == case.expected_output)

    async def a_measure(self, case, *args, **kwargs):
        return self.measure(case)

    def is_successful(self):
        return self.success

    @property
    def __name__(self):
        return type(self).__name__


class Brevity(Exact):
    def rate(self, case):
        if "{" in case.actual_output:
            raise ValueError("cannot count the words of JSON")
        return min(1.0, 6 / len(case.actual_output.split()))


class Polite(BaseConversationalMetric):
    threshold, async_mode, include_reason = 0.5, False, True
    measure, a_measure, is_successful, __name__ = Exact.measure, Exact.a_measure, Exact.is_successful, Exact.__name__

    def rate(self, case):
        return sum("please" in turn.content for turn in case.turns) / len(case.turns)


def question(name, actual, expected, **fields):
    return LLMTestCase(name=name, input=f"{name}?", actual_output=actual, expected_output=expected, **fields)


def conversation(name, *contents):
    turns = [Turn(role=("user", "assistant")[n % 2], content=content) for n, content in enumerate(contents)]
    return ConversationalTestCase(name=name, scenario=f"The customer asks for a {name}.", turns=turns)


LONG = "It was shipped, and it will be with you in the course of the day after tomorrow, weather permitting."
CASES = [
    question("refund", "5 days.", "14 days.", retrieval_context=["Refunds take 14 days."], context=["Policy 7"]),
    question("opening", "We open at 9.", "We open at 9."),
    question(
        "order",
        LONG,
        "It was shipped.",
        tools_called=[ToolCall(name="get_order", input_parameters={"id": "A-17"}, output={"status": "shipped"})],
        expected_tools=[ToolCall(name="get_order")],
        token_cost=0.0004,
        completion_time=1.5,
    ),
    question("price", '{"price": 40}', '{"price": 40}'),
    question("stock", '{"stock": 7}', '{"stock": 8}'),
]
CONVERSATIONS = [
    conversation("voucher", "a voucher, please", "which one, please?"),
    conversation("call", "call me", "why?"),
]


def figures(path, results):
    wrong = [one for one in results if not one.success]
    raised = [one for one in wrong if all(metric.success or metric.error for metric in one.metrics_data)]
    return {
        "file": path,
        "runs": 1,
        "passed": len(results) - len(wrong),
        "failed": len(wrong) - len(raised),
        "errors": len(raised),
    }


for name, cases, metrics in (
    ("cases", CASES, [Exact(), Brevity()]),
    ("conversations", CONVERSATIONS, [Polite()]),
):
    returned = evaluate(
        test_cases=cases * int(os.environ["TIMES"]),
        metrics=metrics,
        identifier=name,
        hyperparameters={"model": "table-1"},
        async_config=AsyncConfig(run_async=False),
        display_config=DisplayConfig(show_indicator=False, print_results=False),
        error_config=ErrorConfig(ignore_errors=True),
    )
    latest = Path(".deepeval/.latest_run_full.json")
    shutil.copy(latest, f"{name}.json")
    run = json.loads(latest.read_text())
    found = figures(f"{name}.json", returned.test_results)
    assert (run["testPassed"], run["testFailed"]) == (found["passed"], found["failed"] + found["errors"]), run
    print(json.dumps(found))
    Path(f"{name}-returned.json").write_text(returned.model_dump_json())
    print(json.dumps({**found, "file": f"{name}-returned.json"}))
