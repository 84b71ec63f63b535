"""The output as JSON: json_valid, numeric_range."""

import json
import math
import re

from pydantic import JsonValue, model_validator

from evalscribe.judging.scorers.fields import ReadsOutput, parsed
from evalscribe.judging.scorers.kind import AnyKind, Kind, pure
from evalscribe.judging.scorers.result import judged
from evalscribe.judging.scorers.values import kept, told
from evalscribe.model.score import ScoreResult, ScorerRequest
from evalscribe.text import printable

_NUMBER = re.compile(r"\s*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)
LONGEST_NUMBER = 400
AROUND = 40
"""Characters of broken JSON that are shown to either side of where it breaks."""


class JsonValid(ReadsOutput):
    """Nothing but the field."""


class NumericRange(ReadsOutput):
    min: float | None = None
    """The least that passes."""
    max: float | None = None
    """The most that passes."""
    inclusive: bool = True
    """Whether the bounds themselves pass."""

    @model_validator(mode="after")
    def _leaves_numbers(self) -> "NumericRange":
        if self.min is None and self.max is None:
            raise ValueError("needs min, max or both")
        if self.min is not None and self.max is not None and not self._between(self.min, self.max):
            raise ValueError(f"no number is between min {self.min:g} and max {self.max:g}")
        return self

    def _between(self, low: float, high: float) -> bool:
        return low < high or (low == high and self.inclusive)

    def holds(self, number: float) -> bool:
        low, high = -math.inf if self.min is None else self.min, math.inf if self.max is None else self.max
        return low <= number <= high if self.inclusive else low < number < high

    def __str__(self) -> str:
        least, most = ("at least", "at most") if self.inclusive else ("above", "below")
        bounds = ((least, self.min), (most, self.max))
        return " and ".join(f"{word} {bound:.15g}" for word, bound in bounds if bound is not None)


def json_valid(config: JsonValid, request: ScorerRequest) -> ScoreResult:
    output = config.output_of(request)
    if output is None:
        return judged(False, "there is no output", label="invalid")
    if not isinstance(output, str):
        return judged(True, "the output is a JSON value", label="valid")
    try:
        parsed(output)
    except ValueError as error:
        return no_json(output, error, label="invalid")
    return judged(True, "the output is JSON", label="valid")


def no_json(text: str, error: ValueError, *, label: str) -> ScoreResult:
    """With the place where it stops being JSON, where the reader names one."""
    said = f"the output is no JSON: {printable(str(error))}; it is {told(text)}"
    evidence: JsonValue = {"output": kept(text)}
    if isinstance(error, json.JSONDecodeError):
        near = text[max(0, error.pos - AROUND) : error.pos + AROUND]
        evidence = {"line": error.lineno, "column": error.colno, "at": error.pos, "near": near}
    return judged(False, said, label=label, evidence=evidence)


def numeric_range(config: NumericRange, request: ScorerRequest) -> ScoreResult:
    output = config.output_of(request)
    number = _number(output)
    if number is None:
        return judged(
            False, f"the output is no number: {told(output)}", label="parse_error", evidence={"output": kept(output)}
        )
    holds = config.holds(number)
    said = f"{told(output)} is {'' if holds else 'not '}{config}"
    return judged(holds, said, label="in_range" if holds else "out_of_range", evidence={"output": number})


def _number(value: JsonValue) -> float | None:
    """Also one that is written in digits; None for true, NaN and whatever is no number."""
    if isinstance(value, str) and len(value) <= LONGEST_NUMBER and _NUMBER.fullmatch(value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if isinstance(value, int) or math.isfinite(value) else None


KINDS: tuple[AnyKind, ...] = (
    Kind("json_valid", "whether the output is JSON", JsonValid, pure(json_valid)),
    Kind("numeric_range", "whether the output is a number within bounds", NumericRange, pure(numeric_range)),
)
