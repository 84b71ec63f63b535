"""Times without a zone, as text in one spelling that sorts: `2026-01-31 12:00:00[.123456]`."""

import re
from calendar import monthrange
from datetime import MAXYEAR, MINYEAR, UTC, date, datetime, timedelta

_TIME = re.compile(r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(:\d\d(?:\.\d{1,6})?)?(Z|[+-]\d\d(?::?\d\d)?)?)?", re.ASCII)
_EPOCH = datetime(1970, 1, 1)
_FIELDS = {"year": 1, "month": 2, "day": 3, "hour": 4, "minute": 5, "second": 6}
"""How many fields of a time are kept."""


def _read(text: str) -> tuple[datetime, str]:
    """And the zone."""
    found = _TIME.fullmatch(text)
    if not found:
        raise ValueError(f'invalid input syntax for type timestamp: "{text[:60]}"')
    day, minute, second, zone = found.groups()
    if zone and not _real(zone):
        raise ValueError(f'time zone displacement out of range: "{text}"')
    try:
        return datetime.fromisoformat(f"{day}T{minute or '00:00'}{second or ':00'}"), zone or ""
    except ValueError:
        raise ValueError(f'date/time field value out of range: "{text}"') from None


def _real(zone: str) -> bool:
    hours, minutes = zone[1:3], zone[-2:] if len(zone) > 3 else "0"
    return zone == "Z" or (int(hours) < 16 and int(minutes) < 60)


def _shown(time: datetime) -> str:
    text = time.isoformat(" ")
    return text.rstrip("0") if "." in text else text


def timestamp(text: str | None) -> str | None:
    """A zone is read over, as Postgres does."""
    return None if text is None else _shown(_read(text)[0])


def utc(text: str | None) -> str | None:
    if text is None:
        return None
    time, zone = _read(text)
    if zone in ("", "Z"):
        return _shown(time)
    digits = zone[1:].replace(":", "").ljust(4, "0")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return _shown(time - offset if zone[0] == "+" else time + offset)


def day(text: str | None) -> str | None:
    return None if text is None else _read(text)[0].date().isoformat()


def truncated(unit: str, text: str | None) -> str | None:
    if text is None:
        return None
    time, unit = datetime.fromisoformat(text), unit.lower()
    if unit == "week":
        return _shown(_midnight(time - timedelta(days=time.weekday())))
    if unit == "quarter":
        return _shown(_midnight(time.replace(month=(time.month - 1) // 3 * 3 + 1, day=1)))
    kept = time.timetuple()[: _FIELDS[unit]]
    year, month, day, hour, minute, second = (*kept, *(1, 1, 1, 0, 0, 0)[len(kept) :])
    return _shown(datetime(year, month, day, hour, minute, second))


def _midnight(time: datetime) -> datetime:
    return time.replace(hour=0, minute=0, second=0, microsecond=0)


def moved(text: str | None, months: int, seconds: int) -> str | None:
    """Of a month that is too short its last day."""
    if text is None:
        return None
    time = datetime.fromisoformat(text)
    year, month = divmod(time.year * 12 + time.month - 1 + months, 12)
    last = monthrange(year, month + 1)[1] if MINYEAR <= year <= MAXYEAR else time.day
    return _shown(time.replace(year=year, month=month + 1, day=min(time.day, last)) + timedelta(seconds=seconds))


def day_moved(text: str | None, days: int | None) -> str | None:
    return None if text is None or days is None else (date.fromisoformat(text) + timedelta(days=days)).isoformat()


def days(left: str | None, right: str | None) -> int | None:
    if left is None or right is None:
        return None
    return (date.fromisoformat(left) - date.fromisoformat(right)).days


def elapsed(left: str | None, right: str | None) -> float | None:
    """Seconds, with the rounding of Postgres, which adds days to the seconds of a day."""
    if left is None or right is None:
        return None
    between = datetime.fromisoformat(left) - datetime.fromisoformat(right)
    whole = abs(between)
    seconds = (whole.seconds * 1_000_000 + whole.microseconds) / 1_000_000 + whole.days * 86_400.0
    return seconds if between >= timedelta() else -seconds


def field(name: str, text: str | None) -> float | None:
    if text is None:
        return None
    time = datetime.fromisoformat(text)
    return float(_field(name.lower(), time))


def _field(name: str, time: datetime) -> float:
    if name == "epoch":
        return (time.replace(tzinfo=UTC) - _EPOCH.replace(tzinfo=UTC)) / timedelta(seconds=1)
    if name == "second":
        return time.second + time.microsecond / 1_000_000
    week = time.isocalendar()
    others = {
        "dow": time.isoweekday() % 7,
        "isodow": time.isoweekday(),
        "doy": (time.date() - date(time.year, 1, 1)).days + 1,
        "quarter": (time.month - 1) // 3 + 1,
        "week": week.week,
    }
    return others[name] if name in others else getattr(time, name)
