"""Which part of an item a scorer reads, by name: `output.answer`, `expected.items.0.id`, `metadata.gold`."""

import json
import math
from typing import Annotated, cast

from pydantic import AfterValidator, JsonValue

from evalscribe.errors import DataError
from evalscribe.json_data import clean_json, get_member
from evalscribe.judging.scorers.kind import Configured
from evalscribe.judging.scorers.result import CannotScore
from evalscribe.judging.scorers.values import kind
from evalscribe.model.score import ScorerRequest
from evalscribe.text import printable

ROOTS = ("output", "expected", "input", "metadata")
LONGEST = 500
WORDS = {"output": "output", "expected": "expected output", "input": "input", "metadata": "metadata"}


def _checked(selector: str) -> str:
    root, *steps = selector.split(".")
    if root not in ROOTS:
        raise ValueError(f"begins with none of {', '.join(ROOTS)}: write output.{selector} for a field of the output")
    if not all(steps) or len(selector) > LONGEST or not selector.isprintable():
        raise ValueError(f"is no name such as {root}.answer.items.0.id")
    return selector


Selector = Annotated[str, AfterValidator(_checked)]
"""What it begins with, then members of objects by name and of lists by number (from 0), separated by dots."""


def picked(request: ScorerRequest, selector: str) -> JsonValue:
    """What a selector names. Where fields are asked of text, it is read as the JSON that it should be.

    Raises `CannotScore` where there is no such place.
    """
    root, *steps = selector.split(".")
    value: JsonValue = getattr(request, root)
    if root == "expected" and value is None:
        raise CannotScore("input_error", "the item has no expected output to compare with")
    return within(WORDS[root], value, steps)


def within(whose: str, value: JsonValue, steps: list[str]) -> JsonValue:
    """Raises `CannotScore` where there is no such place."""
    if steps and isinstance(value, str):
        value = _read(whose, value)
    for at, step in enumerate(steps):
        try:
            value = get_member(value, step)
        except LookupError:
            raise CannotScore("input_error", _missing(whose, steps[:at], step, value)) from None
    return value


def parsed(text: str) -> JsonValue:
    """JSON by the letter: no NaN, no Infinity. Raises `ValueError`, also for numbers and nesting beyond all bounds."""
    try:
        value: JsonValue = json.loads(text, parse_constant=_refused, parse_float=_finite)
        return cast(JsonValue, clean_json(value)) if "\\u" in text else value
    except (RecursionError, DataError) as error:
        raise ValueError("it is nested too deeply") from error


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError("a number is beyond every float")
    return number


def _read(whose: str, text: str) -> JsonValue:
    try:
        return parsed(text)
    except ValueError as error:
        raise CannotScore(
            "input_error", f"the {whose} is text that is no JSON, so it has no fields: {error}"
        ) from error


def _missing(whose: str, passed: list[str], step: str, value: JsonValue) -> str:
    where = f"{'.'.join(passed)} of the {whose}" if passed else f"the {whose}"
    what = f"a list of {len(value)}" if isinstance(value, list) else kind(value)
    return printable(f"there is no {step} in {where}, which is {what}")


class ReadsOutput(Configured):
    output_field: Selector = "output"
    """What is looked at: `output`, or a part of it such as `output.answer`."""

    def output_of(self, request: ScorerRequest) -> JsonValue:
        """Raises `CannotScore` where it is not there."""
        return picked(request, self.output_field)


class ReadsExpected(Configured):
    expected_field: Selector = "expected"
    """What it is compared with: `expected`, a part of it such as `expected.answer`, or `metadata.gold`."""

    def expected_of(self, request: ScorerRequest) -> JsonValue:
        """Raises `CannotScore` where nothing is expected: null stands for nothing unless it is in a field."""
        return picked(request, self.expected_field)


class ReadsInput(Configured):
    input_field: Selector = "input"
    """What it sees of the input: `input`, or a part of it."""

    def input_of(self, request: ScorerRequest) -> JsonValue:
        """Raises `CannotScore` where it is not there."""
        return picked(request, self.input_field)
