"""How often a run of some size passes a threshold, by luck."""

from math import exp, fsum, lgamma, log, log1p

from evalscribe.statistics.agreement import Interval, wilson

OFTEN = 0.8
EXACT = 1_000
"""Tries beyond which the normal approximation, corrected for steps, is as good as the sum."""


def tells_apart(needed: int, tries: int) -> Interval:
    """True shares between which passing is much a matter of luck, where `needed` of `tries` must pass.

    Below `low` a run passes in at most 20 of 100 cases, from `high` on in at least 80.
    """
    if needed <= 0:
        return Interval(0.0, 0.0)
    if tries > EXACT:
        return wilson(needed - 0.5, tries, 2 * OFTEN - 1)
    return Interval(_share(needed, tries, 1 - OFTEN), _share(needed, tries, OFTEN))


def _share(needed: int, tries: int, chance: float) -> float:
    """The true share with which a run passes so often."""
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if passing(needed, tries, middle) < chance else (low, middle)
    return high


def passing(needed: int, tries: int, share: float) -> float:
    """The chance that at least `needed` of `tries` pass, each with this share, which is neither 0 nor 1."""
    whole = lgamma(tries + 1)
    up, down = log(share), log1p(-share)
    return fsum(
        exp(whole - lgamma(hits + 1) - lgamma(tries - hits + 1) + hits * up + (tries - hits) * down)
        for hits in range(needed, tries + 1)
    )
