"""Reading fields out of JSON that somebody else wrote, with errors that name the field."""

import json
from collections.abc import Mapping

from evalscribe.errors import DataError

Members = Mapping[str, object]


def parse(raw: bytes) -> object:
    """JSON from bytes that may be no valid UTF-8. Raises `DataError` without quoting the input."""
    try:
        return json.loads(raw.decode("utf-8-sig", "replace"))
    except RecursionError:
        raise DataError("JSON nested too deeply") from None
    except ValueError as error:
        raise DataError(f"no valid JSON: {error}") from None


def members(value: object, what: str) -> Members:
    if not isinstance(value, dict):
        raise DataError(f"{what} is {_kind(value)}, not an object")
    return value


def items(value: object, what: str) -> list[object]:
    if not isinstance(value, list):
        raise DataError(f"{what} is {_kind(value)}, not a list")
    return value


def required(value: Members, key: str, what: str) -> object:
    if key not in value:
        raise DataError(f"{what} has no `{key}`")
    return value[key]


def text(value: Members, key: str, what: str) -> str:
    """A text that must be there and not be empty."""
    found = required(value, key, what)
    if not isinstance(found, str) or not found:
        raise DataError(f"`{key}` of {what} is {_kind(found)}, not a text")
    return found


def identity(value: Members, key: str, what: str) -> str:
    """An opaque id: one printable line."""
    found = text(value, key, what)
    if not found.isprintable() or len(found) > 200:
        raise DataError(f"`{key}` of {what} cannot be an id")
    return found


def optional_text(value: Members, key: str) -> str | None:
    found = value.get(key)
    return found if isinstance(found, str) and found else None


def count(value: Members, key: str, what: str) -> int:
    """A whole number of at least 0; deployments send numbers as floats (`66.0`)."""
    found = required(value, key, what)
    if isinstance(found, bool) or not isinstance(found, int | float) or found < 0 or found != found // 1:
        raise DataError(f"`{key}` of {what} is {_kind(found)}, not a count")
    if found > 1e9:
        raise DataError(f"`{key}` of {what} is too large")
    return int(found)


def _kind(value: object) -> str:
    """What a wrong value is, short enough for a message."""
    if value is None or isinstance(value, bool | int | float):
        return json.dumps(value)
    if isinstance(value, str):
        return f"the text {value[:40]!r}" if value else "an empty text"
    return "a list" if isinstance(value, list) else "an object"
