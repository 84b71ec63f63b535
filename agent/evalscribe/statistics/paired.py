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


class Task(NamedTuple):
    """What both sides reached in one task, trial by trial; at least one each."""

    base: tuple[Fraction, ...]
    candidate: tuple[Fraction, ...]

    @property
    def difference(self) -> Fraction:
        """Of the means."""
        return _mean(self.candidate) - _mean(self.base)

    @property
    def even_difference(self) -> Fraction:
        """Of as many trials on both sides, the first: only then is it symmetric around 0 where both are alike."""
        few = min(len(self.base), len(self.candidate))
        return _mean(self.candidate[:few]) - _mean(self.base[:few])

    @property
    def noise(self) -> float:
        """How much of a trial's range is left in the difference of the means."""
        return sqrt((1 / len(self.base) + 1 / len(self.candidate)) / 2)


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


def paired(tasks: Sequence[Task], span: float = 1.0) -> Paired:
    """How far the candidate is from the base. A task is one unit, however many trials it has.

    `span`: between the least and the most that a trial can reach. The test is the sign-flip test of the tasks'
    differences (with single trials McNemar's exact). The interval is Student's over the tasks, with one more task of a
    trial's noise in each direction, without which it would have no width where few tasks changed (with single trials
    Bonett and Price 2012). An end that contradicts the test about 0 is moved to 0, so that both say the same.
    """
    number = len(tasks)
    values = [float(task.difference) for task in tasks]
    mean = fsum(values) / number if number else 0.0
    luck = sign_flip(task.even_difference for task in tasks)
    noise = span * (fsum(task.noise for task in tasks) / number if number else 1.0)
    spread = _spread([*values, noise, -noise])
    half = quantile(1 - SIGNIFICANT / 2, number + 1) * spread / sqrt(number + 2)
    interval = Interval(max(-span, mean - half), min(span, mean + half))
    return Paired(
        mean, _reconciled(interval, luck.p, mean), luck, number, _detectable(number, spread, noise**2 / span, span)
    )


def _mean(values: Sequence[Fraction]) -> Fraction:
    return sum(values, Fraction(0)) / len(values)


def _spread(values: Sequence[float]) -> float:
    """The standard deviation."""
    mean = fsum(values) / len(values)
    return sqrt(fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def _reconciled(interval: Interval, p: float, mean: float) -> Interval:
    low, high = interval
    if p > SIGNIFICANT:
        return Interval(min(low, 0.0), max(high, 0.0))
    return Interval(max(low, 0.0), high) if mean > 0 else Interval(low, min(high, 0.0))


def _detectable(number: int, spread: float, step: float, span: float) -> float | None:
    """From the spread that was seen, and one `step` of a task more, since differences come in steps.

    So few tasks that even all of them changing may be luck can show nothing.
    """
    if 2.0 ** (1 - number) > SIGNIFICANT:
        return None
    wanted = quantile(1 - SIGNIFICANT / 2, number - 1) + quantile(POWER, number - 1)
    found = wanted * spread / sqrt(number) + step / number
    return found if found < span else None
