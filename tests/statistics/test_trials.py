"""pass@k, pass^k and Fisher's exact test against their definitions and scipy."""

from itertools import combinations

import pytest
import scipy

from evalscribe.statistics.intervals import pass_at, pass_every
from evalscribe.statistics.significance import fisher_exact_test


@pytest.mark.parametrize("trials", range(1, 7))
def test_pass_at_k_and_pass_every_k_match_enumeration(trials: int) -> None:
    for passed in range(trials + 1):
        outcomes = [True] * passed + [False] * (trials - passed)
        for k in range(1, trials + 1):
            chosen = list(combinations(outcomes, k))
            assert pass_at(passed, trials, k) == pytest.approx(sum(map(any, chosen)) / len(chosen))
            assert pass_every(passed, trials, k) == pytest.approx(sum(map(all, chosen)) / len(chosen))


def test_pass_at_k_is_none_with_fewer_than_k_trials() -> None:
    assert pass_at(2, 2, 3) is None
    assert pass_every(2, 2, 3) is None


@pytest.mark.parametrize("trials", [(1, 1), (3, 3), (5, 5), (4, 7), (10, 10)])
def test_fisher_exact_test_matches_scipy(trials: tuple[int, int]) -> None:
    for base in range(trials[0] + 1):
        for candidate in range(trials[1] + 1):
            table = [[base, trials[0] - base], [candidate, trials[1] - candidate]]
            assert fisher_exact_test((base, candidate), trials) == pytest.approx(scipy.stats.fisher_exact(table).pvalue)
