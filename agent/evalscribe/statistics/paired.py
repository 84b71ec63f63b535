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
    def even_trials(self) -> int:
        return min(len(self.base), len(self.candidate))

    @property
    def even_difference(self) -> Fraction:
        """Of as many trials on both sides, the first: only then is it symmetric around 0 where both are alike."""
        return _mean(self.candidate[: self.even_trials]) - _mean(self.base[: self.even_trials])

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
    luck = _luck(tasks, mean)
    noise = span * (fsum(task.noise for task in tasks) / number if number else 1.0)
    spread = _spread([*values, noise, -noise])
    half = quantile(1 - SIGNIFICANT / 2, number + 1) * spread / sqrt(number + 2)
    interval = Interval(max(-span, mean - half), min(span, mean + half))
    return Paired(mean, _reconciled(interval, luck.p, mean), luck, number, _detectable(tasks, span))


def _luck(tasks: Sequence[Task], mean: float) -> Luck:
    """Where the trials that are tested lean to one side and all of them to the other, nothing is shown."""
    even = [task.even_difference for task in tasks]
    return sign_flip(even) if sum(even) * mean > 0 else Luck(1.0, exact=True)


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


def _detectable(tasks: Sequence[Task], span: float) -> float | None:
    """Of what is tested: where tasks vary as they were seen to, and a difference comes by some changing one trial more.

    That adds to the variance, so that the difference is found where it solves
    `difference**2 * number == wanted**2 * (variance + step * difference - difference**2 / 2)`; exact enumeration says
    about the same. So few tasks that even all of them changing may be luck can show nothing.
    """
    number = len(tasks)
    if 2.0 ** (1 - number) > SIGNIFICANT:
        return None
    wanted = quantile(1 - SIGNIFICANT / 2, number - 1) + quantile(POWER, number - 1)
    spread = _spread([float(task.even_difference) for task in tasks])
    step = span * fsum(1 / task.even_trials for task in tasks) / number
    whole = number + wanted**2 / 2
    by_steps = wanted**2 * step / (2 * whole)
    found = by_steps + sqrt(by_steps**2 + (wanted * spread) ** 2 / whole)
    return found if found < span else None
