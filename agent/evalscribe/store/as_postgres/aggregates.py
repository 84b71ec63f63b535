"""Aggregates. Sums are of the decimals that numbers are shown as, and exact."""

import math
from decimal import Context, Decimal
from typing import Any

from evalscribe.store.as_postgres import json_values
from evalscribe.store.as_postgres.numbers import finite

_EXACT = Context(prec=2000)
_SHOWN_WHOLE = 1e15
"""Below it whole numbers are shown with all their digits."""
Keys = tuple[Any, ...]


class Sum:
    """Over windows too."""

    def __init__(self) -> None:
        self._whole = 0
        self._sum = Decimal(0)
        self._count = 0

    def step(self, number: float | None) -> None:
        self._add(number, 1)

    def inverse(self, number: float | None) -> None:
        self._add(number, -1)

    def _add(self, number: float | None, sign: int) -> None:
        if number is None:
            return
        self._count += sign
        if number.is_integer() and abs(number) < _SHOWN_WHOLE:
            self._whole += sign * int(number)
        else:
            self._sum = _EXACT.add(self._sum, Decimal(repr(sign * number)))

    def value(self) -> float | None:
        return finite(float(_EXACT.add(self._sum, Decimal(self._whole)))) if self._count else None

    finalize = value


class Variance:
    """`fewer`: 1 of a sample, 0 of all."""

    def __init__(self) -> None:
        self._sum = self._squares = Decimal(0)
        self._count = 0
        self._fewer = 0

    def step(self, number: float | None, fewer: int) -> None:
        self._fewer = fewer
        if number is not None:
            exact = Decimal(repr(number))
            self._sum = _EXACT.add(self._sum, exact)
            self._squares = _EXACT.add(self._squares, _EXACT.multiply(exact, exact))
            self._count += 1

    def finalize(self) -> float | None:
        below = self._count * (self._count - self._fewer)
        if not below:
            return None
        above = _EXACT.subtract(
            _EXACT.multiply(Decimal(self._count), self._squares), _EXACT.multiply(self._sum, self._sum)
        )
        return finite(float(above)) / float(below)


class Deviation(Variance):
    def finalize(self) -> float | None:
        variance = super().finalize()
        return None if variance is None else math.sqrt(variance)


class _Collected:
    """Values with what they are sorted by."""

    def __init__(self) -> None:
        self._rows: list[tuple[Any, Keys]] = []
        self._form = self._how = self._separator = ""

    def step(self, form: str, how: str, separator: str, value: Any, *keys: Any) -> None:
        self._form, self._how, self._separator = form, how, separator
        self._rows.append((value, keys))

    def _values(self) -> list[Any]:
        count = len(self._how) // 2
        for place in range(count - 1, -1, -1):
            down, first = self._how[place] == "d", self._how[count + place] == "f"
            self._rows = _sorted(self._rows, place, down=down, first=first)
        values = [value for value, _ in self._rows]
        return list(dict.fromkeys(values)) if self._form.startswith("distinct") else values


def _sorted(rows: list[tuple[Any, Keys]], place: int, *, down: bool, first: bool) -> list[tuple[Any, Keys]]:
    """Stable, so that sorting by the last key first sorts by all."""
    empty = [row for row in rows if row[1][place] is None]
    there = sorted((row for row in rows if row[1][place] is not None), key=lambda row: row[1][place], reverse=down)
    return empty + there if first else there + empty


class StringAgg(_Collected):
    def finalize(self) -> str | None:
        values = [value for value in self._values() if value is not None]
        return self._separator.join(values) if values else None


class JsonAgg(_Collected):
    def finalize(self) -> str | None:
        if not self._rows:
            return None
        kind = self._form.removeprefix("distinct ")
        return "[" + ", ".join(json_values.of(value, kind) or "null" for value in self._values()) + "]"


class _Percentile:
    def __init__(self) -> None:
        self._numbers: list[float] = []
        self._share = 0.0
        self._down = False

    def step(self, share: float, number: float | None, direction: str) -> None:
        self._share, self._down = share, direction == "DESC"
        if number is not None:
            self._numbers.append(number)

    def finalize(self) -> float | None:
        self._numbers.sort(reverse=self._down)
        return self._found() if self._numbers else None

    def _found(self) -> float:
        raise NotImplementedError


class PercentileCont(_Percentile):
    def _found(self) -> float:
        place = self._share * (len(self._numbers) - 1)
        low, high = self._numbers[math.floor(place)], self._numbers[math.ceil(place)]
        return low if math.floor(place) == math.ceil(place) else low + (place - math.floor(place)) * (high - low)


class PercentileDisc(_Percentile):
    def _found(self) -> float:
        return self._numbers[max(1, math.ceil(self._share * len(self._numbers))) - 1]
