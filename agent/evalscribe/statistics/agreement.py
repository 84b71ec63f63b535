"""Measure how well a judge agrees with human labels: accuracy, Cohen's kappa, and calibration of its confidence."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import cached_property
from math import ceil, fsum, sqrt
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
    rank_correlation,
    student_quantile,
    wilson_interval,
)

PairCounts = Mapping[tuple[int, int], int]
"""Number of subjects for each pair of labels, one label from each of two raters. Labels are represented by integers."""
TINY = 1e-12
"""A variance or an expected disagreement below this value is treated as a rounding error."""


class Kappa(NamedTuple):
    """Cohen's kappa with its confidence interval."""

    value: float
    interval: Interval


def kappa(table: Sequence[Sequence[int]], confidence: float = 0.95) -> Kappa | None:
    """Return Cohen's kappa (1960) for a square table of counts.

    Each row stands for a label of one rater, and each column for a label of the other rater.

    The interval is computed by the asymptotic method of Fleiss, Cohen and Everitt (1969, Psychological Bulletin 72),
    and is too narrow for few pairs. If this interval would have no width, for example because the raters always agree,
    it is replaced by Wilson's interval of the observed agreement, with both ends corrected for the agreement expected
    by chance.

    Returns:
        Kappa, or `None` if there are no pairs or both raters always gave the same single label.
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
    size, disagreement = range(len(shares)), 1 - value
    diagonal = sum(shares[i][i] * (1 - (rows[i] + columns[i]) * disagreement) ** 2 for i in size)
    off_diagonal = (
        sum(shares[i][j] * (columns[i] + rows[j]) ** 2 for i in size for j in size if i != j) * disagreement**2
    )
    return (diagonal + off_diagonal - (value - expected * disagreement) ** 2) / (1 - expected) ** 2


def clustered_kappa(clusters: Sequence[PairCounts], labels: int, confidence: float = 0.95) -> Kappa | None:
    """Return kappa of all pairs, with an interval that counts each cluster as one observation.

    A cluster is, for example, all trials of one item or all runs of one eval. The variance is computed by the delta
    method (Yang and Zhou 2014, Statistics in Medicine 33). The influence of a cluster on kappa is the sum of the
    influences of its pairs.

    Returns:
        Kappa, or `None` in the cases in which `kappa` returns `None`. If all pairs are in one cluster of several pairs,
        the interval is (-1, 1), because one cluster says nothing about other clusters.
    """
    pairs = Counter[tuple[int, int]]()
    for cluster in clusters:
        pairs.update(cluster)
    pooled = kappa([[pairs[row, column] for column in range(labels)] for row in range(labels)], confidence)
    sizes = [sum(cluster.values()) for cluster in clusters]
    if pooled is None or all(size == 1 for size in sizes):
        return pooled
    if len(clusters) < 2:
        return Kappa(pooled.value, Interval(-1.0, 1.0))
    number = sum(sizes)
    rows = [sum(pairs[label, other] for other in range(labels)) / number for label in range(labels)]
    columns = [sum(pairs[other, label] for other in range(labels)) / number for label in range(labels)]
    expected = sum(row * column for row, column in zip(rows, columns, strict=True))
    agreement = sum(pairs[label, label] for label in range(labels)) / number

    def influence(row: int, column: int) -> float:
        by_chance = columns[row] + rows[column] - 2 * expected
        return ((row == column) - agreement - (1 - pooled.value) * by_chance) / (1 - expected)

    moved = (fsum(count * influence(*pair) for pair, count in cluster.items()) / number for cluster in clusters)
    variance = fsum(move**2 for move in moved) * len(clusters) / (len(clusters) - 1)
    if variance < TINY:
        return Kappa(pooled.value, _beyond_chance(cluster_interval(_agreements(clusters), confidence), expected))
    # Kish's effective number (1965, Survey Sampling): the number of equally large clusters that would give this
    # precision.
    degrees_of_freedom = max(1, number**2 // sum(size**2 for size in sizes) - 1)
    return _kappa(pooled.value, student_quantile((1 + confidence) / 2, degrees_of_freedom) * sqrt(variance))


def _agreements(clusters: Sequence[PairCounts]) -> Counter[TrialCluster]:
    return Counter(
        TrialCluster(sum(n for (row, column), n in cluster.items() if row == column), sum(cluster.values()))
        for cluster in clusters
    )


class LabelPair(Frozen):
    """The label that people gave to one subject, and the judge's label for it."""

    expected: str
    """The label that people gave."""
    predicted: str | None
    """The judge's label; `None` if the judge gave no label."""
    cluster: str | None = None
    """Name of the pair's cluster. All pairs of a cluster, such as the trials of one item, count as one observation.

    A pair without a cluster (`None`) is an observation of its own.
    """


class LabelScore(Frozen):
    """Precision and recall of one label, computed from the judged subjects."""

    label: str
    hits: int
    """Number of subjects to which both people and the judge gave the label."""
    expected: int
    """Number of subjects to which people gave the label."""
    predictions: int
    """Number of subjects to which the judge gave the label."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def precision(self) -> float | None:
        """Of the subjects to which the judge gave the label, the share to which people gave it too.

        `None` if the judge never gave the label.
        """
        return self.hits / self.predictions if self.predictions else None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def recall(self) -> float | None:
        """Of the subjects to which people gave the label, the share to which the judge gave it too.

        `None` if people never gave the label.
        """
        return self.hits / self.expected if self.expected else None


class NumberAgreement(Frozen):
    """Agreement between a judge's numbers and people's numbers."""

    mean_absolute_error: float
    rank_correlation: float | None
    """Spearman's rank correlation. None for fewer than three subjects, or if all of the judge's or all of people's
    numbers are equal."""


class TagAgreement(Frozen):
    """Agreement between a judge's sets of tags and people's sets of tags."""

    jaccard: float
    """Mean Jaccard index of the two sets: the size of their intersection divided by the size of their union, or 1 if
    both are empty."""
    precision: float | None
    """Share of the judge's tags that people gave too, counted over all subjects. None if the judge gave no tags."""
    recall: float | None
    """Share of people's tags that the judge gave too, counted over all subjects. None if people gave no tags."""


def number_agreement(pairs: Sequence[tuple[float, float]]) -> NumberAgreement | None:
    """Compare people's numbers with the judge's. Return None if there are no pairs.

    Each pair consists of people's number and the judge's number, in this order.
    """
    if not pairs:
        return None
    # Converted and divided before the sum, because `fsum` and a division of integers raise
    # `OverflowError` beyond the range of floats.
    error = fsum(abs(float(truth) - float(predicted)) / len(pairs) for truth, predicted in pairs)
    return NumberAgreement(mean_absolute_error=error, rank_correlation=rank_correlation(pairs))


def tag_agreement(pairs: Sequence[tuple[Set[str], Set[str]]]) -> TagAgreement | None:
    """Compare people's sets of tags with the judge's. Return None if there are no pairs.

    Each pair consists of people's set and the judge's set, in this order.
    """
    if not pairs:
        return None
    shared = sum(len(truth & predicted) for truth, predicted in pairs)
    expected, predictions = (sum(map(len, side)) for side in zip(*pairs, strict=True))
    return TagAgreement(
        jaccard=fsum(len(a & b) / len(a | b) if a | b else 1.0 for a, b in pairs) / len(pairs),
        precision=shared / predictions if predictions else None,
        recall=shared / expected if expected else None,
    )


class ReliabilityBin(Frozen):
    """Verdicts with similar confidence, as one point of a reliability diagram."""

    low: float
    high: float
    """Highest confidence in the bin. The bin does not include `low`, except that the first bin includes 0."""
    verdicts: int
    confidence: float
    """Mean confidence that the judge stated."""
    agreement: float
    """Share of verdicts with which people agree."""


class Reliability(Frozen):
    """Comparison of the confidence that a judge states with the observed agreement."""

    bins: tuple[ReliabilityBin, ...]
    """The bins that contain at least one verdict, in order of confidence, lowest first."""
    calibration_error: float
    """Expected calibration error over `BINS` bins of equal width (Naeini et al. 2015, AAAI 29). The error is the mean
    over the bins of the absolute difference between confidence and agreement. Each bin is weighted by its number of
    verdicts. 0 is perfect. With few verdicts, the error is biased upwards."""
    brier: float
    """Brier score (1950, Monthly Weather Review 78): the mean over all verdicts of the squared difference between the
    stated confidence and the agreement (1 if people agree with the verdict, else 0). 0 is perfect."""


BINS = 10
"""Number of bins of a reliability diagram."""


def reliability(verdicts: Iterable[tuple[float, bool]]) -> Reliability | None:
    """Compare the confidence of verdicts with whether people agree. Return None if there are no verdicts."""
    bins: dict[int, list[tuple[float, bool]]] = {}
    for confidence, agrees in verdicts:
        # Rounded, so that a confidence such as 0.1 + 0.2, which is slightly
        # above 0.3, stays in the bin that ends at 0.3.
        bins.setdefault(max(0, ceil(round(confidence * BINS, 9)) - 1), []).append((confidence, agrees))
    pairs = [pair for members in bins.values() for pair in members]
    if not pairs:
        return None
    rows = tuple(
        ReliabilityBin(
            low=number / BINS,
            high=(number + 1) / BINS,
            verdicts=len(members),
            confidence=fsum(confidence for confidence, _ in members) / len(members),
            agreement=sum(agrees for _, agrees in members) / len(members),
        )
        for number, members in sorted(bins.items())
    )
    return Reliability(
        bins=rows,
        calibration_error=fsum(row.verdicts * abs(row.confidence - row.agreement) for row in rows) / len(pairs),
        brier=fsum((confidence - agrees) ** 2 for confidence, agrees in pairs) / len(pairs),
    )


class Calibration:
    """Agreement of a judge with human labels.

    Subjects without a label from the judge count only in `agreement_over_all`.
    """

    def __init__(self, pairs: Iterable[LabelPair], labels: Sequence[str] = ()) -> None:
        """Count the pairs.

        In tables, `labels` come first, in the given order. Other labels follow in order of occurrence.
        """
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
        """Share of judged subjects on which judge and people agree (accuracy); `None` if nothing was judged."""
        return self.right / self.judged if self.judged else None

    @property
    def agreement_over_all(self) -> float | None:
        """Accuracy over all subjects. A subject that was not judged counts as a disagreement."""
        return self.right / len(self.pairs) if self.pairs else None

    @cached_property
    def interval(self) -> Interval:
        """95 % confidence interval of `agreement`.

        The interval is Wilson's, or a cluster interval if several pairs share a cluster.
        """
        rate = estimate_rate(map(_hits, self._groups))
        return rate.interval if rate else Interval(0.0, 1.0)

    @cached_property
    def scores(self) -> tuple[LabelScore, ...]:
        """One score for each label, in the order of `labels`."""
        return tuple(map(self.score, self.labels))

    def score(self, label: str) -> LabelScore:
        return LabelScore(
            label=label,
            hits=self._counts[label, label],
            expected=sum(expected == label for expected, _ in self._judged),
            predictions=sum(predicted == label for _, predicted in self._judged),
        )

    @property
    def balanced(self) -> float | None:
        """Balanced accuracy: the mean recall over all labels that people gave."""
        recalls = [score.recall for score in self.scores if score.recall is not None]
        return sum(recalls) / len(recalls) if recalls else None

    def recall(self, label: str) -> ValueWithInterval | None:
        """Return the recall of a label with its 95 % confidence interval; `None` if people never gave the label.

        The interval is Wilson's interval, or a cluster interval if several pairs share a cluster.
        """
        label_counts = (
            Counter({pair: count for pair, count in group.items() if pair[0] == label}) for group in self._groups
        )
        return estimate_rate(map(_hits, label_counts))

    @cached_property
    def balanced_interval(self) -> Interval | None:
        """95 % confidence interval of `balanced`, computed from the recalls' intervals; `None` if nothing was judged.

        In simulations with 12 to 60 clusters and four labels, the interval covers the true value in 91 to 99 % of
        samples.
        """
        recalls = [recall for label in self.labels if (recall := self.recall(label))]
        return combine_rates(recalls, [1 / len(recalls)] * len(recalls)).interval if recalls else None

    @property
    def commonest(self) -> float | None:
        """Accuracy that a judge would have if it always gave the most common label."""
        return max(score.expected for score in self.scores) / self.judged if self.judged else None

    @cached_property
    def kappa(self) -> Kappa | None:
        """Cohen's kappa; `None` if nothing was judged, or if people and the judge always gave the same single label."""
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
    return TrialCluster(
        sum(count for (expected, predicted), count in group.items() if expected == predicted), group.total()
    )


def _grouped(pairs: Iterable[LabelPair]) -> tuple[Counter[tuple[str, str]], ...]:
    """Return, for each observation, how often each pair of labels occurs. Unjudged subjects are left out.

    An observation is a cluster of pairs, or a single pair that has no cluster.
    """
    single_pairs, clusters = [], dict[str, Counter[tuple[str, str]]]()
    for pair in pairs:
        if pair.predicted is None:
            continue
        if pair.cluster is None:
            single_pairs.append(Counter([(pair.expected, pair.predicted)]))
        else:
            clusters.setdefault(pair.cluster, Counter())[pair.expected, pair.predicted] += 1
    return (*single_pairs, *clusters.values())
