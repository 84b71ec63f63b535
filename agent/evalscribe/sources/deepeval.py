"""Read test runs of DeepEval, from files that DeepEval writes or from results of its function `evaluate`."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from evalscribe.model.evidence import Document
from evalscribe.model.run import EvalStatus, Step
from evalscribe.sources.recognition import FileStart, Format, has
from evalscribe.sources.records import (
    EvalReader,
    SourceEval,
    SourceRun,
    as_text,
    dicts,
    distinct_names,
    figure,
    first_lines,
    object_of,
    scores_log,
    text_of,
)
from evalscribe.sources.streams import JsonStream

NAME = "deepeval"
_LISTS = ("testCases", "conversationalTestCases", "test_results")
_ABOUT = ("hyperparameters", "identifier")
"""Fields of a test run that are read, in addition to its test cases. All other fields are dropped."""
_UNREAD = frozenset(("metricsScores", "prompts", "tracesMetricsScores", "traceMetricsScores"))
"""Fields of a test run that are not read, because they only summarise its test cases."""
_USED = frozenset(("name", "input", "actual_output", "expected_output", "context", "retrieval_context", "turns"))
_USED |= {"tools_called", "expected_tools", "metrics_data", "success", "token_cost", "scenario", "expected_outcome"}
_USED |= {"conversational", "index", "order"}
"""Fields of a test case that are read. All other fields become metadata."""
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")


class DeepEval(EvalReader):
    format = NAME

    def evals(self) -> Iterator[SourceEval]:
        self._about: dict[str, object] = {}
        number = 0
        with self._open(self._path) as reading:
            text = JsonStream(reading, str(self._path))
            for name, value in text.members(_LISTS, inside=("testRunData",), unread=_UNREAD):
                if name not in _LISTS:
                    if name in _ABOUT:
                        self._about[name] = value
                elif isinstance(value, dict):
                    yield _eval(_snake_case(value), f"{name}[{number}]")
                    number += 1
                elif value is not None:
                    self._omit("a test case that is not an object", f"{name}[{number}]")
                    number += 1
            text.end()

    def complete(self, run: SourceRun) -> SourceRun:
        settings = object_of(self._about.get("hyperparameters"))
        model = next((name for field in ("model", "Model", "llm") if (name := text_of(settings.get(field)))), None)
        return replace(run, model=model, experiment=text_of(self._about.get("identifier")) or "default")


def _snake_case(value: Mapping[str, object]) -> dict[str, object]:
    """Convert the camel-case names in files to the snake-case names that `evaluate` returns."""
    return {_HUMP.sub("_", name).lower(): inner for name, inner in value.items()}


def _eval(case: Mapping[str, object], place: str) -> SourceEval:
    metrics = [_snake_case(metric) for metric in dicts(case.get("metrics_data"))]
    names = distinct_names(text_of(metric.get("name")) or "metric" for metric in metrics)
    steps = [_step(name, metric) for name, metric in zip(names, metrics, strict=True)]
    scores = {
        name: score
        for name, metric in zip(names, metrics, strict=True)
        if (score := figure(metric.get("score"))) is not None and not metric.get("error")
    }
    status, reason = _status(case, steps)
    raised = [step for step in steps if step.status == "skipped"]
    logs = {name: as_text(metric.get("verbose_logs")) for name, metric in zip(names, metrics, strict=True)}
    return SourceEval(
        run=SourceRun(),
        name=text_of(case.get("name")) or as_text(case.get("input")) or place,
        status=status,
        reason=reason,
        place=place,
        steps=steps,
        documents=(
            *_documents(case),
            *(Document(role="log", path="error.log", text=step.error or "") for step in raised if status == "error"),
            scores_log(steps, scores),
            *(Document(role="log", path=f"{name}.log", text=text) for name, text in logs.items()),
        ),
        conversations=((None, list(_messages(case))),),
        scores=scores,
        metadata={name: value for name, value in case.items() if name not in _USED and value not in (None, {}, [])}
        | {
            "metrics": [
                {name: metric[name] for name in ("name", "threshold", "evaluation_model") if metric.get(name)}
                for metric in metrics
            ]
        },
        missing=[f"the grader `{step.name}` raised an error" for step in raised if status == "failed"],
        cost_usd=case.get("token_cost"),
    )


def _step(name: str, metric: Mapping[str, object]) -> Step:
    # A metric that raised an exception also has `success: false`.
    if error := as_text(metric.get("error")):
        return Step(name=name, status="skipped", error=error)
    if metric.get("success") is True:
        return Step(name=name, status="passed")
    score, threshold = figure(metric.get("score")), figure(metric.get("threshold"))
    below = "" if score is None or threshold is None else f"score {score:g}, threshold {threshold:g}"
    reason = text_of(metric.get("reason"))
    return Step(
        name=name, status="failed", error=(f"{reason} ({below})" if reason and below else reason or below) or None
    )


def _status(case: Mapping[str, object], steps: list[Step]) -> tuple[EvalStatus, str | None]:
    """Return the status of a test case, and the reason.

    If a metric raised an exception and no metric failed, an unsuccessful test case has the status `error`, not
    `failed`.
    """
    success = case.get("success")
    if not steps or not isinstance(success, bool):
        return "incomplete", "no metric was measured"
    if success:
        return "passed", None
    raised = next((step for step in steps if step.status == "skipped"), None)
    if raised is not None and not any(step.status == "failed" for step in steps):
        return "error", f"the grader `{raised.name}` raised: {first_lines(raised.error or '')}"
    return "failed", None


def _documents(case: Mapping[str, object]) -> Iterator[Document]:
    yield Document(role="task", path="input", text=as_text(case.get("input")) or as_text(case.get("scenario")))
    yield Document(role="task", path="retrieval_context", text=_joined(case.get("retrieval_context")))
    expected = as_text(case.get("expected_output")) or as_text(case.get("expected_outcome"))
    yield Document(role="expected", path="expected_output", text=expected)
    if case.get("context") != case.get("retrieval_context"):
        yield Document(role="grader", path="context", text=_joined(case.get("context")))
    if tools := case.get("expected_tools"):
        yield Document(role="grader", path="expected_tools", text=as_text(tools))


def _joined(value: object) -> str:
    return "\n\n".join(map(as_text, value)) if isinstance(value, list) else as_text(value)


def _messages(case: Mapping[str, object]) -> Iterator[object]:
    turns = dicts(case.get("turns"))
    for turn in map(_snake_case, turns):
        calls = list(_calls(turn.get("tools_called")))
        yield from calls
        yield {"role": turn.get("role"), "content": as_text(turn.get("content"))}
    if not turns:
        yield {"role": "user", "content": as_text(case.get("input"))}
        yield from _calls(case.get("tools_called"))
        if case.get("actual_output") is not None:
            yield {"role": "assistant", "content": as_text(case.get("actual_output"))}


def _calls(tools: object) -> Iterator[object]:
    for number, tool in enumerate(map(_snake_case, dicts(tools)), 1):
        name, id = text_of(tool.get("name")) or "unnamed", f"call-{number}"
        call = {"id": id, "function": name, "arguments": object_of(tool.get("input_parameters"))}
        yield {"role": "assistant", "content": "", "tool_calls": [call]}
        if tool.get("output") is not None:
            yield {"role": "tool", "tool_call_id": id, "function": name, "content": as_text(tool["output"])}


def _recognise(start: FileStart) -> str | None:
    cases = has(start.top, "testCases", "testPassed") or has(start.top, "testCases", "metricsScores")
    return cases or has(start.top, "testRunData") or has(start.top, "test_results")


FORMATS = (
    Format(
        name=NAME,
        title="DeepEval",
        open=DeepEval,
        recognise=lambda start, _: _recognise(start),
        an_eval="a test case",
        passed="`success`",
        versions="4.3.1",
        names=("testCases", "metricsScores", "identifier", "testPassed", "test_results"),
        fields={
            "metricsData": "steps and scores; a metric that raised is skipped",
            "success": "status; an error if it is false only because metrics raised",
            "input, actualOutput, toolsCalled, turns": "task and transcript",
            "expectedOutput, expectedOutcome": "expected answer",
            "retrievalContext": "task; context and expectedTools: grader",
            "verboseLogs": "logs",
            "hyperparameters.model": "model",
            "identifier": "experiment",
            "tokenCost": "cost",
        },
    ),
)
