"""How long something may take, as people write it."""

import re

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
