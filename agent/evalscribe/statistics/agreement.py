"""Shares and the agreement of raters, with their intervals."""

from collections.abc import Sequence
from math import sqrt
from statistics import NormalDist
from typing import NamedTuple


class Interval(NamedTuple):
    """Both ends between 0 and 1; between -1 and 1 for kappa."""

    low: float
    high: float


class Kappa(NamedTuple):
    """Cohen's kappa with its interval."""

    value: float
    interval: Interval


def wilson(successes: float, trials: float, confidence: float = 0.95) -> Interval:
    """The Wilson score interval of a share; (0, 1) where nothing was tried."""
    if trials == 0:
        return Interval(0.0, 1.0)
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share, whole = successes / trials, 1 + z * z / trials
    middle = (share + z * z / (2 * trials)) / whole
    half = z * sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials)) / whole
    return Interval(0.0 if successes == 0 else middle - half, 1.0 if successes == trials else middle + half)


def kappa(table: Sequence[Sequence[int]], confidence: float = 0.95) -> Kappa | None:
    """Agreement beyond luck of a square table of counts, rows one rater and columns the other.

    The interval is the asymptotic one of Fleiss, Cohen and Everitt (1969), in closed form: too narrow for a few pairs.
    Where it has no width, as with raters who always agree, it is Wilson's of the agreement, beyond the same luck.
    None where luck alone explains every agreement: no pair, or one label only.
    """
    number = sum(map(sum, table))
    if not number:
        return None
    shares = [[count / number for count in row] for row in table]
    rows = [sum(row) for row in shares]
    columns = [sum(column) for column in zip(*shares, strict=True)]
    by_luck = sum(row * column for row, column in zip(rows, columns, strict=True))
    if by_luck >= 1 - 1e-12:
        return None
    value = (sum(shares[i][i] for i in range(len(shares))) - by_luck) / (1 - by_luck)
    variance = _variance(shares, rows, columns, value, by_luck)
    if variance < 1e-12:
        ends = wilson(sum(table[i][i] for i in range(len(table))), number, confidence)
        return Kappa(value, Interval(*(max(-1.0, (end - by_luck) / (1 - by_luck)) for end in ends)))
    spread = NormalDist().inv_cdf((1 + confidence) / 2) * sqrt(variance / number)
    return Kappa(value, Interval(max(-1.0, value - spread), min(1.0, value + spread)))


def _variance(
    shares: Sequence[Sequence[float]], rows: Sequence[float], columns: Sequence[float], value: float, by_luck: float
) -> float:
    """Of kappa, times the number of pairs."""
    size, other = range(len(shares)), 1 - value
    agreed = sum(shares[i][i] * (1 - (rows[i] + columns[i]) * other) ** 2 for i in size)
    not_agreed = sum(shares[i][j] * (columns[i] + rows[j]) ** 2 for i in size for j in size if i != j) * other**2
    return (agreed + not_agreed - (value - by_luck * other) ** 2) / (1 - by_luck) ** 2
