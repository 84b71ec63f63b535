"""The smallest difference that a comparison of some size finds often enough."""

from math import floor, sqrt

from evalscribe.statistics.student import quantile

SIGNIFICANT = 0.05
"""Luck that comes less often than this is not taken for the reason."""
POWER = 0.8


def detectable(number: float, variance: float, step: float) -> float | None:
    """The drop, as a share of the range, that is found in 80 of 100 comparisons; None where not even all of it is.

    `number` of observations, whose differences vary by `variance` where both sides are alike; `step`: how far one trial
    moves one of them. All trials come to pass more seldom by the same share `d`, which takes room from what varied and
    brings variance of its own, so that `d` solves

        number * d**2 = wanted * (varied * (1 - d)**2 + step * d * (1 - d) + sqrt(step) / 2 * d**2)

    with `wanted` the square of the sum of Student's quantiles for significance and power. Two terms are fitted: the
    last, for what the flip test needs beyond Student's where few differences are not 0 (all of it with single trials,
    the less the finer the steps are), and what `varied` has more than `variance`, because an exact test can only reject
    at whole steps. With single trials exact enumeration finds such drops in 78 to 84 of 100 comparisons (8 to 1,000
    tasks); simulation, with the variance estimated, in 76 to 88 (8 to 200 tasks of 1 to 8 trials that pass in 5 to 95
    of 100 cases, alone and in clusters of 5). A drop of the same size is found more seldom where it comes by a few
    tasks breaking altogether: of 60 tasks of 4 trials in 44 of 100 comparisons.
    """
    freedom = floor(number) - 1
    if freedom < 1:
        return None
    wanted = (quantile(1 - SIGNIFICANT / 2, freedom) + quantile(POWER, freedom)) ** 2
    varied = variance + step**2 * sqrt(variance / number)
    square = number / wanted - varied + step - sqrt(step) / 2
    linear = 2 * varied - step
    found = (sqrt(linear**2 + 4 * square * varied) - linear) / (2 * square) if square > 0 else 1.0
    return found if found < 1 else None
