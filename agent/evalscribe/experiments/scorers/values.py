"""Select parts of an item, and compare JSON values by type and content."""

import json
import math
from collections.abc import Iterator
from typing import Annotated, NamedTuple, cast

from pydantic import AfterValidator, JsonValue

from evalscribe.errors import DataError
from evalscribe.experiments.scorers.definition import CannotScore, ScorerConfig
from evalscribe.json_data import clean_json, get_member, join_path, preview
from evalscribe.model.score import ScorerRequest
from evalscribe.text import printable

NOTHING = object()
"""The value of a place that one side does not have."""
LARGEST_EVIDENCE = 500
"""Characters of a value's JSON that are kept whole in evidence; of a larger one the beginning is."""
DEEPEST_EVIDENCE = 64
"""Levels of nesting that are kept as they are."""
AROUND = 24
"""Characters that are shown before the first one that differs."""
_KINDS: dict[type, str] = {
    str: "text",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    list: "a list",
    dict: "an object",
    type(None): "null",
}


class ValueDifference(NamedTuple):
    """Where two values differ."""

    path: str
    expected: object
    """`NOTHING` for what was not expected."""
    output: object
    """`NOTHING` for what is missing."""

    def __str__(self) -> str:
        if self.output is NOTHING:
            return f"{printable(self.path)} is missing, {render_value(self.expected)} is expected"
        if self.expected is NOTHING:
            return f"{printable(self.path)} is not expected, it is {render_value(self.output)}"
        return f"{printable(self.path)} is {_beside(self.output, self.expected)}"


def equal_values(output: object, expected: object, *, fold: bool = False, subset: bool = False) -> bool:
    """Equal as JSON: 1 is 1.0 but neither "1" nor true. `fold`: upper and lower case are one; `subset`: objects of the
    output may have more members."""
    return next(differences(output, expected, fold=fold, subset=subset), None) is None


def differences(
    output: object, expected: object, path: str = "output", *, fold: bool = False, subset: bool = False
) -> Iterator[ValueDifference]:
    """In the order of what is expected, what is not expected after it. Raises `RecursionError` for what is too deep."""
    if isinstance(output, dict) and isinstance(expected, dict):
        for name in (*expected, *(() if subset else (name for name in output if name not in expected))):
            yield from _at(output.get(name, NOTHING), expected.get(name, NOTHING), join_path(path, name), fold, subset)
    elif isinstance(output, list) and isinstance(expected, list):
        for at in range(max(len(output), len(expected))):
            yield from _at(_member(output, at), _member(expected, at), join_path(path, at), fold, subset)
    elif not _equal(output, expected, fold):
        yield ValueDifference(path, expected, output)


def _at(output: object, expected: object, path: str, fold: bool, subset: bool) -> Iterator[ValueDifference]:
    if output is NOTHING or expected is NOTHING:
        yield ValueDifference(path, expected, output)
    else:
        yield from differences(output, expected, path, fold=fold, subset=subset)


def leaves(value: object) -> int:
    """How many places a value has that hold no others; an empty list or object is one."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return sum(map(leaves, parts)) or 1


def type_name(value: object) -> str:
    return _KINDS.get(type(value), "nothing")


def render_value(value: object) -> str:
    """In one safe line of bounded length."""
    return printable(preview(value[:LARGEST_EVIDENCE] if isinstance(value, str) else value))


def text_of(value: JsonValue) -> str | None:
    """Text as it is, any other value as compact JSON; None for null, which is no output.

    Scores that are stored rest on this spelling: edits are counted in it and expressions are looked for.
    """
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def as_evidence(value: object) -> JsonValue:
    """For evidence: a large value is cut, one that is no JSON or too deep is text."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:
        return render_value(value)
    if len(text) > LARGEST_EVIDENCE:
        return f"{text[:LARGEST_EVIDENCE]}…"
    return text if text.count("[") + text.count("{") > DEEPEST_EVIDENCE else cast(JsonValue, value)


def difference_evidence(place: ValueDifference) -> JsonValue:
    """A place as evidence; a side that has nothing there is left out."""
    sides = {"expected": place.expected, "output": place.output}
    return {"path": place.path, **{side: as_evidence(value) for side, value in sides.items() if value is not NOTHING}}


def _equal(output: object, expected: object, fold: bool) -> bool:
    if isinstance(output, str) and isinstance(expected, str):
        return output == expected or (fold and output.casefold() == expected.casefold())
    return output == expected and isinstance(output, bool) == isinstance(expected, bool)


def _member(values: list[object], at: int) -> object:
    return values[at] if at < len(values) else NOTHING


def _beside(output: object, expected: object) -> str:
    if isinstance(output, str) and isinstance(expected, str):
        return _texts(output, expected)
    if type_name(output) == type_name(expected):
        return f"{render_value(output)} instead of {render_value(expected)}"
    return f"{render_value(output)} ({type_name(output)}) instead of {render_value(expected)} ({type_name(expected)})"


def _texts(output: str, expected: str) -> str:
    """Two texts that differ, each from a little before the first character that does."""
    at = next((at for at, both in enumerate(zip(output, expected, strict=False)) if both[0] != both[1]), None)
    at = min(len(output), len(expected)) if at is None else at
    start = max(0, at - AROUND) if at > AROUND * 2 else 0
    if not start:
        return f"{render_value(output)} instead of {render_value(expected)}"
    return f"…{render_value(output[start:])} instead of …{render_value(expected[start:])} from character {at + 1:,} on"


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


def select_value(request: ScorerRequest, selector: str) -> JsonValue:
    """What a selector names. Where fields are asked of text, it is read as the JSON that it should be.

    Raises `CannotScore` where there is no such place.
    """
    root, *steps = selector.split(".")
    value: JsonValue = getattr(request, root)
    if root == "expected" and value is None:
        raise CannotScore("input_error", "the item has no expected output to compare with")
    return select_member(WORDS[root], value, steps)


def select_member(whose: str, value: JsonValue, steps: list[str]) -> JsonValue:
    """Raises `CannotScore` where there is no such place."""
    if steps and isinstance(value, str):
        value = _read(whose, value)
    for at, step in enumerate(steps):
        try:
            value = get_member(value, step)
        except LookupError:
            raise CannotScore("input_error", _missing(whose, steps[:at], step, value)) from None
    return value


def parse_json(text: str) -> JsonValue:
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
        return parse_json(text)
    except ValueError as error:
        raise CannotScore(
            "input_error", f"the {whose} is text that is no JSON, so it has no fields: {error}"
        ) from error


def _missing(whose: str, passed: list[str], step: str, value: JsonValue) -> str:
    where = f"{'.'.join(passed)} of the {whose}" if passed else f"the {whose}"
    what = f"a list of {len(value)}" if isinstance(value, list) else type_name(value)
    return printable(f"there is no {step} in {where}, which is {what}")


class ReadsOutput(ScorerConfig):
    output_field: Selector = "output"
    """What is looked at: `output`, or a part of it such as `output.answer`."""

    def output_of(self, request: ScorerRequest) -> JsonValue:
        """Raises `CannotScore` where it is not there."""
        return select_value(request, self.output_field)


class ReadsExpected(ScorerConfig):
    expected_field: Selector = "expected"
    """What it is compared with: `expected`, a part of it such as `expected.answer`, or `metadata.gold`."""

    def expected_of(self, request: ScorerRequest) -> JsonValue:
        """Raises `CannotScore` where nothing is expected: null stands for nothing unless it is in a field."""
        return select_value(request, self.expected_field)


class ReadsInput(ScorerConfig):
    input_field: Selector = "input"
    """What it sees of the input: `input`, or a part of it."""

    def input_of(self, request: ScorerRequest) -> JsonValue:
        """Raises `CannotScore` where it is not there."""
        return select_value(request, self.input_field)
