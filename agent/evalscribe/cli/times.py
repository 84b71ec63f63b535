"""Lengths of time and points in time, as people write them."""

import re
from datetime import UTC, datetime

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhd])")
_WHOLE = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|[smhd]))+")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def seconds(text: str) -> float:
    """`15m`, `1h30m`, `90s`, `500ms`; a number alone is seconds. Raises `UsageError`."""
    from evalscribe.errors import UsageError

    given = text.strip().lower()
    if _NUMBER.fullmatch(given):
        return float(given)
    if not _WHOLE.fullmatch(given):
        raise UsageError(f"{text!r} is no length of time: give 15m, 1h30m, 90s, 500ms, or seconds")
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(given))


def moment(text: str, option: str) -> str:
    """ISO 8601 in UTC, as the store has it; what names no zone is UTC. Raises `UsageError` naming the option."""
    from evalscribe.errors import UsageError

    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise UsageError(f"{option} {text!r} is no time: give 2026-11-21 or 2026-11-21T14:05:00Z") from None
    zoned = found if found.tzinfo else found.replace(tzinfo=UTC)
    try:
        return zoned.astimezone(UTC).isoformat(timespec="milliseconds")
    except OverflowError:
        raise UsageError(f"{option} {text!r} is outside the years 1 to 9999 in UTC") from None
