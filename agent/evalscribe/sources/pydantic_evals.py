"""Read evaluation reports of pydantic-evals in the form that its `EvaluationReportAdapter` writes."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from evalscribe.model.evidence import Document
from evalscribe.model.run import Step
from evalscribe.sources.recognition import FileStart, Format, has
from evalscribe.sources.records import (
    EvalReader,
    SourceEval,
    SourceRun,
    as_text,
    dicts,
    first_lines,
    object_of,
    score_number,
    scores_log,
    text_of,
)
from evalscribe.sources.streams import JsonStream
from evalscribe.text import cut, one_line

NAME = "pydantic-evals"
_ABOUT = frozenset(("name", "dataset_name", "experiment_metadata", "analyses", "report_evaluator_failures"))
"""Fields of a report that are read. All other fields are dropped."""
_REPEAT = re.compile(r" \[(\d{1,6})/\d+\]$")
"""Matches the end of the name of a repeated case, such as ` [2/5]`."""
_USED = frozenset(("name", "inputs", "expected_output", "output", "assertions", "scores", "evaluator_failures"))
_USED |= {"error_message", "error_stacktrace", "source_case_name"}
"""Fields of a case that are read. All other fields become metadata."""


class PydanticEvals(EvalReader):
    format = NAME

    def evals(self) -> Iterator[SourceEval]:
        self._about: dict[str, object] = {}
        self._models: set[str] = set()
        number = {"cases": 0, "failures": 0}
        with self._open(self._path) as reading:
            text = JsonStream(reading, str(self._path))
            for name, value in text.members(("cases", "failures")):
                if name not in number:
                    if name in _ABOUT:
                        self._about[name] = value
                    continue
                place = f"{name}[{number[name]}]"
                number[name] += 1
                if not isinstance(value, dict):
                    self._omit("a case that is not an object", place)
                elif name == "cases":
                    yield self._case(value, place)
                else:
                    yield self._failure(value, place)
            text.end()
        for field in ("analyses", "report_evaluator_failures"):
            if entries := dicts(self._about.get(field)):
                self._omit(f"`{field}` of the report", number=len(entries))

    def complete(self, run: SourceRun) -> SourceRun:
        metadata = object_of(self._about.get("experiment_metadata"))
        model = text_of(metadata.get("model")) or text_of(metadata.get("model_name"))
        return replace(
            run,
            model=model or (next(iter(self._models)) if len(self._models) == 1 else None),
            experiment=text_of(self._about.get("dataset_name")) or text_of(self._about.get("name")) or "default",
        )

    def _case(self, case: Mapping[str, object], place: str) -> SourceEval:
        assertions, raised = object_of(case.get("assertions")), dicts(case.get("evaluator_failures"))
        if model := text_of(object_of(case.get("attributes")).get("model")):
            # Two names are enough to know that the cases used several models.
            self._models |= {model} if len(self._models) < 2 else set()
        steps = [_step(name, object_of(assertion), case) for name, assertion in assertions.items()]
        failed = [step for step in steps if step.status == "failed"]
        steps += [
            Step(
                name=text_of(failure.get("name")) or "evaluator",
                status="skipped",
                error=text_of(failure.get("error_message")),
            )
            for failure in raised
        ]
        results = {**assertions, **object_of(case.get("scores"))}
        scores = {
            name: value
            for name, result in results.items()
            if (value := score_number(object_of(result).get("value"))) is not None
        }
        metrics = object_of(case.get("metrics"))
        reason = None
        if not failed and raised:
            reason = f"the grader `{steps[-len(raised)].name}` raised: {first_lines(steps[-len(raised)].error or '')}"
        elif not assertions:
            reason = "the case has no assertion"
        messages = [{"role": "user", "content": as_text(case.get("inputs"))}]
        logs = [
            Document(role="log", path=f"{step.name}.log", text=text_of(failure.get("error_stacktrace")))
            for step, failure in zip(steps[len(assertions) :], raised, strict=True)
        ]
        return replace(
            self._eval(case, place),
            # An evaluator that raised leaves no assertion, so that all assertions can be true although a check never
            # ran.
            status="failed" if failed else "error" if raised else "passed" if assertions else "incomplete",
            reason=reason,
            steps=steps,
            documents=(
                *_documents(case),
                *(logs if reason else ()),
                scores_log(steps, scores),
                *(() if reason else logs),
            ),
            conversations=((None, [*messages, {"role": "assistant", "content": as_text(case.get("output"))}]),),
            scores=scores,
            missing=[f"the grader `{step.name}` raised an error" for step in steps[len(assertions) :] if failed],
            input_tokens=metrics.get("input_tokens"),
            output_tokens=metrics.get("output_tokens"),
            cost_usd=metrics.get("cost"),
        )

    def _failure(self, case: Mapping[str, object], place: str) -> SourceEval:
        """Return the eval for a case whose task raised an error. No evaluator was run on such a case."""
        message, trace = text_of(case.get("error_message")), text_of(case.get("error_stacktrace"))
        return replace(
            self._eval(case, place),
            reason=first_lines(message) or "the task raised an error",
            documents=(*_documents(case), Document(role="log", path="error.log", text=trace or message)),
            conversations=((None, [{"role": "user", "content": as_text(case.get("inputs"))}]),),
        )

    def _eval(self, case: Mapping[str, object], place: str) -> SourceEval:
        name = text_of(case.get("name")) or place
        repeat = _REPEAT.search(name)
        return SourceEval(
            run=SourceRun(),
            name=text_of(case.get("source_case_name")) or name,
            status="error",
            place=place,
            trial=int(repeat[1]) if repeat and case.get("source_case_name") else None,
            metadata={name: value for name, value in case.items() if name not in _USED and value not in (None, {}, [])},
        )


def _step(name: str, assertion: Mapping[str, object], case: Mapping[str, object]) -> Step:
    if assertion.get("value") is True:
        return Step(name=name, status="passed")
    reason = text_of(assertion.get("reason"))
    if not reason and object_of(assertion.get("source")).get("name") == "EqualsExpected":
        # This evaluator states no reason.
        output, expected = (cut(one_line(as_text(case.get(field))), 120) for field in ("output", "expected_output"))
        reason = f"expected {expected!r}, got {output!r}"
    return Step(name=name, status="failed", error=reason or f"the assertion `{name}` is false")


def _documents(case: Mapping[str, object]) -> Iterator[Document]:
    yield Document(role="task", path="inputs", text=as_text(case.get("inputs")))
    yield Document(role="expected", path="expected_output", text=as_text(case.get("expected_output")))


def _recognise(start: FileStart) -> str | None:
    behind = start.top.keys() & {"analyses", "report_evaluator_failures", "experiment_metadata", "trace_id"}
    return has(start.top, "cases", "failures", "name") if behind else None


FORMATS = (
    Format(
        name=NAME,
        title="pydantic-evals reports",
        open=PydanticEvals,
        recognise=lambda start, _: _recognise(start),
        an_eval="a case; its repeats are trials",
        passed="every assertion is true; without assertions an eval is incomplete",
        versions="2.62.0",
        names=("name", "cases", "failures", "analyses", "dataset_name"),
        fields={
            "cases": "evals; an error if an evaluator raised and no assertion is false",
            "failures": "evals with an error: their task raised",
            "inputs, output, expected_output": "task, transcript, expected answer",
            "assertions": "steps and scores",
            "scores": "scores; they do not affect pass or fail",
            "evaluator_failures": "skipped steps, and logs",
            "metrics": "tokens and cost, if they are named as in pydantic-ai; metadata",
            "labels, attributes, metadata": "metadata",
            "experiment_metadata.model, attributes.model": "model, if it is the same for all cases",
            "dataset_name": "experiment",
            "analyses, report_evaluator_failures": "not imported, only counted",
        },
    ),
)
