"""Agreement of a judge with human labels: calibration, and Cohen's kappa with its confidence interval."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from math import fsum, sqrt
from statistics import NormalDist
from typing import NamedTuple

from pydantic import computed_field

from evalscribe.ids import Frozen
from evalscribe.statistics.intervals import (
    Interval,
    TrialCluster,
    ValueWithInterval,
    cluster_interval,
    combine_rates,
    estimate_rate,
    student_quantile,
    wilson_interval,
)

PairCounts = Mapping[tuple[int, int], int]
"""Number of subjects by the pair of labels that two raters gave. Labels are numbers here."""
TINY = 1e-12
"""Threshold below which a variance or an expected disagreement is a rounding error."""


class Kappa(NamedTuple):
    """Cohen's kappa with its confidence interval."""

    value: float
    interval: Interval


def kappa(table: Sequence[Sequence[int]], confidence: float = 0.95) -> Kappa | None:
    """Return Cohen's kappa (1960) of a square table of counts: rows for one rater, columns for the other.

    The interval is computed by the asymptotic method of Fleiss, Cohen and Everitt (1969, Psychological Bulletin 72),
    and is too narrow for few pairs. If that interval has no width, as for raters who always agree, Wilson's interval of
    the agreement is used, corrected for the same expected agreement.

    Returns:
        Kappa; `None` without pairs, or if both raters used only one and the same label.
    """
    number = sum(map(sum, table))
    if not number:
        return None
    shares = [[count / number for count in row] for row in table]
    rows = [sum(row) for row in shares]
    columns = [sum(column) for column in zip(*shares, strict=True)]
    expected = sum(row * column for row, column in zip(rows, columns, strict=True))
    if expected >= 1 - TINY:
        return None
    agreed = sum(table[i][i] for i in range(len(table)))
    value = (sum(shares[i][i] for i in range(len(shares))) - expected) / (1 - expected)
    variance = _variance(shares, rows, columns, value, expected)
    if variance < TINY:
        return Kappa(value, _beyond_chance(wilson_interval(agreed, number, confidence), expected))
    return _kappa(value, NormalDist().inv_cdf((1 + confidence) / 2) * sqrt(variance / number))


def _kappa(value: float, half: float) -> Kappa:
    return Kappa(value, Interval(max(-1.0, value - half), min(1.0, value + half)))


def _beyond_chance(agreement: Interval, expected: float) -> Interval:
    return Interval(*(max(-1.0, (end - expected) / (1 - expected)) for end in agreement))


def _variance(
    shares: Sequence[Sequence[float]], rows: Sequence[float], columns: Sequence[float], value: float, expected: float
) -> float:
    """Return the variance of kappa, multiplied by the number of pairs."""
    size, other = range(len(shares)), 1 - value
    agreed = sum(shares[i][i] * (1 - (rows[i] + columns[i]) * other) ** 2 for i in size)
    disagreed = sum(shares[i][j] * (columns[i] + rows[j]) ** 2 for i in size for j in size if i != j) * other**2
    return (agreed + disagreed - (value - expected * other) ** 2) / (1 - expected) ** 2


def clustered_kappa(clusters: Sequence[PairCounts], labels: int, confidence: float = 0.95) -> Kappa | None:
    """Return kappa of all pairs, with an interval that counts each cluster as one observation.

    A cluster consists of trials of one item, or of runs of one eval. The variance is computed by the delta method (Yang
    and Zhou 2014, Statistics in Medicine 33): the influence of a cluster on kappa is the sum of its pairs' influences.

    Returns:
        Kappa; `None` if `kappa` returns `None`. The interval is (-1, 1) for a single cluster of several pairs, since
        one cluster shows nothing about others.
    """
    pairs = Counter[tuple[int, int]]()
    for cluster in clusters:
        pairs.update(cluster)
    whole = kappa([[pairs[row, column] for column in range(labels)] for row in range(labels)], confidence)
    sizes = [sum(cluster.values()) for cluster in clusters]
    if whole is None or all(size == 1 for size in sizes):
        return whole
    if len(clusters) < 2:
        return Kappa(whole.value, Interval(-1.0, 1.0))
    number = sum(sizes)
    rows = [sum(pairs[label, other] for other in range(labels)) / number for label in range(labels)]
    columns = [sum(pairs[other, label] for other in range(labels)) / number for label in range(labels)]
    expected = sum(row * column for row, column in zip(rows, columns, strict=True))
    agreement = sum(pairs[label, label] for label in range(labels)) / number

    def influence(row: int, column: int) -> float:
        by_chance = columns[row] + rows[column] - 2 * expected
        return ((row == column) - agreement - (1 - whole.value) * by_chance) / (1 - expected)

    moved = (fsum(count * influence(*pair) for pair, count in cluster.items()) / number for cluster in clusters)
    variance = fsum(move**2 for move in moved) * len(clusters) / (len(clusters) - 1)
    if variance < TINY:
        return Kappa(whole.value, _beyond_chance(cluster_interval(_agreements(clusters), confidence), expected))
    # Kish's effective number (1965, Survey Sampling): clusters of one size that would weigh as much.
    degrees_of_freedom = max(1, number**2 // sum(size**2 for size in sizes) - 1)
    return _kappa(whole.value, student_quantile((1 + confidence) / 2, degrees_of_freedom) * sqrt(variance))


def _agreements(clusters: Sequence[PairCounts]) -> Counter[TrialCluster]:
    return Counter(
        TrialCluster(sum(n for (row, column), n in cluster.items() if row == column), sum(cluster.values()))
        for cluster in clusters
    )


class LabelPair(Frozen):
    """The labels that people and the judge gave one subject."""

    expected: str
    """Label by people."""
    predicted: str | None
    """The judge's label; `None` if the judge gave none."""
    cluster: str | None = None
    """Pairs with the same cluster count as one observation, such as trials of one item.

    With `None`, the pair is one observation.
    """


class LabelScore(Frozen):
    """Precision and recall of one label, among the judged subjects."""

    label: str
    hits: int
    """Number of subjects to which both people and the judge gave the label."""
    truths: int
    """Number of subjects to which people gave the label."""
    saids: int
    """Number of subjects to which the judge gave the label."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def precision(self) -> float | None:
        """`None` if the judge never gave the label."""
        return self.hits / self.saids if self.saids else None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def recall(self) -> float | None:
        """`None` if people never gave the label."""
        return self.hits / self.truths if self.truths else None


class Calibration:
    """Agreement of a judge with human labels. Unjudged subjects count only in `agreement_over_all`."""

    def __init__(self, pairs: Iterable[LabelPair], labels: Sequence[str] = ()) -> None:
        """Count the pairs. `labels` come first in tables, in this order; other labels follow as they occur."""
        self.pairs = tuple(pairs)
        self._judged = [(pair.expected, pair.predicted) for pair in self.pairs if pair.predicted is not None]
        self._groups = _grouped(self.pairs)
        occurring = [label for pair in self._judged for label in pair]
        self.labels = tuple(dict.fromkeys([*labels, *(pair.expected for pair in self.pairs), *occurring]))
        self._counts = Counter(self._judged)

    @property
    def judged(self) -> int:
        return len(self._judged)

    @property
    def unjudged(self) -> int:
        return len(self.pairs) - self.judged

    @cached_property
    def right(self) -> int:
        return sum(expected == predicted for expected, predicted in self._judged)

    @property
    def agreement(self) -> float | None:
        """Accuracy; `None` if nothing was judged."""
        return self.right / self.judged if self.judged else None

    @property
    def agreement_over_all(self) -> float | None:
        """Accuracy with unjudged subjects counted as disagreement."""
        return self.right / len(self.pairs) if self.pairs else None

    @cached_property
    def interval(self) -> Interval:
        """95 % confidence interval of `agreement`: Wilson's, or a cluster interval if pairs share a cluster."""
        found = estimate_rate(map(_hits, self._groups))
        return found.interval if found else Interval(0.0, 1.0)

    @cached_property
    def scores(self) -> tuple[LabelScore, ...]:
        """One score for each label, in the order of `labels`."""
        return tuple(map(self.score, self.labels))

    def score(self, label: str) -> LabelScore:
        return LabelScore(
            label=label,
            hits=self._counts[label, label],
            truths=sum(expected == label for expected, _ in self._judged),
            saids=sum(predicted == label for _, predicted in self._judged),
        )

    @property
    def balanced(self) -> float | None:
        """Balanced accuracy: mean recall of the labels that people gave."""
        recalls = [score.recall for score in self.scores if score.recall is not None]
        return sum(recalls) / len(recalls) if recalls else None

    def recall(self, label: str) -> ValueWithInterval | None:
        """Return the recall of a label with its 95 % confidence interval; `None` if people never gave the label.

        The interval is Wilson's, or a cluster interval if pairs share a cluster.
        """
        own = (Counter({pair: count for pair, count in group.items() if pair[0] == label}) for group in self._groups)
        return estimate_rate(map(_hits, own))

    @cached_property
    def balanced_interval(self) -> Interval | None:
        """95 % confidence interval of `balanced`, from the intervals of the recalls; `None` if nothing was judged.

        In simulations with 12 to 60 clusters and four labels, it covers the true value in 91 to 99 % of samples.
        """
        recalls = [recall for label in self.labels if (recall := self.recall(label))]
        return combine_rates(recalls, [1 / len(recalls)] * len(recalls)).interval if recalls else None

    @property
    def commonest(self) -> float | None:
        """Accuracy that a judge would have if it always gave the most common label."""
        return max(score.truths for score in self.scores) / self.judged if self.judged else None

    @cached_property
    def kappa(self) -> Kappa | None:
        """Cohen's kappa; `None` if nothing was judged, or people and judge gave only one and the same label."""
        number = {label: place for place, label in enumerate(self.labels)}
        groups = [
            Counter({(number[expected], number[predicted]): count for (expected, predicted), count in group.items()})
            for group in self._groups
        ]
        return clustered_kappa(groups, len(self.labels))

    def confusion(self, expected: str, predicted: str) -> int:
        """Return the number of subjects that people labelled `expected` and the judge labelled `predicted`."""
        return self._counts[expected, predicted]


def _hits(group: Counter[tuple[str, str]]) -> TrialCluster:
    return TrialCluster(sum(count for (expected, said), count in group.items() if expected == said), group.total())


class StatedConfidence(NamedTuple):
    """How sure a judge said it was of one verdict, and whether people agree with it."""

    confidence: float
    """Between 0 and 1."""
    right: bool
    cluster: str | None = None
    """Verdicts with the same cluster count as one observation. With `None`, the verdict is one observation."""


class ReliabilityBin(NamedTuple):
    """Verdicts of similar confidence."""

    low: float
    high: float
    """Upper end, included. The lower end is excluded, except by the first bin."""
    number: int
    confidence: float
    """Mean confidence."""
    agreement: ValueWithInterval
    """Share of the verdicts with which people agree."""


class Reliability(NamedTuple):
    """Stated confidence against observed agreement."""

    bins: tuple[ReliabilityBin, ...]
    """Bins that hold a verdict, in ascending order."""
    calibration_error: float
    """Expected calibration error (Naeini, Cooper and Hauskrecht 2015, AAAI): mean distance between the confidence and
    the agreement of a bin, weighted by its verdicts. It depends on the bins."""
    brier: float
    """Brier score (1950, Monthly Weather Review 78): mean squared distance between a confidence and the outcome, 0 or
    1. It is 0 for a judge that is always right and sure, and 0.25 for one that always says 0.5."""


def reliability(stated: Iterable[StatedConfidence], edges: Sequence[float] = (0.5, 0.7, 0.9)) -> Reliability | None:
    """Compare stated confidences with the agreement of people.

    Args:
        edges: Inner edges of the bins, in ascending order.

    Returns:
        The comparison; `None` without verdicts.
    """
    every = list(stated)
    if not every:
        return None
    bins = []
    for low, high in pairwise((0.0, *edges, 1.0)):
        inside = [one for one in every if low < one.confidence <= high or (low == one.confidence == 0)]
        observed = estimate_rate(map(_hits, _grouped(map(_as_pair, inside))))
        if observed:
            mean = fsum(one.confidence for one in inside) / len(inside)
            bins.append(ReliabilityBin(low, high, len(inside), mean, observed))
    error = fsum(one.number * abs(one.confidence - one.agreement.value) for one in bins) / len(every)
    brier = fsum((one.confidence - one.right) ** 2 for one in every) / len(every)
    return Reliability(tuple(bins), error, brier)


def _as_pair(stated: StatedConfidence) -> LabelPair:
    return LabelPair(expected="right", predicted="right" if stated.right else "wrong", cluster=stated.cluster)


def _grouped(pairs: Iterable[LabelPair]) -> tuple[Counter[tuple[str, str]], ...]:
    """Return the counts of judged label pairs for each observation, which is a pair or a cluster of pairs."""
    alone, together = [], dict[str, Counter[tuple[str, str]]]()
    for pair in pairs:
        if pair.predicted is None:
            continue
        if pair.cluster is None:
            alone.append(Counter([(pair.expected, pair.predicted)]))
        else:
            together.setdefault(pair.cluster, Counter())[pair.expected, pair.predicted] += 1
    return (*alone, *together.values())
