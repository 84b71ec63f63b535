"""As many trials of both sides of one task, and how they vary: in floats, for what is estimated and not tested."""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import fsum
from typing import NamedTuple


class Even(NamedTuple):
    base: tuple[float, ...]
    candidate: tuple[float, ...]

    @property
    def difference(self) -> float:
        """Of the means."""
        return (fsum(self.candidate) - fsum(self.base)) / len(self.base)

    @property
    def within(self) -> float:
        """The variance of the difference, as the trials of each side vary among themselves; 0 for single ones."""
        return (_variance(self.base) + _variance(self.candidate)) / len(self.base)


def even(base: Sequence[Fraction], candidate: Sequence[Fraction]) -> Even:
    """The first of both sides, at least one each."""
    number = min(len(base), len(candidate))
    return Even(tuple(map(float, base[:number])), tuple(map(float, candidate[:number])))


def moved(tasks: Iterable[Even], most: float) -> float:
    """How far a trial is moved that does change: with passes all the way, with grades as far as was seen.

    `most` where none was.
    """
    moves = [abs(one - other) for task in tasks for one, other in zip(task.base, task.candidate, strict=True)]
    whole = fsum(moves)
    return fsum(move**2 for move in moves) / whole if whole else most


def _variance(values: Sequence[float]) -> float:
    if len(values) < 2:
        return 0.0
    mean = fsum(values) / len(values)
    return fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
