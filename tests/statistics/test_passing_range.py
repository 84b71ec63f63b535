"""Passing ranges against scipy."""

import pytest
import scipy

from evalscribe.statistics.intervals import passing_range


@pytest.mark.parametrize(
    ("needed", "trials", "off"),
    [(1, 1, 1e-9), (18, 20, 1e-9), (20, 20, 1e-9), (950, 1000, 1e-9), (951, 1001, 0.005), (9500, 10000, 0.005)],
)
def test_passing_range_gives_the_rates_that_pass_20_and_80_percent_of_the_time(
    needed: int, trials: int, off: float
) -> None:
    low, high = passing_range(needed, trials)
    assert scipy.stats.binom.sf(needed - 1, trials, low) == pytest.approx(0.2, abs=off)
    assert scipy.stats.binom.sf(needed - 1, trials, high) == pytest.approx(0.8, abs=off)


def test_passing_range_is_zero_when_no_pass_is_needed() -> None:
    assert passing_range(0, 10) == (0.0, 0.0)
