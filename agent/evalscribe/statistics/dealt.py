"""Trials dealt anew to the two sides: whether single tasks changed, in whichever direction."""

from collections.abc import Sequence
from fractions import Fraction
from math import comb, fsum, lcm
from statistics import NormalDist
from typing import NamedTuple

from evalscribe.statistics.flips import MOST_STEPS, Luck
from evalscribe.statistics.paired import Task

Outcomes = dict[Fraction, float]
"""The squared difference of the sides in one task, with its chance."""


def dealt(tasks: Sequence[Task]) -> Luck | None:
    """How often sides that are equally good at every task differ at least as much, task by task: the sum of squares.

    Trials pass or fail. A task that gets worse and one that gets better add up here, where in `sign_flip` they cancel.
    None where no deal could come out otherwise, as with single trials.
    """
    moving = [(outcomes, task.difference**2) for task in tasks if len(outcomes := _outcomes(task)) > 1]
    if not moving:
        return None
    unit = lcm(*(square.denominator for outcomes, _ in moving for square in outcomes))
    deals = [_Deal({int(square * unit): chance for square, chance in one.items()}) for one, _ in moving]
    observed = sum(int(square * unit) for _, square in moving)
    exact = _exact(deals, observed)
    return Luck(_normal(deals, observed), exact=False) if exact is None else Luck(exact, exact=True)


def _outcomes(task: Task) -> Outcomes:
    """By how many of the passed trials fall to the candidate."""
    base, candidate = len(task.base), len(task.candidate)
    passed = int(sum(task.base) + sum(task.candidate))
    found: Outcomes = {}
    for its in range(max(0, passed - base), min(passed, candidate) + 1):
        square = (Fraction(its, candidate) - Fraction(passed - its, base)) ** 2
        chance = comb(candidate, its) * comb(base, passed - its) / comb(base + candidate, passed)
        found[square] = found.get(square, 0.0) + chance
    return found


class _Deal(NamedTuple):
    chances: dict[int, float]

    @property
    def mean(self) -> float:
        return fsum(size * chance for size, chance in self.chances.items())

    @property
    def variance(self) -> float:
        return fsum((size - self.mean) ** 2 * chance for size, chance in self.chances.items())


def _exact(deals: Sequence[_Deal], observed: int) -> float | None:
    """None where it would take too long."""
    chances, steps = {0: 1.0}, 0
    for deal in deals:
        steps += len(chances) * len(deal.chances)
        if steps > MOST_STEPS:
            return None
        found: dict[int, float] = {}
        for total, chance in chances.items():
            for size, share in deal.chances.items():
                found[total + size] = found.get(total + size, 0.0) + chance * share
        chances = found
    return min(1.0, fsum(chance for total, chance in chances.items() if total >= observed))


def _normal(deals: Sequence[_Deal], observed: int) -> float:
    """Of so many tasks the sum is nearly normal."""
    spread = fsum(deal.variance for deal in deals) ** 0.5
    return 1 - NormalDist(fsum(deal.mean for deal in deals), spread).cdf(observed)
