"""Query helpers for calendar events."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Event:
    name: str
    hour: int


def between(events: Iterable[Event], start: int, end: int) -> list[Event]:
    """Return events with start <= hour < end, sorted by hour."""
    selected = [event for event in events if start <= event.hour < end]
    return sorted(selected, key=lambda event: event.hour)
