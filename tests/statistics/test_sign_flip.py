"""Sign-flip test and Holm correction against enumeration, scipy and published tables."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from statistics import NormalDist

import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st

from evalscribe.statistics.significance import DRAWS, holm, sign_flip_test

SOME = st.builds(Fraction, st.integers(-6, 6), st.sampled_from((1, 2, 3, 4, 5)))


def single(better: int, worse: int, same: int = 0) -> list[Fraction]:
    return [Fraction(1)] * better + [Fraction(-1)] * worse + [Fraction(0)] * same


def enumerated(differences: Sequence[Fraction]) -> float:
    observed = abs(sum(differences))
    flips = list(product((1, -1), repeat=len(differences)))
    far = (abs(sum(d * f for d, f in zip(differences, flip, strict=True))) >= observed for flip in flips)
    return sum(far) / len(flips)


@given(st.lists(SOME, min_size=1, max_size=9))
@settings(max_examples=60)
def test_p_value_matches_enumeration_of_all_sign_flips(differences: list[Fraction]) -> None:
    result = sign_flip_test(differences)
    assert result.exact
    assert result.p_value == pytest.approx(enumerated(differences), abs=1e-12)


@pytest.mark.parametrize(
    ("better", "worse", "p"),
    [
        pytest.param(1, 7, 0.0703, id="airways: Fagerland, Lydersen and Laake 2013"),
        pytest.param(6, 3, 0.5078, id="nine changed"),
        pytest.param(5, 0, 0.0625, id="five of five are not significant"),
        pytest.param(6, 0, 0.03125, id="six are"),
    ],
)
def test_sign_flip_test_of_single_trials_equals_mcnemars_exact_test(better: int, worse: int, p: float) -> None:
    assert sign_flip_test(single(better, worse, 20)).p_value == pytest.approx(p, abs=5e-5)


def test_agrestis_approval_survey_is_significant() -> None:
    """1,600 people asked twice: 150 changed to disapproval, 86 to approval (McNemar's z² is 17.36)."""
    result = sign_flip_test(single(86, 150, 1364))
    assert result.p_value == pytest.approx(scipy.stats.binomtest(86, 236).pvalue, rel=1e-9)
    assert result.p_value < 1e-4


@pytest.mark.parametrize(("better", "worse"), [(0, 0), (40, 40), (900, 1100), (5_000, 5_200)])
def test_large_counts_agree_with_scipy(better: int, worse: int) -> None:
    expected = scipy.stats.binomtest(better, better + worse).pvalue if better + worse else 1.0
    assert sign_flip_test(single(better, worse)).p_value == pytest.approx(expected, rel=1e-7)


def test_p_value_ignores_order_and_direction_of_differences() -> None:
    differences = [Fraction(n, 4) for n in (3, -1, 2, 4, -2, 0, 1)]
    assert sign_flip_test(differences) == sign_flip_test(reversed([-one for one in differences]))


def test_sampled_p_value_is_deterministic_and_close_to_normal() -> None:
    """The sum of very many differences is approximately normal."""
    fine = [Fraction((n * n) % 997 - 470, 10_007) for n in range(3_000)]
    result = sign_flip_test(fine)
    assert not result.exact
    assert result == sign_flip_test(fine)
    spread = sum(float(one) ** 2 for one in fine) ** 0.5
    likely = 2 * (1 - NormalDist().cdf(abs(float(sum(fine))) / spread))
    assert result.p_value == pytest.approx(likely, abs=0.02)
    assert sign_flip_test([Fraction(n % 9 - 3, 8) for n in range(20_000)]).p_value == pytest.approx(1 / (DRAWS + 1))


def test_holm_correction_matches_a_worked_example() -> None:
    """The worked example of Holm's procedure: the smallest times four, the next times three …"""
    corrected = holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005})
    assert corrected == pytest.approx({"a": 0.03, "b": 0.06, "c": 0.06, "d": 0.02})
    assert holm({}) == {}
    assert holm({"a": 0.7, "b": 0.9}) == {"a": 1.0, "b": 1.0}
