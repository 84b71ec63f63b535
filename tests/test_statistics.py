"""Intervals against published values, and their edges."""

import sys

import pytest

from evalscribe.errors import UsageError
from evalscribe.statistics import wilson


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (5, 10, 0.2366, 0.7634), (81, 263, 0.2553, 0.3662)],
)
def test_wilson_agrees_with_the_published_interval(successes: int, trials: int, low: float, high: float) -> None:
    interval = wilson(successes, trials)
    assert interval.low == pytest.approx(low, abs=5e-4)
    assert interval.high == pytest.approx(high, abs=5e-4)


def test_nothing_tried_says_nothing() -> None:
    assert wilson(0, 0) == (0.0, 1.0)


def test_more_confidence_is_a_wider_interval() -> None:
    narrow, wide = wilson(7, 20, 0.9), wilson(7, 20, 0.99)
    assert wide.low < narrow.low < narrow.high < wide.high


def test_without_scipy_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    with pytest.raises(UsageError, match=r"evalscribe\[stats\]"):
        wilson(1, 2)
