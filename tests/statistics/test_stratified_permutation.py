"""Stratified permutation test against enumeration."""

from fractions import Fraction
from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalscribe.statistics.significance import Task, compare_pairs, stratified_permutation_test

TRIALS = st.lists(st.sampled_from((Fraction(0), Fraction(1))), min_size=1, max_size=3).map(tuple)
ALL, NONE = (Fraction(1),) * 3, (Fraction(0),) * 3


def permuted_statistics(task: Task) -> list[Fraction]:
    """Return the squared difference for every assignment of trials to the candidate."""
    trials = [*task.base, *task.candidate]
    statistics = []
    for chosen in combinations(range(len(trials)), len(task.candidate)):
        base = tuple(trial for n, trial in enumerate(trials) if n not in chosen)
        statistics.append(Task(base, tuple(trials[n] for n in chosen)).difference ** 2)
    return statistics


@given(st.lists(st.builds(Task, TRIALS, TRIALS), max_size=3))
@settings(max_examples=60)
def test_p_value_matches_enumeration_of_all_permutations(tasks: list[Task]) -> None:
    sums = [sum(each) for each in product(*map(permuted_statistics, tasks))]
    observed = sum(task.difference**2 for task in tasks)
    share = sum(each >= observed for each in sums) / len(sums)
    result = stratified_permutation_test(tasks)
    assert share == (1 if result is None else pytest.approx(result.p_value))


def test_opposite_changes_are_detected_and_do_not_cancel() -> None:
    tasks = [Task(ALL, NONE), Task(NONE, ALL)] * 3
    assert compare_pairs(tasks).test.p_value == 1
    result = stratified_permutation_test(tasks)
    assert result is not None
    assert result.p_value == pytest.approx(0.1**6)


def test_single_trials_give_none_and_sampling_is_close_with_many_tasks() -> None:
    one = (Fraction(1),)
    assert stratified_permutation_test([Task(one, (Fraction(0),))] * 9) is None
    pair, other = (Fraction(1), Fraction(0)), (Fraction(1),) * 2
    some = [Task(pair, pair)] * 2 + [Task(other, (Fraction(0),) * 2)]
    many = stratified_permutation_test(some * 1_000)
    assert many is not None
    assert not many.exact
    assert many.p_value == pytest.approx(0.5, abs=0.02), "a third of all deals part them, as here"
