"""tool_calls: whether the tools were called, in the order and with the arguments, that were asked for."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, JsonValue, model_validator

from evalscribe.judging.scorers.kind import AnyKind, Configured, Kind, pure
from evalscribe.judging.scorers.result import CannotScore, judged
from evalscribe.judging.scorers.values import Place, kept, places
from evalscribe.model.score import ScoreResult, ScorerRequest
from evalscribe.model.target import ToolUse
from evalscribe.text import pluralise, printable

ToolName = Annotated[str, Field(min_length=1)]
Tools = Annotated[tuple[ToolName, ...], Field(min_length=1)]
MOST_TOLD = 12
"""Names of a sequence that are shown."""
MOST_KEPT = 100
"""Calls that are kept in the evidence."""


class WantedCall(Configured):
    tool: ToolName
    arguments: dict[str, JsonValue]
    """What the arguments of one call must be."""
    mode: Literal["subset", "exact"] = "subset"
    """Whether the call, and objects in its arguments, may have more than these."""


class ToolCalls(Configured):
    called: Tools | None = None
    """Each of these was called."""
    not_called: Tools | None = None
    """None of these was called."""
    in_order: Tools | None = None
    """These were called in this order, with any others between them."""
    exact: tuple[ToolName, ...] | None = None
    """These calls were made, in this order, and no others; an empty list: none at all."""
    any_order: Tools | None = None
    """Each of these was called, as often as it is named, in any order; others may have been too."""
    params: Annotated[tuple[WantedCall, ...], Field(min_length=1)] | None = None
    """For each of these, one call of the tool had the arguments."""

    @model_validator(mode="after")
    def _asks(self) -> "ToolCalls":
        if all(getattr(self, name) is None for name in type(self).model_fields):
            raise ValueError(f"needs one at least of {', '.join(type(self).model_fields)}")
        return self


class Condition(NamedTuple):
    name: str
    problem: str | None
    """None where it holds."""


def tool_calls(config: ToolCalls, request: ScorerRequest) -> ScoreResult:
    """Whether a call had success does not matter here."""
    uses = made(request)
    conditions = list(_conditions(config, uses))
    problems = [condition.problem for condition in conditions if condition.problem is not None]
    said = "; ".join(problems) or f"{_listed([use.tool for use in uses])}: as it should be"
    return judged(
        not problems,
        said,
        label="mismatch" if problems else "match",
        value=(len(conditions) - len(problems)) / len(conditions),
        evidence=[_kept_call(use) for use in uses[:MOST_KEPT]],
        metadata={"conditions": {name: problem is None for name, problem in conditions}},
    )


def made(request: ScorerRequest) -> Sequence[ToolUse]:
    """The calls of a trace. Raises `CannotScore` where nothing was recorded."""
    if request.trace is None or not request.trace.recorded:
        reason = "there is no trace: the target gives no messages, so nobody knows which tools it called"
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
    return f"{_name(wanted[missed])} was not called{after}; called was {_listed(tools)}"


def _exact(wanted: Sequence[str], tools: Sequence[str]) -> str | None:
    if list(wanted) == list(tools):
        return None
    pairs = enumerate(zip(wanted, tools, strict=False), 1)
    differing = next((f"call {at} is {_name(b)} instead of {_name(a)}" for at, (a, b) in pairs if a != b), None)
    counts = f"{pluralise(len(tools), 'call')} instead of {len(wanted)}"
    return f"{differing or counts}; called was {_listed(tools)}"


def _any_order(wanted: Sequence[str], tools: Sequence[str]) -> str | None:
    for tool in dict.fromkeys(wanted):
        if tools.count(tool) < wanted.count(tool):
            return f"{_name(tool)} was called {tools.count(tool)} of {pluralise(wanted.count(tool), 'time')}"
    return None


def _params(wanted: WantedCall, uses: Sequence[ToolUse]) -> str | None:
    """Of the call that comes nearest, where it first differs."""
    nearest: list[Place] | None = None
    for use in uses:
        if use.tool == wanted.tool:
            found = list(islice(_argument_places(wanted, use), len(nearest or ()) or None))
            if not found:
                return None
            nearest = found if nearest is None or len(found) < len(nearest) else nearest
    if nearest is None:
        return f"{_name(wanted.tool)} was not called"
    return f"no call of {_name(wanted.tool)} has the arguments: in the nearest, {nearest[0]}"


def _argument_places(wanted: WantedCall, use: ToolUse) -> Iterator[Place]:
    return places(use.arguments, wanted.arguments, "arguments", subset=wanted.mode == "subset")


def _kept_call(use: ToolUse) -> JsonValue:
    return {"tool": use.tool, "arguments": kept(use.arguments), "failed": use.failed}


def _name(tool: str) -> str:
    return printable(tool)[:120]


def _listed(tools: Sequence[str]) -> str:
    shown = [_name(tool) for tool in tools[:MOST_TOLD]]
    more = [f"{len(tools) - MOST_TOLD} more"] if len(tools) > MOST_TOLD else []
    return ", ".join([*shown, *more]) or "no tool"


KINDS: tuple[AnyKind, ...] = (
    Kind("tool_calls", "whether tools were called as they should be", ToolCalls, pure(tool_calls)),
)
