"""Kappa where pairs come in groups: several tries of one item, several runs of one eval."""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import fsum, sqrt

from evalscribe.statistics.agreement import Interval, Kappa, kappa
from evalscribe.statistics.clustered import Cluster, clustered
from evalscribe.statistics.student import quantile

Pairs = Mapping[tuple[int, int], int]
"""How often two raters said what, each by the label's number."""


def clustered_kappa(groups: Sequence[Pairs], labels: int, confidence: float = 0.95) -> Kappa | None:
    """`kappa` of all pairs; its interval counts a group as one observation.

    Each pair moves kappa by its influence; that of a group is the sum over its pairs (the delta method). One group says
    nothing about others: then the interval is everything. None as with `kappa`.
    """
    together = Counter[tuple[int, int]]()
    for group in groups:
        together.update(group)
    found = kappa([[together[row, column] for column in range(labels)] for row in range(labels)], confidence)
    if found is None or all(sum(group.values()) == 1 for group in groups):
        return found
    if len(groups) < 2:
        return Kappa(found.value, Interval(-1.0, 1.0))
    moved = _Influence(together, labels, found.value)
    variance = fsum(moved.of(group) ** 2 for group in groups) * len(groups) / (len(groups) - 1)
    if variance < 1e-12:
        ends = clustered(Counter(map(_agreement, groups)), confidence)
        return Kappa(found.value, Interval(*(max(-1.0, (end - moved.luck) / (1 - moved.luck)) for end in ends)))
    spread = quantile((1 + confidence) / 2, _freedom(groups)) * sqrt(variance)
    return Kappa(found.value, Interval(max(-1.0, found.value - spread), min(1.0, found.value + spread)))


class _Influence:
    def __init__(self, pairs: Pairs, labels: int, value: float) -> None:
        self._number = sum(pairs.values())
        self._value = value
        self._rows = [
            sum(pairs.get((one, other), 0) for other in range(labels)) / self._number for one in range(labels)
        ]
        self._columns = [
            sum(pairs.get((other, one), 0) for other in range(labels)) / self._number for one in range(labels)
        ]
        self.luck = sum(row * column for row, column in zip(self._rows, self._columns, strict=True))
        self._agreed = sum(pairs.get((one, one), 0) for one in range(labels)) / self._number

    def of(self, group: Pairs) -> float:
        """By how much the pairs of a group move kappa."""
        return fsum(count * self._of(*pair) for pair, count in group.items()) / self._number

    def _of(self, row: int, column: int) -> float:
        agreed = (row == column) - self._agreed
        luck = self._columns[row] + self._rows[column] - 2 * self.luck
        return (agreed - (1 - self._value) * luck) / (1 - self.luck)


def _agreement(group: Pairs) -> Cluster:
    agreed = sum(count for (row, column), count in group.items() if row == column)
    return Cluster(agreed, sum(group.values()))


def _freedom(groups: Sequence[Pairs]) -> int:
    """Of Student's t: as many groups of one size as would weigh as much (Kish)."""
    sizes = [sum(group.values()) for group in groups]
    return max(1, sum(sizes) ** 2 // sum(size**2 for size in sizes) - 1)
