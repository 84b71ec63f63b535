"""Intervals of rates, means and balanced accuracy; reliability of stated confidence."""

import random
from math import inf

import pytest

from evalscribe.statistics.agreement import Calibration, LabelPair, reliability
from evalscribe.statistics.intervals import (
    Interval,
    TrialCluster,
    ValueWithInterval,
    cluster_interval,
    combine_rates,
    estimate_mean,
    estimate_rate,
    wilson_interval,
)

RUNS = 200
TRUE_RECALLS = {"model": 0.95, "strict": 0.6, "unclear": 0.5, "gap": 0.7}


def test_rate_of_single_trials_has_wilsons_interval() -> None:
    single = [TrialCluster(1, 1)] * 7 + [TrialCluster(0, 1)] * 3
    assert estimate_rate(single) == ValueWithInterval(0.7, wilson_interval(7, 10))


def test_rate_of_clusters_has_a_cluster_interval_and_ignores_empty_clusters() -> None:
    clusters = [TrialCluster(3, 3), TrialCluster(0, 2), TrialCluster(0, 0)]
    assert estimate_rate(clusters) == ValueWithInterval(
        0.6, cluster_interval({TrialCluster(3, 3): 1, TrialCluster(0, 2): 1})
    )
    assert estimate_rate([TrialCluster(0, 0)]) is None


def test_difference_of_rates_matches_newcombes_published_example() -> None:
    """Newcombe 1998, Table II, example (a): 56/70 against 48/80, method 10 gives 0.0524 to 0.3339."""
    first, second = (
        ValueWithInterval(56 / 70, wilson_interval(56, 70)),
        ValueWithInterval(48 / 80, wilson_interval(48, 80)),
    )
    difference = combine_rates((first, second), (1, -1))
    assert difference.value == pytest.approx(0.2)
    assert tuple(difference.interval) == pytest.approx((0.0524, 0.3339), abs=5e-5)


def test_mean_of_single_values_has_students_interval() -> None:
    mean = estimate_mean([[1.0], [2.0], [3.0]])
    assert mean is not None
    assert mean.value == 2.0
    assert mean.interval.high - 2.0 == pytest.approx(4.302653 / 3**0.5)


def test_repeated_values_of_a_cluster_do_not_narrow_the_mean_interval() -> None:
    once, thrice = estimate_mean([[1.0], [2.0], [4.0]]), estimate_mean([[1.0] * 3, [2.0] * 3, [4.0] * 3])
    assert once is not None
    assert thrice is not None
    assert tuple(thrice.interval) == pytest.approx(tuple(once.interval))
    assert estimate_mean([[1.0, 5.0]]) == ValueWithInterval(3.0, Interval(-inf, inf))
    assert estimate_mean([[]]) is None


def draw_calibration(toss: random.Random, groups: int) -> Calibration:
    """Draw clusters of one to three evals that mostly share one label and one outcome."""
    pairs = []
    for group in range(groups):
        usual, luck = toss.choices(list(TRUE_RECALLS), (0.6, 0.15, 0.15, 0.1))[0], toss.random()
        for _ in range(toss.choice((1, 2, 3))):
            label = usual if toss.random() < 0.8 else toss.choice(list(TRUE_RECALLS))
            right = (luck if toss.random() < 0.7 else toss.random()) < TRUE_RECALLS[label]
            pairs.append(LabelPair(expected=label, predicted=label if right else "other", cluster=str(group)))
    return Calibration(pairs)


def test_balanced_accuracy_interval_keeps_its_coverage() -> None:
    toss, held = random.Random(5), 0
    true = sum(TRUE_RECALLS.values()) / 4
    for _ in range(RUNS):
        interval = draw_calibration(toss, 40).balanced_interval
        assert interval is not None
        held += interval.low <= true <= interval.high
    assert held / RUNS > 0.91


def test_recall_interval_uses_only_clusters_of_its_label() -> None:
    pairs = [LabelPair(expected="cat", predicted=predicted, cluster="a") for predicted in ("cat", "cat", "dog")]
    pairs += [LabelPair(expected="dog", predicted="dog", cluster=cluster) for cluster in "ab"]
    calibration = Calibration(pairs)
    assert calibration.recall("cat") == ValueWithInterval(2 / 3, Interval(0.0, 1.0))
    assert calibration.recall("dog") == ValueWithInterval(1.0, wilson_interval(2, 2))
    assert calibration.recall("bird") is None
    assert Calibration([]).balanced_interval is None


def test_reliability_matches_a_hand_calculation() -> None:
    stated = [*((0.9, right) for right in (True, True, True, False)), (0.41, True), (0.45, False), (0.0, False)]
    result = reliability(stated)
    assert result is not None
    assert [(one.low, one.high, one.verdicts) for one in result.bins] == [(0.0, 0.1, 1), (0.4, 0.5, 2), (0.8, 0.9, 4)]
    assert [one.agreement for one in result.bins] == [0, 0.5, 0.75]
    assert result.calibration_error == pytest.approx((2 * 0.07 + 4 * 0.15) / 7)
    assert result.brier == pytest.approx((3 * 0.01 + 0.81 + 0.59**2 + 0.45**2) / 7)


def test_reliability_of_nothing_is_none() -> None:
    assert reliability([]) is None
