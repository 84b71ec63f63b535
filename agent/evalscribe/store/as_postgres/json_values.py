"""JSON as `jsonb` has it: numbers are decimals, keys have an order of their own, equal is what means the same."""

import json
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import lru_cache
from typing import Any

from evalscribe.store.as_postgres.numbers import OutOfRange, decimal_text, double_text

_EXACT = Context(prec=2000)
LARGEST = 2**63
DEEPEST_EXPONENT = 5000


def _decimal(text: str) -> Decimal:
    number = Decimal(text)
    if number and not -DEEPEST_EXPONENT < number.adjusted() < DEEPEST_EXPONENT:
        raise OutOfRange("a number in JSON is out of range")
    return number


def _refuse(text: str) -> None:
    raise ValueError(f'invalid input syntax for type json: "{text}"')


@lru_cache(maxsize=32)
def read(text: str) -> Any:
    """Raises `ValueError`. Callers change nothing in it."""
    try:
        return json.loads(text, parse_float=_decimal, parse_constant=_refuse)
    except (json.JSONDecodeError, RecursionError):
        raise ValueError(f'invalid input syntax for type json: "{text[:60]}"') from None


def written(value: Any) -> str:
    """As `jsonb` is shown."""
    if isinstance(value, dict):
        pairs = sorted(value.items(), key=_rank)
        return "{" + ", ".join(f"{_quoted(key)}: {written(one)}" for key, one in pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(written, value)) + "]"
    if isinstance(value, Decimal):
        return decimal_text(value)
    return _quoted(value) if isinstance(value, str) else json.dumps(value)


def _rank(pair: tuple[str, Any]) -> tuple[int, bytes]:
    key = pair[0].encode("utf-8", "surrogatepass")
    return len(key), key


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def text(value: str | None) -> str | None:
    """`jsonb::text`"""
    return None if value is None else written(read(value))


def scalar(value: str | None) -> str | None:
    """What `->>` makes of a value."""
    return None if value is None else _scalar(read(value))


def _scalar(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return written(value)


def key(value: str | None) -> str | None:
    """The same for values that mean the same."""
    return None if value is None else written(_plain(read(value)))


def _plain(value: Any) -> Any:
    """Numbers without trailing zeros."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, Decimal):
        whole = value.to_integral_value(context=_EXACT)
        return int(whole) if whole == value else value.normalize(_EXACT)
    return value


def get(value: str | None, name: str | None) -> str | None:
    """`-> key`"""
    if value is None or name is None:
        return None
    found = read(value)
    return written(found[name]) if isinstance(found, dict) and name in found else None


def at(value: str | None, index: int | None) -> str | None:
    """`-> index`"""
    if value is None or index is None:
        return None
    found = read(value)
    inside = isinstance(found, list) and -len(found) <= index < len(found)
    return written(found[index]) if inside else None


def path(value: str | None, *steps: str) -> str | None:
    """`#>`: a step is a key, or in an array an index."""
    if value is None:
        return None
    found = read(value)
    for step in steps:
        if isinstance(found, dict) and step in found:
            found = found[step]
        elif isinstance(found, list) and _index(step, found) is not None:
            found = found[int(step)]
        else:
            return None
    return written(found)


def _index(step: str, among: list[Any]) -> int | None:
    digits = step.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 10):
        return None
    return int(step) if -len(among) <= int(step) < len(among) else None


def has(value: str | None, name: str | None) -> bool | None:
    """`?`"""
    return None if value is None or name is None else _has(read(value), name)


def _has(found: Any, name: str) -> bool:
    if isinstance(found, dict | list):
        return any(isinstance(one, str) and one == name for one in found)
    return isinstance(found, str) and found == name


def has_any(value: str | None, *names: str) -> bool | None:
    """`?|`"""
    return None if value is None else any(_has(read(value), name) for name in names)


def has_all(value: str | None, *names: str) -> bool | None:
    """`?&`"""
    return None if value is None else all(_has(read(value), name) for name in names)


def contains(outer: str | None, inner: str | None) -> bool | None:
    """`@>`"""
    if outer is None or inner is None:
        return None
    left, right = _plain(read(outer)), _plain(read(inner))
    if isinstance(left, list) and not isinstance(right, list | dict):
        right = [right]
    return _contains(left, right)


def _contains(left: Any, right: Any) -> bool:
    if isinstance(right, dict):
        return isinstance(left, dict) and all(
            name in left and _contains(left[name], one) for name, one in right.items()
        )
    if isinstance(right, list):
        return isinstance(left, list) and all(any(_contains(one, other) for one in left) for other in right)
    return type(left) is type(right) and bool(left == right)


def typeof(value: str | None) -> str | None:
    return None if value is None else _typeof(read(value))


def _typeof(found: Any) -> str:
    if found is None:
        return "null"
    kinds = ((bool, "boolean"), (str, "string"), (dict, "object"), (list, "array"))
    return next((name for kind, name in kinds if isinstance(found, kind)), "number")


def length(value: str | None) -> int | None:
    if value is None:
        return None
    found = read(value)
    if not isinstance(found, list):
        raise ValueError("cannot get array length of what is no array")
    return len(found)


def array(value: str | None) -> str | None:
    """Itself, where it has elements."""
    return _only(value, list, "cannot extract elements from what is no array")


def object_(value: str | None) -> str | None:
    """Itself, where it has keys."""
    return _only(value, dict, "cannot deconstruct what is no object")


def _only(value: str | None, kind: type, otherwise: str) -> str | None:
    if value is not None and not isinstance(read(value), kind):
        raise ValueError(otherwise)
    return value


def build_object(*parts: str | None) -> str:
    """Names and JSON in turn."""
    if None in parts[::2]:
        raise ValueError("a name in jsonb_build_object must not be null")
    values = [read(one or "null") for one in parts[1::2]]
    return written(dict(zip(parts[::2], values, strict=True)))


def build_array(*parts: str | None) -> str:
    return written([read(one or "null") for one in parts])


def each(kind: str | None, value: Any, document: str, place: str | int) -> str | None:
    """The JSON of one row of SQLite's `json_each`; of none where it was joined to nothing."""
    if kind is None:
        return None
    if kind == "text":
        return _quoted(value)
    if kind in ("null", "true", "false"):
        return kind
    if kind in ("object", "array"):
        return written(read(value))
    return str(value) if isinstance(value, int) else written(read(document)[place])


def each_text(kind: str | None, value: Any, document: str, place: str | int) -> str | None:
    return scalar(each(kind, value, document, place))


def to_double(value: str | None) -> float | None:
    found = _cast(value, "double precision")
    if found is None:
        return None
    number = float(found)
    if number in (float("inf"), float("-inf")):
        raise OutOfRange("a number in JSON is out of range")
    return number + 0.0


def to_bigint(value: str | None) -> int | None:
    found = _cast(value, "bigint")
    if found is None:
        return None
    number = int(Decimal(found).to_integral_value(ROUND_HALF_UP, _EXACT))
    if not -LARGEST <= number < LARGEST:
        raise OutOfRange("bigint out of range")
    return number


def to_boolean(value: str | None) -> bool | None:
    found = None if value is None else read(value)
    if found is not None and not isinstance(found, bool):
        raise ValueError(f"cannot cast jsonb {_typeof(found)} to type boolean")
    return found


def _cast(value: str | None, kind: str) -> Any:
    found = None if value is None else read(value)
    if found is not None and _typeof(found) != "number":
        raise ValueError(f"cannot cast jsonb {_typeof(found)} to type {kind}")
    return found


def of(value: Any, kind: str) -> str | None:
    """`to_jsonb`"""
    if value is None:
        return None
    if kind == "boolean":
        return "true" if value else "false"
    if kind == "double precision":
        return decimal_text(Decimal(double_text(value) or 0))
    if kind == "jsonb":
        return written(read(value))
    return str(value) if kind == "bigint" else _quoted(value.replace(" ", "T") if kind == "timestamp" else value)
