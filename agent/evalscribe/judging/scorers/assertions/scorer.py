"""The scorer: the share of its assertions that hold."""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, Field, JsonValue, field_validator

from evalscribe.judging.scorers.assertions.parse import parse
from evalscribe.judging.scorers.assertions.values import Expression, Values, condition
from evalscribe.judging.scorers.fields import ReadsExpected, ReadsInput, ReadsOutput, within
from evalscribe.judging.scorers.kind import AnyKind, Check, Configured, Kind, Plain
from evalscribe.judging.scorers.result import CannotScore, judged
from evalscribe.judging.scorers.values import kept, told
from evalscribe.model.score import ScoreResult, ScorerRequest
from evalscribe.text import cut, printable

MOST = 64
LONGEST_SAID = 1000
LARGEST = 2**20
"""Bytes of the JSON that assertions look at."""


def _parsed(expression: str) -> str:
    parse(expression)
    return expression


class Assertion(Configured):
    name: Annotated[str, Field(min_length=1, max_length=200)]
    """What it is called in scores."""
    expr: Annotated[str, AfterValidator(_parsed)]
    """A condition such as `size(output.items) > 0 && output.status == "done"`."""


class StructuredAssertions(ReadsOutput, ReadsExpected, ReadsInput):
    assertions: Annotated[tuple[Assertion, ...], Field(min_length=1, max_length=MOST)]
    """What must hold: `[{"name", "expr"}]`."""
    score_threshold: float = Field(default=1.0, gt=0, le=1)
    """The share of them that must hold."""

    @field_validator("assertions")
    @classmethod
    def _differently_named(cls, assertions: tuple[Assertion, ...]) -> tuple[Assertion, ...]:
        names = [assertion.name for assertion in assertions]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"has {twice!r} twice: each needs a name of its own")
        return assertions


def _check(config: StructuredAssertions) -> Check:
    parsed = [parse(assertion.expr) for assertion in config.assertions]
    return Plain(lambda request: _judged(config, parsed, request))


class Outcome(NamedTuple):
    assertion: Assertion
    holds: bool
    read: Mapping[str, JsonValue]
    """The values that it looked at, by path."""

    def __str__(self) -> str:
        values = ", ".join(f"{path} is {told(value)}" for path, value in self.read.items())
        return printable(f"{self.assertion.name}: {self.assertion.expr}") + (f" ({values})" if values else "")

    def kept(self) -> JsonValue:
        read = {path: kept(value) for path, value in self.read.items()}
        return {"name": self.assertion.name, "holds": self.holds, "read": read}


def _judged(config: StructuredAssertions, parsed: Sequence[Expression], request: ScorerRequest) -> ScoreResult:
    values = _values(config, request)
    outcomes = [_outcome(one, expression, values) for one, expression in zip(config.assertions, parsed, strict=True)]
    failed = [outcome for outcome in outcomes if not outcome.holds]
    share = (len(outcomes) - len(failed)) / len(outcomes)
    passed = share >= config.score_threshold
    return judged(
        passed,
        cut(f"does not hold: {'; '.join(map(str, failed))}", LONGEST_SAID) if failed else "every assertion holds",
        label="match" if passed else "mismatch",
        value=share,
        evidence=[outcome.kept() for outcome in failed],
        metadata={"assertions": {outcome.assertion.name: outcome.holds for outcome in outcomes}},
    )


def _outcome(assertion: Assertion, expression: Expression, values: Values) -> Outcome:
    """Raises `CannotScore` where it cannot be told, naming the assertion."""
    read: dict[str, JsonValue] = {}

    def noted(path: str) -> JsonValue:
        read[path] = value = values(path)
        return value

    try:
        return Outcome(assertion, condition(expression(noted)), read)
    except CannotScore as error:
        raise CannotScore(error.error_type, f"assertion {printable(assertion.name)}: {error.reason}") from error


def _values(config: StructuredAssertions, request: ScorerRequest) -> Values:
    """Each root is looked up once, and only when an assertion names it."""
    found: dict[str, JsonValue] = {}
    roots = {"output": config.output_of, "expected": config.expected_of, "input": config.input_of}

    def value(path: str) -> JsonValue:
        root, *steps = path.split(".")
        if root not in found:
            found[root] = _bounded(root, roots[root](request))
        return within(root, found[root], steps)

    return value


def _bounded(root: str, value: JsonValue) -> JsonValue:
    if len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")) > LARGEST:
        raise CannotScore("input_error", f"the {root} is larger than 1 MiB")
    return value


KINDS: tuple[AnyKind, ...] = (
    Kind("structured_assertions", "whether conditions on the values hold", StructuredAssertions, _check),
)
