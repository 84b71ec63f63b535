"""The difference of two sides that did the same tasks: how large, how sure, and what could have been seen."""

from collections.abc import Sequence
from fractions import Fraction
from math import fsum, sqrt
from typing import NamedTuple

from evalscribe.statistics.agreement import Interval
from evalscribe.statistics.flips import Luck, sign_flip
from evalscribe.statistics.student import quantile

SIGNIFICANT = 0.05
"""Luck that comes less often than this is not taken for the reason."""
POWER = 0.8


class Paired(NamedTuple):
    difference: float
    """Mean over the tasks, each counting the same; above 0 the candidate is better."""
    interval: Interval
    """95 %, of the mean difference over tasks such as these."""
    luck: Luck
    tasks: int
    detectable: float | None
    """The smallest difference that is found in 80 of 100 comparisons with so many tasks; None where none is."""

    @property
    def significant(self) -> bool:
        return self.luck.p <= SIGNIFICANT


def paired(differences: Sequence[Fraction], noise: float = 1.0, bound: float = 1.0) -> Paired:
    """The mean of `differences`, one for each task.

    The interval is Student's over the tasks, with one task more of `noise` in each direction, without which it would
    have no width where few tasks changed (Bonett and Price 2012 for single trials, where `noise` is 1). An end of it
    that contradicts the exact test about 0 is moved to 0, so that both always say the same. `noise` is how much a task
    is likely to change by luck; `bound` the largest difference there can be.
    """
    number = len(differences)
    values = [float(difference) for difference in differences]
    mean = fsum(values) / number if number else 0.0
    luck = sign_flip(differences)
    spread = _spread(values, noise)
    half = quantile(1 - SIGNIFICANT / 2, number + 1) * spread / sqrt(number + 2)
    interval = Interval(max(-bound, mean - half), min(bound, mean + half))
    return Paired(mean, _reconciled(interval, luck.p, mean), luck, number, _detectable(number, spread, bound))


def _spread(values: Sequence[float], noise: float) -> float:
    """The standard deviation of a task's difference, with the two tasks that are thought."""
    number = len(values) + 2
    mean = fsum(values) / number
    squares = fsum(value**2 for value in values) + 2 * noise**2
    return sqrt(max(0.0, squares / number - mean**2) * number / (number - 1))


def _reconciled(interval: Interval, p: float, mean: float) -> Interval:
    low, high = interval
    if p > SIGNIFICANT:
        return Interval(min(low, 0.0), max(high, 0.0))
    return Interval(max(low, 0.0), high) if mean > 0 else Interval(low, min(high, 0.0))


def _detectable(number: int, spread: float, bound: float) -> float | None:
    """From the spread that was seen; so few tasks that even all of them changing may be luck can show nothing."""
    if 2.0 ** (1 - number) > SIGNIFICANT:
        return None
    wanted = quantile(1 - SIGNIFICANT / 2, number - 1) + quantile(POWER, number - 1)
    found = wanted * spread / sqrt(number)
    return found if found < bound else None
