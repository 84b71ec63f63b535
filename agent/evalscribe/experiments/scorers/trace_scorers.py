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
    difference_evidence,
    differences,
    leaves,
)
from evalscribe.model.score import ScoreResult, ScorerRequest
from evalscribe.model.target import ToolUse, Trace
from evalscribe.text import cut, pluralise, printable

ToolName = Annotated[str, Field(min_length=1)]
Tools = Annotated[tuple[ToolName, ...], Field(min_length=1)]
MOST_TOLD = 12
"""Maximum tool names of one sequence that a message lists."""
MOST_KEPT = 100
"""Maximum calls stored as evidence."""


class WantedCall(ScorerConfig):
    tool: ToolName
    arguments: dict[str, JsonValue]
    """Arguments that one call must have."""
    mode: Literal["subset", "exact"] = "subset"
    """`subset` allows additional arguments in the call, and additional members in objects; `exact` does not."""


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
    """These tools were called in this order, with other calls allowed between them."""
    exact: tuple[ToolName, ...] | None = None
    """Exactly these calls were made, in this order; an empty list means no calls at all."""
    any_order: Tools | None = None
    """Each of these tools was called at least as often as it is listed, in any order; other calls are allowed."""
    params: Annotated[tuple[WantedCall, ...], Field(min_length=1)] | None = None
    """For each entry, at least one call of the tool had these arguments."""


class Condition(NamedTuple):
    name: str
    problem: str | None
    """None if it holds."""


def tool_calls(config: ToolCalls, request: ScorerRequest) -> ScoreResult:
    """Check a tool's calls, whether or not they succeeded."""
    uses = recorded_calls(request)
    conditions = list(_conditions(config, uses))
    problems = [condition.problem for condition in conditions if condition.problem is not None]
    said = "; ".join(problems) or f"{_listed([use.tool for use in uses])}: as expected"
    return score_result(
        not problems,
        said,
        label="mismatch" if problems else "match",
        value=(len(conditions) - len(problems)) / len(conditions),
        evidence=[_kept_call(use) for use in uses[:MOST_KEPT]],
        metadata={"conditions": {name: problem is None for name, problem in conditions}},
    )


def recorded_calls(request: ScorerRequest) -> Sequence[ToolUse]:
    """Return the calls of a trace. Raises `CannotScore` if nothing was recorded."""
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
    for number, wanted in enumerate(config.params or ()):
        yield Condition(f"params[{number}] {wanted.tool}", _params(wanted, uses))


def _in_order(wanted: Sequence[str], tools: Sequence[str]) -> str | None:
    left = iter(tools)
    missed = next((number for number, tool in enumerate(wanted) if tool not in left), None)
    if missed is None:
        return None
    after = f" after {_listed(wanted[:missed])}" if missed else ""
    return f"{_name(wanted[missed])} was not called{after}; actual calls: {_listed(tools)}"


def _exact(wanted: Sequence[str], tools: Sequence[str]) -> str | None:
    if list(wanted) == list(tools):
        return None
    pairs = enumerate(zip(wanted, tools, strict=False), 1)
    differing = next((f"call {at} is {_name(b)} instead of {_name(a)}" for at, (a, b) in pairs if a != b), None)
    counts = f"{pluralise(len(tools), 'call')} instead of {len(wanted)}"
    return f"{differing or counts}; actual calls: {_listed(tools)}"


def _any_order(wanted: Sequence[str], tools: Sequence[str]) -> str | None:
    for tool in dict.fromkeys(wanted):
        if tools.count(tool) < wanted.count(tool):
            return f"{_name(tool)} was called {tools.count(tool)} of {pluralise(wanted.count(tool), 'time')}"
    return None


def _params(wanted: WantedCall, uses: Sequence[ToolUse]) -> str | None:
    """Return the first difference between the wanted call and the most similar call; None if a call matches."""
    nearest: list[ValueDifference] | None = None
    for use in uses:
        if use.tool == wanted.tool:
            found = list(islice(_argument_places(wanted, use), len(nearest or ()) or None))
            if not found:
                return None
            nearest = found if nearest is None or len(found) < len(nearest) else nearest
    if nearest is None:
        return f"{_name(wanted.tool)} was not called"
    return f"no call of {_name(wanted.tool)} has the arguments: in the most similar call, {nearest[0]}"


def _argument_places(wanted: WantedCall, use: ToolUse) -> Iterator[ValueDifference]:
    return differences(use.arguments, wanted.arguments, "arguments", subset=wanted.mode == "subset")


def _kept_call(use: ToolUse) -> JsonValue:
    return {"tool": use.tool, "arguments": as_evidence(use.arguments), "failed": use.failed}


def _name(tool: str) -> str:
    return printable(tool)[:120]


def _listed(tools: Sequence[str]) -> str:
    shown = [_name(tool) for tool in tools[:MOST_TOLD]]
    more = [f"{len(tools) - MOST_TOLD} more"] if len(tools) > MOST_TOLD else []
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
    """Input and output tokens of all model calls."""
    max_duration_ms: Annotated[float, Field(ge=0)] | None = None


class NoErrors(ScorerConfig):
    """A config without keys."""


class StateEquals(ReadsExpected):
    name: Annotated[str, Field(min_length=1)]
    """Name of a state snapshot that the target returns."""
    expected: JsonValue = None
    """Expected state; null for the item's expected output."""
    threshold: float = Field(default=1.0, gt=0, le=1)
    """Minimum share of the state's values that must be equal."""

    @model_validator(mode="after")
    def _one_source(self) -> "StateEquals":
        if self.expected is not None and self.expected_field != "expected":
            raise ValueError(
                "expected_field names a part of the item's expected output, so it cannot be combined with expected"
            )
        return self


class Limit(NamedTuple):
    what: str
    known: float | None
    most: float | None

    @property
    def holds(self) -> bool:
        return self.most is None or (self.known is not None and self.known <= self.most)

    def __str__(self) -> str:
        sign = "at most" if self.holds else "more than"
        return f"{self.known:,.15g} {self.what}, {sign} {self.most:,.15g}"


def limits(config: Limits, request: ScorerRequest) -> ScoreResult:
    asked = [limit for limit in _limits(config, request) if limit.most is not None]
    if unknown := [limit.what for limit in asked if limit.known is None]:
        raise CannotScore("artifact_error", f"the target does not report its {' and '.join(unknown)}")
    broken = [limit for limit in asked if not limit.holds]
    return score_result(
        not broken,
        "; ".join(map(str, broken or asked)),
        label="over" if broken else "within",
        value=(len(asked) - len(broken)) / len(asked),
        evidence={limit.what: limit.known for limit in asked},
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
    errors = list(dict.fromkeys((*failed, *(request.trace.errors if request.trace else ()))))
    if not errors:
        return score_result(True, "no step ended in an error", label="match")
    told = [cut(printable(error), LONGEST_ERROR) for error in errors[:MOST_ERRORS]]
    return score_result(
        False, f"{pluralise(len(errors), 'error')}, the first: {told[0]}", label="mismatch", evidence=[*told]
    )


def state_equals(config: StateEquals, request: ScorerRequest) -> ScoreResult:
    states = request.trace.state if request.trace else {}
    if config.name not in states:
        there = ", ".join(map(printable, states)) or "none"
        raise CannotScore("artifact_error", f"state {config.name!r} is missing; the target returned: {there}")
    expected = config.expected_of(request) if config.expected is None else config.expected
    differing = list(differences(states[config.name], expected, config.name))
    share = _share(expected, differing)
    passed = share >= config.threshold
    return score_result(
        passed,
        f"{differing[0]} ({pluralise(len(differing), 'place')})" if differing else f"{config.name} is as expected",
        label="match" if passed else "mismatch",
        value=share,
        evidence=[difference_evidence(place) for place in differing[:MOST_PLACES]],
    )


def _share(expected: JsonValue, differing: Sequence[ValueDifference]) -> float:
    """Return the number of equal values divided by the number of all expected and unexpected values."""
    wanted = leaves(expected)
    lost = sum(leaves(place.expected) for place in differing if place.expected is not NOTHING)
    extra = sum(leaves(place.output) for place in differing if place.expected is NOTHING)
    return (wanted - lost) / (wanted + extra)


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
