"""Check limits for the figures of `compare_statistics.py` on a part of its comparisons."""

import pytest

from benchmarks.compare_statistics import SETTINGS, power, rates

REPEATS = 150
NAMED = {setting.name: setting for setting in SETTINGS}


@pytest.mark.parametrize("name", ["any difficulty", "nearly all pass", "other tasks"])
@pytest.mark.parametrize("trials", [(1, 1), (4, 4), (2, 5)])
def test_equals_are_seldom_called_different(name: str, trials: tuple[int, int]) -> None:
    found = rates(NAMED[name], 25, trials, REPEATS)
    assert found.alarms <= 0.05 + 0.04  # more than two standard errors for so few repetitions
    assert found.covered >= 0.91


def test_the_interval_holds_a_real_difference() -> None:
    assert rates(NAMED["worse by 0.2"], 25, (4, 4), REPEATS).covered >= 0.91


def test_a_detectable_difference_is_found_about_as_often_as_is_said() -> None:
    _, found = power(25, (4, 4), REPEATS)
    assert 0.7 <= found <= 0.92
