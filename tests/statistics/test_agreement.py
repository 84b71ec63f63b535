"""Wilson interval and kappa against published values, and edge cases."""

import pytest
import scipy

from evalscribe.statistics.agreement import kappa
from evalscribe.statistics.intervals import wilson_interval


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (5, 10, 0.2366, 0.7634), (81, 263, 0.2553, 0.3662)],
)
def test_wilson_interval_matches_published_values(successes: int, trials: int, low: float, high: float) -> None:
    interval = wilson_interval(successes, trials)
    assert interval.low == pytest.approx(low, abs=5e-4)
    assert interval.high == pytest.approx(high, abs=5e-4)


def test_wilson_interval_of_no_trials_is_0_to_1() -> None:
    assert wilson_interval(0, 0) == (0.0, 1.0)


def test_higher_confidence_gives_a_wider_interval() -> None:
    narrow, wide = wilson_interval(7, 20, 0.9), wilson_interval(7, 20, 0.99)
    assert wide.low < narrow.low < narrow.high < wide.high


@pytest.mark.parametrize("trials", [1, 2, 7, 50, 1000])
@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
def test_wilson_interval_matches_scipy(trials: int, confidence: float) -> None:
    for successes in {0, 1, trials // 3, trials - 1, trials}:
        scipys = scipy.stats.binomtest(successes, trials).proportion_ci(confidence_level=confidence, method="wilson")
        assert wilson_interval(successes, trials, confidence) == pytest.approx((scipys.low, scipys.high), abs=1e-12)


def test_kappa_matches_cohens_published_example() -> None:
    """Cohen (1960), table 1: 200 pairs."""
    estimate = kappa([[88, 14, 18], [10, 40, 10], [2, 6, 12]])
    assert estimate is not None
    assert estimate.value == pytest.approx(0.492, abs=1e-3)


def test_kappa_interval_matches_fleiss_cohen_and_everitt() -> None:
    """Fleiss et al. (1969): shares 0.53 0.05 0.02 / 0.11 0.14 0.05 / 0.01 0.06 0.03 of 200, variance 0.002885."""
    estimate = kappa([[106, 10, 4], [22, 28, 10], [2, 12, 6]])
    assert estimate is not None
    assert estimate.value == pytest.approx(0.429, abs=1e-3)
    deviation = (estimate.interval.high - estimate.value) / 1.959964
    assert deviation**2 == pytest.approx(0.002885, abs=5e-6)


def test_kappa_is_1_for_full_agreement_and_minus_1_for_full_disagreement() -> None:
    estimate = kappa([[5, 0], [0, 5]])
    assert estimate is not None
    assert estimate.value == 1
    opposite = kappa([[0, 5], [5, 0]])
    assert opposite is not None
    assert opposite.value == -1
    assert opposite.interval.low == -1


@pytest.mark.parametrize(
    ("table", "value", "low", "high"),
    [
        ([[5, 0], [0, 5]], 1.0, 0.445, 1.0),
        ([[100, 0], [0, 100]], 1.0, 0.962, 1.0),
        ([[0, 1], [0, 0]], 0.0, 0.0, 0.7935),
        ([[3, 0], [2, 0]], 0.0, -0.923, 0.706),
    ],
)
def test_kappa_interval_has_width_when_the_estimated_variance_is_zero(
    table: list[list[int]], value: float, low: float, high: float
) -> None:
    """By hand: Wilson bounds of 10/10, 200/200, 0/1 and 3/5, corrected for chance of 1/2, 1/2, 0 and 3/5."""
    estimate = kappa(table)
    assert estimate is not None
    assert estimate.value == pytest.approx(value)
    assert estimate.interval == pytest.approx((low, high), abs=1e-3)


@pytest.mark.parametrize("table", [[], [[0]], [[7]], [[0, 0], [0, 7]]])
def test_kappa_is_none_when_chance_agreement_is_1(table: list[list[int]]) -> None:
    assert kappa(table) is None
