"""Check limits for the figures of `experiment_statistics.py` on a part of its comparisons."""

from math import comb

import pytest

from benchmarks.experiment_statistics import Setting, pairs, power, rates
from evalscribe.model.comparison import RunComparison

EQUALS = (Setting(20, 1, 1, 1, 0.7), Setting(20, 2, 1, 1, 0.5), Setting(24, 1, 2, 1, 0.7), Setting(10, 1, 1, 3, 0.7))


@pytest.mark.parametrize("setting", EQUALS, ids=str)
def test_equals_are_seldom_called_different(setting: Setting) -> None:
    found = rates(setting, 0.0, 40)
    assert found.alarms <= 0.05 + 0.07  # two standard errors for so few pairs
    assert found.scorers <= 0.05 + 0.07
    assert found.covered >= 0.9


def test_a_detectable_drop_is_found_about_as_often_as_is_said() -> None:
    told = power(Setting(30, 1, 1, 1, 0.7), 40)
    assert told is not None
    assert told[1] >= 0.7


def test_broken_tries_are_no_alarm() -> None:
    found = rates(Setting(20, 1, 1, 1, 0.7), 0.0, 40, broken=0.1)
    assert found.alarms <= 0.12
    assert 0.75 <= found.coverage <= 0.87


def test_of_few_items_p_is_that_of_all_outcomes_counted() -> None:
    """The p-value is compared with McNemar's exact test, computed by its definition."""
    for found in pairs(Setting(12, 1, 1, 1, 0.5), 0.0, 40):
        worse, better = len(found.regressed), len(found.fixed)
        assert found.passes is not None
        assert found.passes.p == pytest.approx(mcnemar(worse, better))
        assert found.verdict == expected(found)


def mcnemar(worse: int, better: int) -> float:
    flips = worse + better
    if worse == better:
        return 1.0
    return min(1.0, 2 * sum(comb(flips, k) for k in range(min(worse, better) + 1)) / 2**flips)


def expected(found: RunComparison) -> str:
    """Return the verdict that the published rule gives."""
    worse, better = len(found.regressed), len(found.fixed)
    if mcnemar(worse, better) <= 0.05:
        return "regressed" if worse > better else "improved"
    too_few = (worse == 0) != (better == 0)
    nothing_detectable = found.passes is None or found.passes.detectable is None
    return "inconclusive" if too_few or nothing_detectable else "no-detectable-change"
