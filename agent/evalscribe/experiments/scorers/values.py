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
"""Placeholder for the missing value if only one side of a comparison has a value."""
LARGEST_EVIDENCE = 500
"""Maximum number of characters of a value's JSON in evidence. Longer JSON is cut."""
DEEPEST_EVIDENCE = 64
"""Maximum number of lists and objects in a value that is stored as evidence. A value with more of them is stored as
text."""
CONTEXT_CHARACTERS = 24
"""Number of characters that are shown before the first difference of two long texts."""
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
    """A difference between two values."""

    path: str
    expected: object
    """`NOTHING` if no value was expected at this path."""
    output: object
    """`NOTHING` if the output has no value at this path."""

    def __str__(self) -> str:
        if self.output is NOTHING:
            return f"{printable(self.path)} is missing, expected {render_value(self.expected)}"
        if self.expected is NOTHING:
            return f"{printable(self.path)} is unexpected: {render_value(self.output)}"
        return f"{printable(self.path)} is {_comparison_text(self.output, self.expected)}"


def equal_values(output: object, expected: object, *, ignore_case: bool = False, subset: bool = False) -> bool:
    """Compare two values as JSON. The number 1 equals 1.0, but not "1" or true.

    With `ignore_case`, upper and lower case are equal. With `subset`, objects of the output can have additional
    members.
    """
    return next(differences(output, expected, ignore_case=ignore_case, subset=subset), None) is None


def differences(
    output: object, expected: object, path: str = "output", *, ignore_case: bool = False, subset: bool = False
) -> Iterator[ValueDifference]:
    """Yield the differences between two values, in the order of the expected value.

    Unexpected members of an object come last.

    Raises `RecursionError` if a value is nested too deeply.
    """
    if isinstance(output, dict) and isinstance(expected, dict):
        for name in (*expected, *(() if subset else (name for name in output if name not in expected))):
            yield from _member_differences(
                output.get(name, NOTHING), expected.get(name, NOTHING), join_path(path, name), ignore_case, subset
            )
    elif isinstance(output, list) and isinstance(expected, list):
        for index in range(max(len(output), len(expected))):
            yield from _member_differences(
                _member(output, index), _member(expected, index), join_path(path, index), ignore_case, subset
            )
    elif not _equal(output, expected, ignore_case):
        yield ValueDifference(path, expected, output)


def _member_differences(
    output: object, expected: object, path: str, ignore_case: bool, subset: bool
) -> Iterator[ValueDifference]:
    if output is NOTHING or expected is NOTHING:
        yield ValueDifference(path, expected, output)
    else:
        yield from differences(output, expected, path, ignore_case=ignore_case, subset=subset)


def count_leaves(value: object) -> int:
    """Count the plain values inside a JSON value. An empty list or object counts as one."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return sum(map(count_leaves, parts)) or 1


def type_name(value: object) -> str:
    return _KINDS.get(type(value), "nothing")


def render_value(value: object) -> str:
    """Render a value on one line of limited length, without unsafe characters."""
    return printable(preview(value[:LARGEST_EVIDENCE] if isinstance(value, str) else value))


def text_of(value: JsonValue) -> str | None:
    """Return text unchanged, null as None, and any other value as compact JSON.

    Stored scores depend on this format, because edit distances and patterns are applied to the returned text.
    """
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def as_evidence(value: object) -> JsonValue:
    """Prepare a value for evidence.

    Large values are cut. A value that is not JSON, or has too many lists and objects, is converted to text.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:
        return render_value(value)
    if len(text) > LARGEST_EVIDENCE:
        return f"{text[:LARGEST_EVIDENCE]}…"
    # The depth is at most the number of brackets, so the value need not be traversed.
    return text if text.count("[") + text.count("{") > DEEPEST_EVIDENCE else cast(JsonValue, value)


def difference_evidence(difference: ValueDifference) -> JsonValue:
    """Return a difference as evidence. A side that has no value is left out."""
    sides = {"expected": difference.expected, "output": difference.output}
    return {
        "path": difference.path,
        **{side: as_evidence(value) for side, value in sides.items() if value is not NOTHING},
    }


def _equal(output: object, expected: object, ignore_case: bool) -> bool:
    if isinstance(output, str) and isinstance(expected, str):
        return output == expected or (ignore_case and output.casefold() == expected.casefold())
    # In Python, True equals 1.
    return output == expected and isinstance(output, bool) == isinstance(expected, bool)


def _member(values: list[object], index: int) -> object:
    return values[index] if index < len(values) else NOTHING


def _comparison_text(output: object, expected: object) -> str:
    if isinstance(output, str) and isinstance(expected, str):
        return _text_comparison(output, expected)
    if type_name(output) == type_name(expected):
        return f"{render_value(output)} instead of {render_value(expected)}"
    return f"{render_value(output)} ({type_name(output)}) instead of {render_value(expected)} ({type_name(expected)})"


def _text_comparison(output: str, expected: str) -> str:
    """Render two different texts.

    If the first difference comes late in the texts, the rendered texts start shortly before that difference.
    """
    index = next(
        (
            index
            for index, characters in enumerate(zip(output, expected, strict=False))
            if characters[0] != characters[1]
        ),
        None,
    )
    index = min(len(output), len(expected)) if index is None else index
    start = max(0, index - CONTEXT_CHARACTERS) if index > CONTEXT_CHARACTERS * 2 else 0
    if not start:
        return f"{render_value(output)} instead of {render_value(expected)}"
    sides = f"…{render_value(output[start:])} instead of …{render_value(expected[start:])}"
    return f"{sides} from character {index + 1:,} on"


ROOTS = ("output", "expected", "input", "metadata")
LONGEST = 500
ROOT_NAMES = {"output": "output", "expected": "expected output", "input": "input", "metadata": "metadata"}


def _validate_selector(selector: str) -> str:
    root, *steps = selector.split(".")
    if root not in ROOTS:
        raise ValueError(
            f"must begin with one of {', '.join(ROOTS)}: write output.{selector} for a field of the output"
        )
    if not all(steps) or len(selector) > LONGEST or not selector.isprintable():
        raise ValueError(f"is not a dotted path such as {root}.answer.items.0.id")
    return selector


Selector = Annotated[str, AfterValidator(_validate_selector)]
"""Path of a value: a root, then keys and list positions (from 0), separated by dots, such as `output.items.0.id`."""


def select_value(request: ScorerRequest, selector: str) -> JsonValue:
    """Return the value that a selector names. Raises `CannotScore` if the value does not exist.

    If the selector names a part of a text, the text is parsed as JSON.
    """
    root, *steps = selector.split(".")
    value: JsonValue = getattr(request, root)
    if root == "expected" and value is None:
        raise CannotScore("input_error", "the item has no expected output to compare with")
    return select_member(ROOT_NAMES[root], value, steps)


def select_member(source: str, value: JsonValue, steps: list[str]) -> JsonValue:
    """Follow a path to a member of a value. Raises `CannotScore` if the member does not exist."""
    if steps and isinstance(value, str):
        value = _parse_text(source, value)
    for depth, step in enumerate(steps):
        try:
            value = get_member(value, step)
        except LookupError:
            raise CannotScore("input_error", _missing_message(source, steps[:depth], step, value)) from None
    return value


def parse_json(text: str) -> JsonValue:
    """Parse strict JSON, without NaN and Infinity.

    Raises `ValueError` if the text is not JSON, a number is too large, or the nesting is too deep.
    """
    try:
        value: JsonValue = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite_float)
        # Only an escape can produce a character that cannot be stored, such as half of a surrogate pair.
        return cast(JsonValue, clean_json(value)) if "\\u" in text else value
    except (RecursionError, DataError) as error:
        raise ValueError("it is nested too deeply") from error


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _finite_float(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError("a number is too large for a float")
    return number


def _parse_text(source: str, text: str) -> JsonValue:
    try:
        return parse_json(text)
    except ValueError as error:
        raise CannotScore(
            "input_error", f"the {source} is text that is not JSON, so it has no fields: {error}"
        ) from error


def _missing_message(source: str, parents: list[str], step: str, value: JsonValue) -> str:
    container = f"{'.'.join(parents)} of the {source}" if parents else f"the {source}"
    description = f"a list of {len(value)}" if isinstance(value, list) else type_name(value)
    return printable(f"{container} has no {step}; it is {description}")


class ReadsOutput(ScorerConfig):
    output_field: Selector = "output"
    """The value that is scored: `output`, or a part of it such as `output.answer`."""

    def output_of(self, request: ScorerRequest) -> JsonValue:
        """Return the value that is scored. Raises `CannotScore` if the value is missing."""
        return select_value(request, self.output_field)


class ReadsExpected(ScorerConfig):
    expected_field: Selector = "expected"
    """The reference: `expected`, a part of it such as `expected.answer`, or a value such as `metadata.gold`."""

    def expected_of(self, request: ScorerRequest) -> JsonValue:
        """Return the reference. Raises `CannotScore` if there is no reference.

        If the item's expected output is null, there is no reference. A null inside the expected output is a value.
        """
        return select_value(request, self.expected_field)


class ReadsInput(ScorerConfig):
    input_field: Selector = "input"
    """The input: `input`, or a part of it."""

    def input_of(self, request: ScorerRequest) -> JsonValue:
        """Return the input. Raises `CannotScore` if the input is missing."""
        return select_value(request, self.input_field)
