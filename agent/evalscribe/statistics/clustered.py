"""The interval of a share whose observations come in groups: tries of one item, items of one source."""

from collections.abc import Collection
from math import fsum, sqrt
from typing import NamedTuple

from evalscribe.statistics.agreement import Interval
from evalscribe.statistics.student import quantile

ADDED = 2
"""Groups of which everything passed, and as many of which nothing did, that are added to those that were seen: without
them there would be no width where all were alike (Agresti and Coull's rule, with a group in place of a trial)."""


class Cluster(NamedTuple):
    """Items that are one observation together."""

    passed: float
    """The sum of the items' shares."""
    items: int


def clustered(clusters: Collection[Cluster], confidence: float = 0.95) -> Interval:
    """Of the mean share over all items. (0, 1) for fewer than two clusters: one says nothing about others."""
    number = len(clusters)
    if number < 2:
        return Interval(0.0, 1.0)
    items = sum(cluster.items for cluster in clusters)
    passed = fsum(cluster.passed for cluster in clusters)
    size = items / number
    whole = items + 2 * ADDED * size
    share = (passed + ADDED * size) / whole
    squares = fsum((cluster.passed - cluster.items * share) ** 2 for cluster in clusters)
    squares += ADDED * size**2 * ((1 - share) ** 2 + share**2)
    groups = number + 2 * ADDED
    half = quantile((1 + confidence) / 2, number - 1) * sqrt(groups / (groups - 1) * squares) / whole
    seen = passed / items
    return Interval(max(0.0, min(seen, share - half)), min(1.0, max(seen, share + half)))
