"""Validate JSON Schema 2020-12 with format checks and a time limit for patterns."""

import re
import warnings
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

import regex
from fqdn import FQDN
from jsonschema import Draft202012Validator, FormatChecker, ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import extend
from rfc3339_validator import validate_rfc3339
from rfc3986_validator import validate_rfc3986

MAX_SECONDS = 2.0
"""Maximum CPU time of one pattern search, in seconds. The library `regex` measures the CPU time of the whole process.
"""


@lru_cache(maxsize=256)
def compiled(pattern: str) -> regex.Pattern[str]:
    """Compile a pattern. Raises `ValueError` if it is not a regular expression."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            re.compile(pattern)
            return regex.compile(pattern)
        except (re.error, regex.error, RecursionError, OverflowError) as error:
            raise ValueError(f"is not a regular expression: {error}") from error


@lru_cache(maxsize=256)
def pattern_matches(pattern: str, text: str) -> bool | None:
    """Return whether `text` contains a match of `pattern`. Return None if the search takes longer than `MAX_SECONDS`.

    Results are cached, because one answer is checked several times.
    """
    try:
        return bool(compiled(pattern).search(text, timeout=MAX_SECONDS))
    except TimeoutError:
        return None


def make_validator(schema: dict[str, Any]) -> Validator:
    """Return a validator for the schema. The validator's `iter_errors` yields the errors in an answer."""
    validator: Validator = _Validator(schema, format_checker=_FORMATS)
    return validator


def _multiple_of(_: Validator, step: float, value: object, __: object) -> Iterator[ValidationError]:
    """Check `multipleOf` in decimal arithmetic. In binary floating point, 0.3 would not be a multiple of 0.1."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    if Fraction(repr(value)) % Fraction(repr(step)):
        yield ValidationError(f"{value} is not a multiple of {step}")


def _pattern(_: Validator, pattern: str, value: object, __: object) -> Iterator[ValidationError]:
    if isinstance(value, str) and not pattern_matches(pattern, value):
        yield ValidationError(f"the text does not match {pattern}, or the search took too long")


_FROM_JSONSCHEMA = ("date", "ipv4", "ipv6", "uuid")
# jsonschema checks the formats below only if certain other packages are installed. We call these packages directly
# instead of installing jsonschema's extra `format-nongpl`. The extra also contains rfc3987-syntax, whose import takes
# 2.7 s of CPU time.
_CHECKS: dict[str, Callable[[str], object]] = {
    "date-time": validate_rfc3339,
    # The package rfc3339_validator only checks a date and a time together.
    "time": lambda text: validate_rfc3339(f"1970-01-01T{text}"),
    # jsonschema's own check of this format only looks for an "@".
    "email": re.compile(r"[^@\s]+@[^@\s]+").fullmatch,
    "hostname": lambda text: FQDN(text, min_labels=1).is_valid,
    "uri": lambda text: validate_rfc3986(text, rule="URI"),
}


def _formats() -> FormatChecker:
    checker = FormatChecker(formats=_FROM_JSONSCHEMA)
    for name, holds in _CHECKS.items():
        checker.checks(name, raises=ValueError)(partial(_holds, holds))
    return checker


def _holds(holds: Callable[[str], object], value: object) -> bool:
    return not isinstance(value, str) or bool(holds(value))


_FORMATS = _formats()
_Validator = extend(Draft202012Validator, {"multipleOf": _multiple_of, "pattern": _pattern})  # type: ignore[no-untyped-call]
