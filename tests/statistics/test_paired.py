"""Paired comparisons against published intervals, and edge cases."""

from fractions import Fraction
from itertools import product

import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st

from evalscribe.statistics.intervals import student_quantile
from evalscribe.statistics.significance import Task, compare_pairs

TRIALS = st.lists(st.sampled_from((Fraction(0), Fraction(1))), min_size=1, max_size=5).map(tuple)


def tasks(both: int = 0, fixed: int = 0, regressed: int = 0, neither: int = 0) -> list[Task]:
    outcomes = (((1, 1), both), ((0, 1), fixed), ((1, 0), regressed), ((0, 0), neither))
    return [Task((Fraction(b),), (Fraction(c),)) for (b, c), count in outcomes for _ in range(count)]


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 7, 30, 199, 200, 201, 5_000])
@pytest.mark.parametrize("share", [0.8, 0.975, 0.999])
def test_student_quantiles_match_scipy(freedom: int, share: float) -> None:
    assert student_quantile(share, freedom) == pytest.approx(scipy.stats.t.ppf(share, freedom), rel=1e-6)


def test_paired_interval_matches_agrestis_survey() -> None:
    """794 approve twice, 86 change to approval, 150 to disapproval, 570 never approve: -0.04 (-0.06 to -0.02)."""
    comparison = compare_pairs(tasks(794, 86, 150, 570))
    assert comparison.difference == pytest.approx(-0.04)
    assert comparison.interval == pytest.approx((-0.06, -0.02), abs=2e-3)
    assert comparison.significant


def test_single_trials_get_the_bonett_price_interval() -> None:
    """The standard error uses one more pair in each direction; the interval is centred on the plain difference."""
    fixed, regressed, number = 12, 30, 100
    comparison = compare_pairs(tasks(40, fixed, regressed, 18))
    p12, p21 = (fixed + 1) / (number + 2), (regressed + 1) / (number + 2)
    error = ((p12 + p21 - (p12 - p21) ** 2) / (number + 1)) ** 0.5
    half = scipy.stats.t.ppf(0.975, number + 1) * error
    assert comparison.interval.low == pytest.approx(comparison.difference - half, abs=1e-9)


def test_interval_has_width_when_nothing_changed() -> None:
    few, many = compare_pairs(tasks(both=10)), compare_pairs(tasks(both=1_000))
    assert few.test.p_value == 1
    assert few.interval.low < -0.1
    assert few.interval.high > 0.1
    assert many.interval.high < 0.01


def test_five_regressed_tasks_are_not_significant_and_six_are() -> None:
    assert not compare_pairs(tasks(regressed=5)).significant
    assert compare_pairs(tasks(regressed=5)).detectable is None
    assert compare_pairs(tasks(regressed=6)).significant
    assert compare_pairs([]).detectable is None
    assert compare_pairs([]).difference == 0


def test_more_trials_or_tasks_lower_the_detectable_effect() -> None:
    one = [Task((Fraction(n % 2),), (Fraction(n % 3 == 0),)) for n in range(40)]
    four = [Task(task.base * 4, task.candidate * 4) for task in one]
    assert compare_pairs(four).detectable < compare_pairs(one).detectable  # type: ignore[operator]
    assert compare_pairs(one * 4).detectable < compare_pairs(one).detectable  # type: ignore[operator]


def test_task_is_one_observation_regardless_of_its_trials() -> None:
    """Four equal trials of six tasks are not 24 observations."""
    one, four = tasks(regressed=3, both=3), [Task(t.base * 4, t.candidate * 4) for t in tasks(regressed=3, both=3)]
    assert compare_pairs(one).test.p_value == compare_pairs(four).test.p_value == 0.25


def test_unequal_trial_counts_are_not_significant_by_themselves() -> None:
    """One trial against eight shows a difference even if both sides are equal."""
    task = Task((Fraction(1),), (Fraction(1),) * 7 + (Fraction(0),))
    comparison = compare_pairs([task] * 20)
    assert comparison.difference == -0.125
    assert comparison.test.p_value == 1
    assert comparison.interval.high >= 0


@given(st.lists(st.builds(Task, TRIALS, TRIALS), max_size=14))
@settings(max_examples=80)
def test_interval_and_significance_test_agree_about_zero(some: list[Task]) -> None:
    comparison = compare_pairs(some)
    low, high = comparison.interval
    assert -1 <= low <= high <= 1
    if not comparison.significant:
        assert low <= 0 <= high
    else:
        assert low >= 0 or high <= 0


def test_surplus_trials_do_not_make_the_opposite_direction_significant() -> None:
    """The paired trials favour the base and all trials favour the candidate, so neither is significant."""
    one, none = (Fraction(1),), (Fraction(0),)
    worse, better = Task(one, none + one * 7), Task(none, none + one * 7)
    comparison = compare_pairs([worse] * 6 + [better] * 10)
    assert comparison.difference > 0
    assert not comparison.significant


@pytest.mark.parametrize(("number", "needed"), [(12, 0.578), (25, 0.297), (40, 0.190), (100, 0.078)])
def test_detectable_effect_without_changes_matches_the_exact_test(number: int, needed: float) -> None:
    """`needed` is the rate of tasks changed in one direction at which 80 of 100 suites have at least six of them."""
    assert scipy.stats.binom.sf(5, number, needed) == pytest.approx(0.8, abs=0.01)
    assert compare_pairs(tasks(both=number)).detectable == pytest.approx(needed, rel=0.03)


def test_tasks_of_one_cluster_are_one_observation() -> None:
    """Thirty regressed tasks in five clusters count as five flips, which is not significant."""
    fell = tasks(regressed=30, both=30)
    comparison = compare_pairs(
        fell, clusters=[number % 10 for number in range(30)] + [number % 10 for number in range(30)]
    )
    assert comparison.difference == -0.5
    assert comparison.test.p_value == pytest.approx(2 / 2**10)
    assert compare_pairs(fell, clusters=[number % 5 for number in range(60)]).test.p_value == pytest.approx(2 / 2**5)
    assert compare_pairs(fell, clusters=[number % 5 for number in range(60)]).detectable is None


def test_clusters_of_one_task_change_nothing() -> None:
    some = tasks(20, 3, 9, 8)
    assert compare_pairs(some, clusters=range(40)) == compare_pairs(some)


def test_clusters_of_different_sizes_widen_the_interval() -> None:
    some = tasks(20, 3, 9, 8)
    together = compare_pairs(some, clusters=[0] * 20 + [*range(1, 21)])
    assert together.difference == compare_pairs(some).difference
    assert together.interval.low < compare_pairs(some).interval.low


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(-1, 1), st.integers(0, 3)), min_size=1, max_size=12))
def test_clustered_sign_flip_matches_enumeration_of_all_signs(moves: list[tuple[int, int]]) -> None:
    """Compare the p-value with an enumeration of all sign combinations."""
    pairs = [Task((Fraction(move < 0),), (Fraction(move > 0),)) for move, _ in moves]
    sums = {cluster: sum(move for move, own in moves if own == cluster) for _, cluster in moves}
    flips = [abs(sum(s * t for s, t in zip(signs, sums.values(), strict=True))) for signs in _signs(len(sums))]
    expected = sum(total >= abs(sum(sums.values())) for total in flips) / len(flips)
    assert compare_pairs(pairs, clusters=[cluster for _, cluster in moves]).test.p_value == pytest.approx(expected)


def _signs(number: int) -> list[tuple[int, ...]]:
    return list(product((1, -1), repeat=number))
