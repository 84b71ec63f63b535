"""The scorer: the share of its assertions that hold."""

import json
from typing import Annotated

from pydantic import AfterValidator, Field, JsonValue, field_validator

from evalscribe.judging.scorers.assertions.parse import parse
from evalscribe.judging.scorers.assertions.values import Expression, Values, condition
from evalscribe.judging.scorers.fields import ReadsExpected, ReadsInput, ReadsOutput, within
from evalscribe.judging.scorers.kind import AnyKind, Check, Configured, Kind, Plain
from evalscribe.judging.scorers.result import CannotScore, judged
from evalscribe.prose import printable
from evalscribe.score import ScoreResult, ScorerRequest

MOST = 64
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
    parsed = {assertion.name: parse(assertion.expr) for assertion in config.assertions}
    return Plain(lambda request: _judged(config, parsed, request))


def _judged(config: StructuredAssertions, parsed: dict[str, Expression], request: ScorerRequest) -> ScoreResult:
    values = _values(config, request)
    holds = {name: _holds(name, expression, values) for name, expression in parsed.items()}
    failed = [f"{printable(one.name)}: {one.expr}" for one in config.assertions if not holds[one.name]]
    share = sum(holds.values()) / len(holds)
    passed = share >= config.score_threshold
    said = f"does not hold: {printable('; '.join(failed))[:500]}" if failed else "every assertion holds"
    label = "match" if passed else "mismatch"
    return judged(passed, said, label=label, value=share, evidence={**holds})


def _holds(name: str, expression: Expression, values: Values) -> bool:
    """Raises `CannotScore` where it cannot be told, naming the assertion."""
    try:
        return condition(expression(values))
    except CannotScore as error:
        raise CannotScore(error.error_type, f"assertion {printable(name)}: {error.reason}") from error


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
