"""The validator of answers: JSON Schema 2020-12 with formats checked, and decimals that divide as people divide."""

import ipaddress
import re
from collections.abc import Callable, Iterator
from datetime import date
from fractions import Fraction
from functools import partial
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from jsonschema import Draft202012Validator, FormatChecker, ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import extend

from evalscribe.output_schema.matching import matches

_CLOCK = r"([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)"
_LABEL = r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)"
_TIME = re.compile(_CLOCK, re.ASCII | re.IGNORECASE)
_DATE_TIME = re.compile(rf"(\d{{4}}-\d\d-\d\d)[Tt ]{_CLOCK}", re.ASCII | re.IGNORECASE)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_HOSTNAME = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(\.{_LABEL})*")
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_NOT_IN_URI = re.compile(r'[\s<>"{}|\\^`]')


def validator(schema: dict[str, Any]) -> Validator:
    """`iter_errors` of it gives what is wrong with an answer."""
    made: Validator = _Validator(schema, format_checker=_FORMATS)
    return made


def _multiple_of(_: Validator, step: float, value: object, __: object) -> Iterator[ValidationError]:
    """0.3 is a multiple of 0.1, although their doubles are not."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    if Fraction(repr(value)) % Fraction(repr(step)):
        yield ValidationError(f"{value} is no multiple of {step}")


def _pattern(_: Validator, pattern: str, value: object, __: object) -> Iterator[ValidationError]:
    if isinstance(value, str) and not matches(pattern, value):
        yield ValidationError(f"the text does not match {pattern}, or nobody can tell")


def _date_time(text: str) -> bool:
    match = _DATE_TIME.fullmatch(text)
    return bool(match and date.fromisoformat(match[1]))


def _date(text: str) -> bool:
    return bool(_DATE.fullmatch(text) and date.fromisoformat(text))


def _uri(text: str) -> bool:
    parts = urlsplit(text)
    return bool(_SCHEME.match(text) and (parts.netloc or parts.path) and not _NOT_IN_URI.search(text))


def _uuid(text: str) -> bool:
    return [len(part) for part in text.split("-")] == [8, 4, 4, 4, 12] and bool(UUID(text).hex)


_CHECKS: dict[str, Callable[[str], object]] = {
    "date-time": _date_time,
    "date": _date,
    "time": _TIME.fullmatch,
    "email": _EMAIL.fullmatch,
    "hostname": _HOSTNAME.fullmatch,
    "ipv4": ipaddress.IPv4Address,
    "ipv6": lambda text: "%" not in text and ipaddress.IPv6Address(text),
    "uri": _uri,
    "uuid": _uuid,
}


def _formats() -> FormatChecker:
    """Only our own: the library checks some formats only where further packages are installed."""
    checker = FormatChecker(formats=())
    for name, holds in _CHECKS.items():
        checker.checks(name, raises=ValueError)(partial(_holds, holds))
    return checker


def _holds(holds: Callable[[str], object], value: object) -> bool:
    return not isinstance(value, str) or bool(holds(value))


_FORMATS = _formats()
_Validator = extend(Draft202012Validator, {"multipleOf": _multiple_of, "pattern": _pattern})  # type: ignore[no-untyped-call]
