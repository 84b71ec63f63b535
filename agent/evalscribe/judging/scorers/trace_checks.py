"""What else a trace shows: limits, no_errors, state_equals."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from pydantic import Field, JsonValue, model_validator

from evalscribe.judging.scorers.fields import ReadsExpected
from evalscribe.judging.scorers.kind import AnyKind, Configured, Kind, pure
from evalscribe.judging.scorers.result import CannotScore, judged
from evalscribe.judging.scorers.tool_calls import made
from evalscribe.judging.scorers.values import NOTHING, Place, kept_place, leaves, places
from evalscribe.model.score import ScoreResult, ScorerRequest
from evalscribe.model.target import Trace
from evalscribe.text import cut, pluralise, printable

MOST_ERRORS = 20
LONGEST_ERROR = 200
MOST_PLACES = 20
Bound = Annotated[int, Field(ge=0)]


class Limits(Configured):
    max_tool_calls: Bound | None = None
    max_model_calls: Bound | None = None
    max_tokens: Bound | None = None
    """Input and output of all calls of models."""
    max_duration_ms: Annotated[float, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _limits(self) -> "Limits":
        if all(getattr(self, name) is None for name in type(self).model_fields):
            raise ValueError(f"needs one at least of {', '.join(type(self).model_fields)}")
        return self


class NoErrors(Configured):
    """There is nothing to configure."""


class StateEquals(ReadsExpected):
    name: Annotated[str, Field(min_length=1)]
    """Of the snapshot that the target gives."""
    expected: JsonValue = None
    """What it must be; null for the item's expected output."""
    threshold: float = Field(default=1.0, gt=0, le=1)
    """The share of its values that must be equal."""

    @model_validator(mode="after")
    def _one_source(self) -> "StateEquals":
        if self.expected is not None and self.expected_field != "expected":
            raise ValueError("expected_field is a part of the item's expected output, but expected is given here")
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
        raise CannotScore("artifact_error", f"the target does not tell its {' and '.join(unknown)}")
    broken = [limit for limit in asked if not limit.holds]
    return judged(
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
    failed = [f"{use.tool}: {use.error or 'failed'}" for use in made(request) if use.failed]
    errors = list(dict.fromkeys((*failed, *(request.trace.errors if request.trace else ()))))
    if not errors:
        return judged(True, "no step ended in an error", label="match")
    told = [cut(printable(error), LONGEST_ERROR) for error in errors[:MOST_ERRORS]]
    return judged(False, f"{pluralise(len(errors), 'error')}, the first: {told[0]}", label="mismatch", evidence=[*told])


def state_equals(config: StateEquals, request: ScorerRequest) -> ScoreResult:
    states = request.trace.state if request.trace else {}
    if config.name not in states:
        there = ", ".join(map(printable, states)) or "none"
        raise CannotScore("artifact_error", f"there is no state {config.name!r}; the target gave: {there}")
    expected = config.expected_of(request) if config.expected is None else config.expected
    differing = list(places(states[config.name], expected, config.name))
    share = _share(expected, differing)
    passed = share >= config.threshold
    return judged(
        passed,
        f"{differing[0]} ({pluralise(len(differing), 'place')})" if differing else f"{config.name} is what is expected",
        label="match" if passed else "mismatch",
        value=share,
        evidence=[kept_place(place) for place in differing[:MOST_PLACES]],
    )


def _share(expected: JsonValue, differing: Sequence[Place]) -> float:
    """Of the values that are expected or there, those that are as they should be."""
    wanted = leaves(expected)
    lost = sum(leaves(place.expected) for place in differing if place.expected is not NOTHING)
    extra = sum(leaves(place.output) for place in differing if place.expected is NOTHING)
    return (wanted - lost) / (wanted + extra)


KINDS: tuple[AnyKind, ...] = (
    Kind("limits", "whether calls, tokens and time stayed within bounds", Limits, pure(limits)),
    Kind("no_errors", "whether no step of the target ended in an error", NoErrors, pure(no_errors)),
    Kind("state_equals", "whether a named state of the target is what it should be", StateEquals, pure(state_equals)),
)
