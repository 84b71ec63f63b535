"""Numbers: how they are read, shown, rounded, and where they end."""

import math
import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal

_EXACT = Context(prec=2000)
_SPACES = " \t\n\r\f\v"
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_WHOLE = re.compile(r"[+-]?\d+", re.ASCII)
_LEAST, _MOST = -(2**63), 2**63 - 1
_WIDEST = 400
"""Digits after the point, or zeros before it, that rounding may ask for."""
TRUE = ("true", "yes", "on", "1")
FALSE = ("false", "no", "off", "0")


class OutOfRange(ValueError):
    """A number that its kind cannot hold."""


def finite(number: float) -> float:
    if not math.isfinite(number):
        raise OutOfRange("value out of range: overflow")
    return number


def whole(number: int) -> int:
    if not _LEAST <= number <= _MOST:
        raise OutOfRange("bigint out of range")
    return number


def text_bigint(text: str | None) -> int | None:
    if text is None:
        return None
    if not _WHOLE.fullmatch(text.strip(_SPACES)) or len(text) > 100:
        raise _invalid("bigint", text)
    return whole(int(text))


def text_double(text: str | None) -> float | None:
    if text is None:
        return None
    found = _NUMBER.fullmatch(text.strip(_SPACES))
    if not found:
        raise _invalid("double precision", text)
    number = float(text)
    if not math.isfinite(number) or (number == 0 and re.search("[1-9]", found[1])):
        raise OutOfRange(f'"{text}" is out of range for type double precision')
    return number


def json_number(text: str) -> float:
    """Of a number in JSON, which knows no zero below zero."""
    return finite(float(text)) + 0.0


def text_boolean(text: str | None) -> bool | None:
    if text is None:
        return None
    word = text.strip(_SPACES).lower()
    # Any beginning will do that is one word's only; `o` begins two.
    if word and word != "o":
        for answer, words in ((True, TRUE), (False, FALSE)):
            if any(one.startswith(word) for one in words):
                return answer
    raise _invalid("boolean", text)


def _invalid(kind: str, text: str) -> ValueError:
    return ValueError(f'invalid input syntax for type {kind}: "{text[:60]}"')


def double_text(number: float | None) -> str | None:
    """The shortest text that is this number."""
    if number is None:
        return None
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    if not isinstance(exponent, int):
        raise OutOfRange("value out of range: overflow")
    minus, shown, point = "-" if sign else "", "".join(map(str, digits)), len(digits) + exponent - 1
    if -4 <= point < 15:
        return minus + format(Decimal((0, digits, exponent)), "f")
    fraction = f".{shown[1:]}" if len(shown) > 1 else ""
    return f"{minus}{shown[0]}{fraction}e{'-' if point < 0 else '+'}{abs(point):02}"


def decimal_text(number: Decimal) -> str:
    """As `numeric` is shown: never with an exponent."""
    return format(number if number else abs(number), "f")


def rounded(number: float | None, digits: int | None) -> float | None:
    """Half away from zero, of the decimal that the number is shown as."""
    if number is None or digits is None:
        return None
    unit = Decimal(1).scaleb(-max(-_WIDEST, min(_WIDEST, digits)))
    return float(Decimal(repr(number)).quantize(unit, ROUND_HALF_UP, _EXACT))


def to_bigint(number: float | None) -> int | None:
    if number is None:
        return None
    return whole(int(Decimal(repr(number)).to_integral_value(ROUND_HALF_UP, _EXACT)))


def divisor(number: float | None) -> float | None:
    """What one divides by."""
    if number == 0:
        raise OutOfRange("division by zero")
    return number


def of_double(name: str, function: Callable[[float], float]) -> Callable[[float | None], float | None]:
    """A function that is an error outside its domain."""

    def call(number: float | None) -> float | None:
        if number is None:
            return None
        try:
            return finite(float(function(number)))
        except (ValueError, OverflowError) as error:
            raise OutOfRange(f"{name}: {error}") from None

    return call


def power(base: float | None, exponent: float | None) -> float | None:
    if base is None or exponent is None:
        return None
    try:
        result = math.pow(base, exponent)
    except (ValueError, OverflowError) as error:
        raise OutOfRange(f"power: {error}") from None
    if result == 0 and base != 0:
        raise OutOfRange("value out of range: underflow")
    return finite(result)


def trunc(number: float) -> float:
    return math.copysign(math.floor(abs(number)), number)


def exp(number: float) -> float:
    result = math.exp(number)
    if result == 0:
        raise OverflowError("value out of range: underflow")
    return result


def single(count: int, value: object) -> object:
    """Of a query in place of a value."""
    if count > 1:
        raise ValueError("more than one row returned by a subquery used as an expression")
    return value


def greatest(*values: object) -> object:
    return max((one for one in values if one is not None), default=None)  # type: ignore[type-var]


def least(*values: object) -> object:
    return min((one for one in values if one is not None), default=None)  # type: ignore[type-var]
