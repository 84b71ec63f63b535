"""Scorers of traces: tool_calls, limits, no_errors, state_equals."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import Field, JsonValue, model_validator

from evalscribe.experiments.scorers.definition import (
    AnyKind,
    CannotScore,
    ScorerConfig,
    ScorerKind,
    function_check,
    score_result,
)
from evalscribe.experiments.scorers.values import (
    NOTHING,
    ReadsExpected,
    ValueDifference,
    as_evidence,
    count_leaves,
    difference_evidence,
    differences,
)
from evalscribe.model.score import ScoreResult, ScorerRequest
from evalscribe.model.target import ToolUse, Trace
from evalscribe.text import cut, pluralise, printable

ToolName = Annotated[str, Field(min_length=1)]
Tools = Annotated[tuple[ToolName, ...], Field(min_length=1)]
MOST_LISTED = 12
"""Maximum number of tool names that are listed in a message."""
MOST_KEPT = 100
"""Maximum number of calls stored as evidence."""


class WantedCall(ScorerConfig):
    tool: ToolName
    arguments: dict[str, JsonValue]
    """Arguments that at least one call of the tool must have."""
    mode: Literal["subset", "exact"] = "subset"
    """With `subset`, the call can have additional arguments, and objects can have additional members. `exact` allows
    neither."""


class SomeConditions(ScorerConfig):
    @model_validator(mode="after")
    def _require_one(self) -> Self:
        if all(getattr(self, name) is None for name in type(self).model_fields):
            raise ValueError(f"needs at least one of {', '.join(type(self).model_fields)}")
        return self


class ToolCalls(SomeConditions):
    called: Tools | None = None
    """All of these tools were called."""
    not_called: Tools | None = None
    """None of these tools was called."""
    in_order: Tools | None = None
    """These tools were called in this order. Other calls between them are allowed."""
    exact: tuple[ToolName, ...] | None = None
    """Exactly these calls were made, in this order. An empty list means that no tool was called."""
    any_order: Tools | None = None
    """Each of these tools was called at least as often as the list names the tool, in any order. Other calls are
    allowed."""
    params: Annotated[tuple[WantedCall, ...], Field(min_length=1)] | None = None
    """For each entry, at least one call of the entry's tool had the entry's arguments."""


class Condition(NamedTuple):
    name: str
    problem: str | None
    """Why the condition does not hold; None if it holds."""


def tool_calls(config: ToolCalls, request: ScorerRequest) -> ScoreResult:
    """Check the tool calls of a trial. Calls that failed count, too."""
    uses = recorded_calls(request)
    conditions = list(_conditions(config, uses))
    problems = [condition.problem for condition in conditions if condition.problem is not None]
    explanation = "; ".join(problems) or f"{_tool_list([use.tool for use in uses])}: as expected"
    return score_result(
        not problems,
        explanation,
        label="mismatch" if problems else "match",
        value=(len(conditions) - len(problems)) / len(conditions),
        evidence=[_call_evidence(use) for use in uses[:MOST_KEPT]],
        metadata={"conditions": {name: problem is None for name, problem in conditions}},
    )


def recorded_calls(request: ScorerRequest) -> Sequence[ToolUse]:
    """Return the tool calls of a trace. Raises `CannotScore` if the target recorded no messages."""
    if request.trace is None or not request.trace.recorded:
        reason = "there is no trace: the target returned no messages, so its tool calls are unknown"
        raise CannotScore("artifact_error", reason)
    return request.trace.tools


def _conditions(config: ToolCalls, uses: Sequence[ToolUse]) -> Iterator[Condition]:
    tools = [use.tool for use in uses]
    for tool in config.called or ():
        yield Condition(f"called {tool}", None if tool in tools else f"{_name(tool)} was not called")
    for tool in config.not_called or ():
        problem = f"{_name(tool)} was called {pluralise(tools.count(tool), 'time')}" if tool in tools else None
        yield Condition(f"not_called {tool}", problem)
    if config.in_order is not None:
        yield Condition("in_order", _in_order(config.in_order, tools))
    if config.exact is not None:
        yield Condition("exact", _exact(config.exact, tools))
    if config.any_order is not None:
        yield Condition("any_order", _any_order(config.any_order, tools))
    for number, expected_call in enumerate(config.params or ()):
        yield Condition(f"params[{number}] {expected_call.tool}", _params(expected_call, uses))


def _in_order(expected: Sequence[str], tools: Sequence[str]) -> str | None:
    remaining = iter(tools)
    # `in` consumes the iterator, so each search continues behind the previous match.
    missing_index = next((number for number, tool in enumerate(expected) if tool not in remaining), None)
    if missing_index is None:
        return None
    after = f" after {_tool_list(expected[:missing_index])}" if missing_index else ""
    return f"{_name(expected[missing_index])} was not called{after}; actual calls: {_tool_list(tools)}"


def _exact(expected: Sequence[str], tools: Sequence[str]) -> str | None:
    if list(expected) == list(tools):
        return None
    pairs = enumerate(zip(expected, tools, strict=False), 1)
    mismatch = next(
        (
            f"call {position} is {_name(tool)} instead of {_name(expected_tool)}"
            for position, (expected_tool, tool) in pairs
            if expected_tool != tool
        ),
        None,
    )
    counts = f"{pluralise(len(tools), 'call')} instead of {len(expected)}"
    return f"{mismatch or counts}; actual calls: {_tool_list(tools)}"


def _any_order(expected: Sequence[str], tools: Sequence[str]) -> str | None:
    for tool in dict.fromkeys(expected):
        if tools.count(tool) < expected.count(tool):
            return f"{_name(tool)} was called {tools.count(tool)} of {pluralise(expected.count(tool), 'time')}"
    return None


def _params(expected_call: WantedCall, uses: Sequence[ToolUse]) -> str | None:
    """Return the first difference between the wanted call and the most similar call; None if a call matches."""
    nearest: list[ValueDifference] | None = None
    for use in uses:
        if use.tool == expected_call.tool:
            # Once a call has as many differences as the nearest call so far, the rest of it is not compared.
            mismatches = list(islice(_argument_differences(expected_call, use), len(nearest or ()) or None))
            if not mismatches:
                return None
            nearest = mismatches if nearest is None or len(mismatches) < len(nearest) else nearest
    if nearest is None:
        return f"{_name(expected_call.tool)} was not called"
    return f"no call of {_name(expected_call.tool)} has the arguments: in the most similar call, {nearest[0]}"


def _argument_differences(expected_call: WantedCall, use: ToolUse) -> Iterator[ValueDifference]:
    return differences(use.arguments, expected_call.arguments, "arguments", subset=expected_call.mode == "subset")


def _call_evidence(use: ToolUse) -> JsonValue:
    return {"tool": use.tool, "arguments": as_evidence(use.arguments), "failed": use.failed}


def _name(tool: str) -> str:
    return printable(tool)[:120]


def _tool_list(tools: Sequence[str]) -> str:
    shown = [_name(tool) for tool in tools[:MOST_LISTED]]
    more = [f"{len(tools) - MOST_LISTED} more"] if len(tools) > MOST_LISTED else []
    return ", ".join([*shown, *more]) or "no tool"


TOOL_CALL_KINDS: tuple[AnyKind, ...] = (
    ScorerKind("tool_calls", "whether tools were called as expected", ToolCalls, function_check(tool_calls)),
)


MOST_ERRORS = 20
LONGEST_ERROR = 200
MOST_PLACES = 20
Bound = Annotated[int, Field(ge=0)]


class Limits(SomeConditions):
    max_tool_calls: Bound | None = None
    max_model_calls: Bound | None = None
    max_tokens: Bound | None = None
    """Maximum total number of input and output tokens of all model calls."""
    max_duration_ms: Annotated[float, Field(ge=0)] | None = None


class NoErrors(ScorerConfig):
    """Config of `no_errors`. There are no keys."""


class StateEquals(ReadsExpected):
    name: Annotated[str, Field(min_length=1)]
    """Name of a state snapshot. The target returns snapshots by name."""
    expected: JsonValue = None
    """Expected state; null to use the item's expected output."""
    threshold: float = Field(default=1.0, gt=0, le=1)
    """Minimum share of the state's values that must be as expected."""

    @model_validator(mode="after")
    def _require_one_expected(self) -> "StateEquals":
        if self.expected is not None and self.expected_field != "expected":
            raise ValueError(
                "expected_field names a part of the item's expected output, so it cannot be combined with expected"
            )
        return self


class Limit(NamedTuple):
    name: str
    value: float | None
    maximum: float | None

    @property
    def holds(self) -> bool:
        return self.maximum is None or (self.value is not None and self.value <= self.maximum)

    def __str__(self) -> str:
        sign = "at most" if self.holds else "more than"
        return f"{self.value:,.15g} {self.name}, {sign} {self.maximum:,.15g}"


def limits(config: Limits, request: ScorerRequest) -> ScoreResult:
    configured = [limit for limit in _limits(config, request) if limit.maximum is not None]
    if unreported := [limit.name for limit in configured if limit.value is None]:
        raise CannotScore("artifact_error", f"the target does not report its {' and '.join(unreported)}")
    exceeded = [limit for limit in configured if not limit.holds]
    return score_result(
        not exceeded,
        "; ".join(map(str, exceeded or configured)),
        label="over" if exceeded else "within",
        value=(len(configured) - len(exceeded)) / len(configured),
        evidence={limit.name: limit.value for limit in configured},
    )


def _limits(config: Limits, request: ScorerRequest) -> tuple[Limit, ...]:
    trace = request.trace or Trace(recorded=False)
    return (
        Limit("tool calls", float(len(trace.tools)) if trace.recorded else None, config.max_tool_calls),
        Limit("model calls", trace.model_calls, config.max_model_calls),
        Limit("tokens", trace.tokens, config.max_tokens),
        Limit("ms", trace.duration_ms, config.max_duration_ms),
    )


def no_errors(_: NoErrors, request: ScorerRequest) -> ScoreResult:
    failed = [f"{use.tool}: {use.error or 'failed'}" for use in recorded_calls(request) if use.failed]
    # The errors of a trace repeat the failed calls.
    errors = list(dict.fromkeys((*failed, *(request.trace.errors if request.trace else ()))))
    if not errors:
        return score_result(True, "no step ended in an error", label="match")
    messages = [cut(printable(error), LONGEST_ERROR) for error in errors[:MOST_ERRORS]]
    return score_result(
        False, f"{pluralise(len(errors), 'error')}, the first: {messages[0]}", label="mismatch", evidence=[*messages]
    )


def state_equals(config: StateEquals, request: ScorerRequest) -> ScoreResult:
    states = request.trace.state if request.trace else {}
    if config.name not in states:
        state_names = ", ".join(map(printable, states)) or "none"
        raise CannotScore("artifact_error", f"state {config.name!r} is missing; the target returned: {state_names}")
    expected = config.expected_of(request) if config.expected is None else config.expected
    mismatches = list(differences(states[config.name], expected, config.name))
    share = _share(expected, mismatches)
    passed = share >= config.threshold
    return score_result(
        passed,
        f"{mismatches[0]} ({pluralise(len(mismatches), 'place')})" if mismatches else f"{config.name} is as expected",
        label="match" if passed else "mismatch",
        value=share,
        evidence=[difference_evidence(mismatch) for mismatch in mismatches[:MOST_PLACES]],
    )


def _share(expected: JsonValue, mismatches: Sequence[ValueDifference]) -> float:
    """Return the share of equal values among all values, both expected and unexpected."""
    expected_count = count_leaves(expected)
    missing_count = sum(count_leaves(mismatch.expected) for mismatch in mismatches if mismatch.expected is not NOTHING)
    extra_count = sum(count_leaves(mismatch.output) for mismatch in mismatches if mismatch.expected is NOTHING)
    return (expected_count - missing_count) / (expected_count + extra_count)


TRACE_KINDS: tuple[AnyKind, ...] = (
    ScorerKind("limits", "whether calls, tokens and time stayed within bounds", Limits, function_check(limits)),
    ScorerKind("no_errors", "whether no step of the target ended in an error", NoErrors, function_check(no_errors)),
    ScorerKind(
        "state_equals",
        "whether a named state of the target is as expected",
        StateEquals,
        function_check(state_equals),
    ),
)
