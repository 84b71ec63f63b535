"""Confidence intervals of proportions and means, for single trials and for clusters of trials; rank correlation."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import comb, fsum, sqrt
from typing import NamedTuple

PSEUDO_CLUSTERS = 2
"""Number of imaginary clusters of each kind that are added to the observed clusters. In one kind of imaginary cluster
all trials pass; in the other kind all trials fail. Without imaginary clusters, the interval would have no width if all
clusters were equal. Agresti and Coull (1998, The American Statistician 52) add trials in the same way.
"""
PASSING_OFTEN = 0.8


class Interval(NamedTuple):
    """A confidence interval.

    Both ends of the interval are between 0 and 1, or between -1 and 1 for kappa and differences of rates. The ends of a
    mean's interval can have any value.
    """

    low: float
    high: float


class ValueWithInterval(NamedTuple):
    """A value with its 95 % confidence interval."""

    value: float
    interval: Interval


class TrialCluster(NamedTuple):
    """Trials that count as one observation: the trials of one item, or the trials of all items from one source."""

    passed: int
    trials: int


# scipy is imported inside these functions. The import takes about a second of CPU time, and commands that only list
# things do not need it.


def student_quantile(probability: float, degrees_of_freedom: int) -> float:
    """Return a quantile of Student's t distribution; infinity for less than one degree of freedom."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees_of_freedom, probability)) if degrees_of_freedom >= 1 else float("inf")


def wilson_interval(successes: int, trials: int, confidence: float = 0.95) -> Interval:
    """Return the Wilson score interval of a proportion; (0, 1) if there are no trials."""
    from scipy.stats import binomtest

    if trials == 0:
        return Interval(0.0, 1.0)
    ends = binomtest(successes, trials).proportion_ci(confidence, method="wilson")
    return Interval(float(ends.low), float(ends.high))


def cluster_interval(clusters: Mapping[TrialCluster, int], confidence: float = 0.95) -> Interval:
    """Return the confidence interval of the pass rate over all trials. Each cluster is one observation.

    The variance is computed as for a ratio of cluster totals (Cochran 1977, Sampling Techniques, section 11.8).

    Args:
        clusters: Each distinct cluster with its number of occurrences.

    Returns:
        The interval; (0, 1) for fewer than two clusters, because one cluster says nothing about other clusters.
    """
    number = sum(clusters.values())
    if number < 2:
        return Interval(0.0, 1.0)
    trials = sum(cluster.trials * count for cluster, count in clusters.items())
    passed = sum(cluster.passed * count for cluster, count in clusters.items())
    size = trials / number
    total = trials + 2 * PSEUDO_CLUSTERS * size
    share = (passed + PSEUDO_CLUSTERS * size) / total
    squares = fsum(count * (cluster.passed - cluster.trials * share) ** 2 for cluster, count in clusters.items())
    squares += PSEUDO_CLUSTERS * size**2 * ((1 - share) ** 2 + share**2)
    groups = number + 2 * PSEUDO_CLUSTERS
    quantile = student_quantile((1 + confidence) / 2, _degrees_of_freedom(clusters, groups))
    half = quantile * sqrt(groups / (groups - 1) * squares) / total
    # The interval is centred on the share that includes the imaginary clusters,
    # so the observed share could be outside it.
    observed = passed / trials
    return Interval(max(0.0, min(observed, share - half)), min(1.0, max(observed, share + half)))


def _degrees_of_freedom(clusters: Mapping[TrialCluster, int], groups: int) -> int:
    """Return the degrees of freedom of a cluster interval.

    If all observed clusters have the same size, the result is `groups` minus 1. `groups` is the number of observed and
    imaginary clusters together. If sizes differ, the result is Kish's effective number of observed clusters (1965,
    Survey Sampling) minus 1.

    In simulations with 2 to 30 clusters, the interval's coverage is at least 94 %, or 91 % if one cluster has a quarter
    of all trials.
    """
    if len({cluster.trials for cluster in clusters}) == 1:
        return groups - 1
    trials = sum(cluster.trials * count for cluster, count in clusters.items())
    squares = sum(cluster.trials**2 * count for cluster, count in clusters.items())
    return max(1, trials**2 // squares - 1)


def rank_correlation(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Return Spearman's rank correlation.

    The result is None for fewer than three pairs, or if all first values or all second values are equal.
    """
    from scipy.stats import spearmanr

    # Two pairs always have a correlation of 1 or -1. For equal values, scipy returns NaN.
    if len(pairs) < 3 or any(len(set(side)) == 1 for side in zip(*pairs, strict=True)):
        return None
    return float(spearmanr(*zip(*pairs, strict=True)).statistic)


def estimate_rate(clusters: Iterable[TrialCluster]) -> ValueWithInterval | None:
    """Return the pass rate of all trials.

    The interval is Wilson's if each cluster has a single trial, else `cluster_interval`.

    Returns:
        The rate, or `None` if there are no trials.
    """
    counts = Counter(cluster for cluster in clusters if cluster.trials)
    trials = sum(cluster.trials * count for cluster, count in counts.items())
    if not trials:
        return None
    passed = sum(cluster.passed * count for cluster, count in counts.items())
    single = all(cluster.trials == 1 for cluster in counts)
    return ValueWithInterval(passed / trials, wilson_interval(passed, trials) if single else cluster_interval(counts))


def combine_rates(rates: Sequence[ValueWithInterval], weights: Sequence[float]) -> ValueWithInterval:
    """Return the weighted sum of rates of independent trials, such as a difference (weights 1 and -1) or a mean.

    The interval is computed from the rates' own intervals (Zou and Donner 2008, Statistics in Medicine 27). The
    interval has a width even if every rate is 0 or 1. For the difference of two rates with Wilson's intervals, the
    result is Newcombe's interval (1998, Statistics in Medicine 17, method 10).
    """
    value = fsum(weight * rate.value for rate, weight in zip(rates, weights, strict=True))
    down, up = [], []
    for (rate, (low, high)), weight in zip(rates, weights, strict=True):
        down.append(weight * (rate - (low if weight > 0 else high)))
        up.append(weight * ((high if weight > 0 else low) - rate))
    return ValueWithInterval(
        value, Interval(value - sqrt(fsum(x**2 for x in down)), value + sqrt(fsum(x**2 for x in up)))
    )


def estimate_mean(clusters: Iterable[Sequence[float]]) -> ValueWithInterval | None:
    """Return the mean of all values, such as tokens per failure. Each cluster of values is one observation.

    The variance is computed as for a ratio of cluster totals (Cochran 1977, Sampling Techniques, section 11.8). The
    interval is based on Student's t distribution. The number of degrees of freedom is Kish's effective number of
    clusters (1965, Survey Sampling) minus 1.

    Returns:
        The mean, or `None` if there are no values. With fewer than two clusters, the interval is infinite.
    """
    groups = [cluster for cluster in clusters if cluster]
    number = sum(map(len, groups))
    if not number:
        return None
    mean = fsum(map(fsum, groups)) / number
    if len(groups) < 2:
        return ValueWithInterval(mean, Interval(float("-inf"), float("inf")))
    squares = fsum((fsum(group) - len(group) * mean) ** 2 for group in groups)
    degrees_of_freedom = max(1, number**2 // sum(len(group) ** 2 for group in groups) - 1)
    half = student_quantile(0.975, degrees_of_freedom) * sqrt(len(groups) / (len(groups) - 1) * squares) / number
    return ValueWithInterval(mean, Interval(mean - half, mean + half))


def passing_range(needed: int, trials: int) -> Interval:
    """Return the range of true pass rates at which passing a gate is largely a matter of chance.

    At a true pass rate of `low`, 20 of 100 runs reach at least `needed` passes in `trials` trials. At `high`, 80 of 100
    runs do. As a function of the rate, the probability of at least `needed` passes is a beta distribution function
    (Clopper and Pearson 1934, Biometrika 26).
    """
    from scipy.special import betaincinv

    if needed <= 0:
        return Interval(0.0, 0.0)
    low, high = (float(betaincinv(needed, trials - needed + 1, share)) for share in (1 - PASSING_OFTEN, PASSING_OFTEN))
    return Interval(low, high)


def pass_at(passed: int, trials: int, k: int) -> float | None:
    """Estimate pass@k, the probability that at least one of `k` trials passes (Chen et al. 2021, arXiv:2107.03374).

    Returns:
        The unbiased estimate; `None` for fewer than `k` trials.
    """
    return None if trials < k else 1 - comb(trials - passed, k) / comb(trials, k)


def pass_every(passed: int, trials: int, k: int) -> float | None:
    """Estimate pass^k, the probability that `k` trials all pass (Yao et al. 2024, arXiv:2406.12045).

    Returns:
        The unbiased estimate; `None` for fewer than `k` trials.
    """
    return None if trials < k else comb(passed, k) / comb(trials, k)
