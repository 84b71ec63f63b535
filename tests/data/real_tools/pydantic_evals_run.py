"""Evaluate cases with every outcome TIMES times, and print what the report itself counts."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

from pydantic_evals import Case, Dataset, increment_eval_metric, set_eval_attribute
from pydantic_evals.evaluators import (
    Contains,
    EqualsExpected,
    EvaluationReason,
    Evaluator,
    EvaluatorContext,
    IsInstance,
    MaxDuration,
)
from pydantic_evals.reporting import EvaluationReportAdapter

ANSWERS = {
    "refund": "A refund takes 5 days.",
    "opening": "We open at 9 and close at 18.",
    "price": "Sorry, I do not know the price.",
    "phone": {"text": "Call 555 0199.", "numbers": [5550199, None, float("inf")]},
    "nothing": None,
}


@dataclass
class Brevity(Evaluator):
    def evaluate(self, ctx: EvaluatorContext):
        length = len(str(ctx.output))
        return {
            "brevity": EvaluationReason(value=20 / length, reason=f"{length} characters"),
            "tone": "apologetic" if "Sorry" in str(ctx.output) else "neutral",
            "short": EvaluationReason(value=length < 30, reason=f"{length} characters"),
        }


@dataclass
class NeedsNumber(Evaluator):
    def evaluate(self, ctx: EvaluatorContext):
        return int(next(word for word in ctx.output.split() if word.isdigit())) > 0  # raises without a number


async def answer(question):
    set_eval_attribute("model", "table-1")
    increment_eval_metric("input_tokens", 12)
    if question == "stock":
        raise TimeoutError("the inventory service did not answer")
    return ANSWERS[question]


def figures(report, path):
    Path(path).write_bytes(EvaluationReportAdapter.dump_json(report))
    checked = [case for case in report.cases if case.assertions or case.evaluator_failures]
    failed = [case for case in checked if not all(one.value for one in case.assertions.values())]
    raised = [case for case in checked if case not in failed and case.evaluator_failures]
    return {
        "file": path,
        "runs": 1,
        "passed": len(checked) - len(failed) - len(raised),
        "failed": len(failed),
        "errors": len(report.failures) + len(raised),
        "without_verdict": len(report.cases) - len(checked),
    }


checked = Dataset(
    name="shop",
    cases=[
        Case(name="refund", inputs="refund", expected_output="A refund takes 14 days.", evaluators=(NeedsNumber(),)),
        Case(name="opening", inputs="opening", expected_output=ANSWERS["opening"], evaluators=(IsInstance("str"),)),
        Case(name="price", inputs="price", expected_output=ANSWERS["price"], evaluators=(NeedsNumber(),)),
        Case(inputs="phone", evaluators=(Contains("555", as_strings=True), MaxDuration(60.0))),
        Case(name="nothing", inputs="nothing", metadata={"topic": "silence"}, evaluators=(IsInstance("str"),)),
        Case(name="stock", inputs="stock", expected_output="There are 7 left."),
    ],
    evaluators=[EqualsExpected()],
)
scored = Dataset(name="scored", cases=[Case(name=name, inputs=name) for name in ANSWERS], evaluators=[Brevity()])
unchecked = Dataset(name="unchecked", cases=[Case(name=name, inputs=name) for name in ANSWERS])

times = int(os.environ["TIMES"])
for dataset in (checked, scored, unchecked):
    report = dataset.evaluate_sync(answer, name="answer", progress=False, repeat=times)
    print(json.dumps(figures(report, f"{dataset.name}.json")))
