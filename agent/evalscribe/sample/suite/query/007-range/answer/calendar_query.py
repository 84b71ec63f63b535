"""Events of a part of the day."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Event:
    """Something that happens at an hour."""

    name: str
    hour: int


def between(events: Iterable[Event], start: int, end: int) -> list[Event]:
    """The events from `start` to `end`, earliest first."""
    return sorted((e for e in events if start <= e.hour <= end), key=lambda e: e.hour)
