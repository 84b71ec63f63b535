"""Coverage and edge cases of the interval of a rate of clustered trials."""

import random
from collections import Counter

import pytest

from evalscribe.statistics.intervals import TrialCluster, cluster_interval, wilson_interval

RUNS = 400


def draw_clusters(
    toss: random.Random, groups: int, trials: int, share: float, likeness: float
) -> Counter[TrialCluster]:
    """Draw clusters whose pass rates vary around `share`; with `likeness` near 1 the trials of a cluster are alike."""
    spread = (1 - likeness) / likeness
    chances = (toss.betavariate(share * spread, (1 - share) * spread) for _ in range(groups))
    return Counter(TrialCluster(sum(toss.random() < chance for _ in range(trials)), trials) for chance in chances)


@pytest.mark.parametrize(("groups", "trials"), [(10, 5), (50, 3)])
@pytest.mark.parametrize("share", [0.5, 0.9])
@pytest.mark.parametrize("likeness", [0.05, 0.6])
def test_cluster_interval_keeps_its_coverage(groups: int, trials: int, share: float, likeness: float) -> None:
    toss = random.Random(4)
    intervals = [cluster_interval(draw_clusters(toss, groups, trials, share, likeness)) for _ in range(RUNS)]
    assert sum(low <= share <= high for low, high in intervals) / RUNS >= 0.93


def test_cluster_interval_keeps_its_coverage_with_one_dominant_cluster() -> None:
    """Nine clusters have one item and one has ten; all items of a cluster have the same outcome."""
    toss = random.Random(5)
    intervals = []
    for _ in range(RUNS):
        passed = [toss.random() < 0.9 for _ in range(10)]
        intervals.append(
            cluster_interval(
                Counter([TrialCluster(10 * passed[0], 10), *(TrialCluster(int(one), 1) for one in passed[1:])])
            )
        )
    assert sum(low <= 0.9 <= high for low, high in intervals) / RUNS >= 0.93


def test_trials_of_one_item_do_not_count_as_independent_observations() -> None:
    """Five trials of 20 items that always or never pass carry no more information than one trial."""
    low, high = cluster_interval({TrialCluster(5, 5): 15, TrialCluster(0, 5): 5})
    naive = wilson_interval(75, 100)
    assert high - low > 1.5 * (naive.high - naive.low)


def test_perfect_rate_has_a_higher_lower_bound_than_an_almost_perfect_one() -> None:
    """Otherwise a perfect run would look worse than one with a failed trial."""
    perfect = {TrialCluster(5, 5): 20}
    almost = {TrialCluster(5, 5): 19, TrialCluster(4, 5): 1}
    assert cluster_interval(perfect).low > cluster_interval(almost).low
    assert cluster_interval(perfect).high == 1.0


@pytest.mark.parametrize("clusters", [{}, {TrialCluster(3, 3): 1}])
def test_interval_of_at_most_one_cluster_is_0_to_1(clusters: dict[TrialCluster, int]) -> None:
    assert cluster_interval(clusters) == (0.0, 1.0)


@pytest.mark.parametrize("passed", [0, 2])
def test_observed_rate_lies_inside_the_interval(passed: int) -> None:
    low, high = cluster_interval({TrialCluster(passed, 2): 3})
    assert low <= passed / 2 <= high
