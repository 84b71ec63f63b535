"""What a file holds and a record does not: told, never dropped in silence."""

from collections import Counter

from evalscribe.sources.shown import shown

MOST_PHRASES = 200
"""A hostile file can say something else wrong in each of a million records."""
MORE = "something else"


class LeftOut:
    """Counts by phrase; of a thing that is wrong it tells where the first one stands."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._first: dict[str, str] = {}

    def add(self, phrase: str, place: str | None = None, number: int = 1) -> None:
        if phrase not in self._counts:  # A log says the same of each of its events.
            phrase = shown(phrase)
        if phrase not in self._counts and len(self._counts) >= MOST_PHRASES:
            phrase, place = MORE, None
        self._counts[phrase] += number
        if place is not None:
            self._first.setdefault(phrase, place)

    def told(self) -> dict[str, int]:
        return {
            f"{phrase} (first: {self._first[phrase]})" if phrase in self._first else phrase: number
            for phrase, number in self._counts.items()
        }
