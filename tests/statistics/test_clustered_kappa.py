"""Kappa of clustered pairs: its interval keeps its coverage where the unclustered one does not."""

import random
from collections import Counter

import pytest

from evalscribe.statistics.agreement import clustered_kappa, kappa

RUNS = 200
SHARES = (0.55, 0.2, 0.15, 0.1)
Pairs = Counter[tuple[int, int]]


def draw_clusters(toss: random.Random, groups: int, size: int, right: float) -> list[Pairs]:
    """Draw clusters with one expected label; a prediction repeats its cluster's first one in nine of ten cases."""
    return [one_group(toss, size, right) for _ in range(groups)]


def one_group(toss: random.Random, size: int, right: float) -> Pairs:
    truth = toss.choices(range(4), SHARES)[0]

    def predict() -> int:
        return truth if toss.random() < right else toss.choice([other for other in range(4) if other != truth])

    alike = predict()
    return Counter((truth, alike if toss.random() < 0.9 else predict()) for _ in range(size))


def table(groups: list[Pairs]) -> list[list[int]]:
    whole = sum(groups, Counter[tuple[int, int]]())
    return [[whole[row, column] for column in range(4)] for row in range(4)]


def test_clustered_kappa_interval_keeps_its_coverage() -> None:
    toss = random.Random(7)
    true = kappa(table(draw_clusters(toss, 20_000, 1, 0.7)))
    assert true is not None
    held = apart = 0
    for _ in range(RUNS):
        groups = draw_clusters(toss, 25, 5, 0.7)
        ours, single = clustered_kappa(groups, 4), kappa(table(groups))
        assert ours is not None
        assert single is not None
        assert ours.value == single.value
        held += ours.interval.low <= true.value <= ours.interval.high
        apart += single.interval.low <= true.value <= single.interval.high
    assert held / RUNS > 0.91
    assert apart / RUNS < 0.75, "as if every pair were on its own"


def test_clustered_kappa_of_single_pairs_equals_plain_kappa() -> None:
    groups = draw_clusters(random.Random(1), 60, 1, 0.7)
    assert clustered_kappa(groups, 4) == kappa(table(groups))


def test_repeating_identical_pairs_does_not_narrow_the_interval() -> None:
    once = draw_clusters(random.Random(3), 60, 1, 0.7)
    thrice = [Counter({pair: 3 * count for pair, count in group.items()}) for group in once]
    ours, single = clustered_kappa(thrice, 4), kappa(table(once))
    assert ours is not None
    assert single is not None
    assert tuple(ours.interval) == pytest.approx(tuple(single.interval), abs=0.02)


def test_kappa_interval_edge_cases_of_one_cluster_and_full_agreement() -> None:
    both = Counter({(0, 0): 2, (1, 1): 2})
    one, several = clustered_kappa([both], 2), clustered_kappa([both] * 12, 2)
    assert one is not None
    assert several is not None
    assert (one.value, one.interval) == (1.0, (-1.0, 1.0))
    assert several.interval.high == 1.0
    assert 0 < several.interval.low < 0.9
    assert clustered_kappa([Counter({(0, 0): 4})], 2) is None
