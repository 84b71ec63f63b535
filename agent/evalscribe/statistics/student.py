"""Quantiles of Student's t for whole degrees of freedom, without scipy."""

from functools import lru_cache
from math import atan, cos, pi, sin, sqrt
from statistics import NormalDist

MANY = 200
"""Degrees of freedom beyond which the expansion around the normal is exact to six digits."""


@lru_cache(1024)
def quantile(share: float, freedom: int) -> float:
    """The value that a share above 0.5 of the distribution lies below; infinite without any freedom."""
    if freedom < 1:
        return float("inf")
    if freedom > MANY:
        return _expanded(NormalDist().inv_cdf(share), freedom)
    low, high = 0.0, 1.0
    while _below(high, freedom) < share:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _below(middle, freedom) < share else (low, middle)
    return high


def _below(value: float, freedom: int) -> float:
    """The share that lies below a value of at least 0 (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    angle = atan(value / sqrt(freedom))
    even = freedom % 2 == 0
    term = 1.0 if even else cos(angle)
    series = term if freedom > 1 else 0.0
    for step in range(2 if even else 3, freedom - 1, 2):
        term *= cos(angle) ** 2 * (step - 1) / step
        series += term
    between = sin(angle) * series if even else 2 / pi * (angle + sin(angle) * series)
    return 0.5 + between / 2


def _expanded(z: float, freedom: int) -> float:
    """Cornish and Fisher, to the third order."""
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3
