"""Exact tests of differences, and the correction for several of them."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from math import comb, fsum, lcm
from statistics import NormalDist, mean
from typing import NamedTuple, TypeVar

ALPHA = 0.05
"""Significance level."""
MOST_STEPS = 500_000
"""Additions of an exact test, about a quarter of a second. A test that needs more is estimated."""
MOST_UNITS = 1_000_000
"""The finest unit, as a part of 1, in which differences are expressed exactly; finer ones are rounded to it."""
MOST_SIZES = 100
"""Different sizes of differences in a random sample: finer ones are rounded to so many parts of the largest."""
DRAWS = 5_000
SEED = 20_261_121
"""The same comparison gives the same p-value every time."""


K = TypeVar("K")
Trials = tuple[Sequence[Fraction], Sequence[Fraction]]
"""Trials of base and candidate in one task."""


class PermutationResult(NamedTuple):
    """The two-sided p-value of a permutation test."""

    p_value: float
    exact: bool
    """False where it was estimated, from `DRAWS` random permutations or a normal approximation."""


def sign_flip_test(differences: Iterable[Fraction]) -> PermutationResult:
    """Two-sided test that differences of pairs are symmetric around 0 (Fisher 1935, The Design of Experiments).

    For differences of one size it is McNemar's exact test. It is valid whatever the pairs differ in: a pair is one
    unit, however many trials it has.
    """
    # `scipy.stats.permutation_test` with samples enumerates every combination of signs: 0.4 s of CPU for 16 pairs,
    # 2.3 s for 18, and beyond that only random samples. Adding one size of differences at a time is exact for hundreds
    # of pairs within `MOST_STEPS`, and free of the rounding by which floating-point sums miss ties.
    units = _in_units(list(differences))
    sizes = Counter(abs(size) for size in units if size)
    observed = abs(sum(units))
    if not observed:
        return PermutationResult(1.0, exact=True)
    exact = _exact_sign_flip(sizes, observed)
    return PermutationResult(_sampled_sign_flip(units), exact=False) if exact is None else exact


def _in_units(differences: Sequence[Fraction]) -> list[int]:
    unit = lcm(*(difference.denominator for difference in differences))
    if unit > MOST_UNITS:
        return [round(difference * MOST_UNITS) for difference in differences]
    return [int(difference * unit) for difference in differences]


def _exact_sign_flip(sizes: Counter[int], observed: int) -> PermutationResult | None:
    """Probability of a sum at least as far from 0; `None` where it would take too long.

    Differences of one size are a binomial, so that a step is a size and not a pair.
    """
    sums, steps = {0: 1.0}, 0
    for size, number in sorted(sizes.items()):
        steps += len(sums) * (number + 1)
        if steps > MOST_STEPS:
            return None
        # Quotients of integers, because the last digit of `scipy.stats.binom.pmf` is off even for 0.25.
        shares = ((count, comb(number, count) / 2**number) for count in range(number + 1))
        sums = _convolved(sums, {size * (2 * count - number): share for count, share in shares})
    # Where many were added, the sum is 1 only up to rounding: divided by it, p can be exactly 1.
    p_value = fsum(probability for total, probability in sums.items() if abs(total) >= observed) / fsum(sums.values())
    return PermutationResult(min(1.0, p_value), exact=True)


def _convolved(sums: Mapping[int, float], moves: Mapping[int, float]) -> dict[int, float]:
    """Distribution of the sum of two independent values. A probability that underflowed is left out."""
    result: dict[int, float] = {}
    for total, probability in sums.items():
        for move, share in moves.items():
            if share:
                result[total + move] = result.get(total + move, 0.0) + probability * share
    return result


def _sampled_sign_flip(units: Sequence[int]) -> float:
    """The p-value from random signs, the observed ones counted among them (Phipson and Smyth 2010)."""
    from scipy.stats import binom

    step = max(1, max(map(abs, units)) // MOST_SIZES)
    coarse = [round(value / step) for value in units]
    sizes, observed = Counter(map(abs, coarse)), abs(sum(coarse))
    numbers = list(sizes.values())
    positive = binom.rvs(numbers, 0.5, size=(DRAWS, len(numbers)), random_state=SEED)
    hits = (abs((2 * positive - numbers) @ list(sizes)) >= observed).sum()
    return (int(hits) + 1) / (DRAWS + 1)


def stratified_permutation_test(tasks: Sequence[Trials]) -> PermutationResult | None:
    """Test whether single tasks changed, in whichever direction, by the sum of squared differences.

    Under the null hypothesis the trials of a task are exchangeable between the sides, so that the passes of the
    candidate are hypergeometric. A task that gets worse and one that gets better add up here, where in
    `sign_flip_test` they cancel. Trials pass or fail. scipy's permutation test has no strata.

    Returns:
        `None` where no permutation differs, as with single trials.
    """
    strata = [
        (squares, (mean(candidate) - mean(base)) ** 2)
        for base, candidate in tasks
        if len(squares := _squared_differences(base, candidate)) > 1
    ]
    if not strata:
        return None
    unit = lcm(*(square.denominator for squares, _ in strata for square in squares))
    distributions = [{int(square * unit): share for square, share in squares.items()} for squares, _ in strata]
    observed = sum(int(square * unit) for _, square in strata)
    sums, steps = {0: 1.0}, 0
    for distribution in distributions:
        steps += len(sums) * len(distribution)
        if steps > MOST_STEPS:
            return PermutationResult(_normal_tail(distributions, observed), exact=False)
        sums = _convolved(sums, distribution)
    p_value = fsum(probability for total, probability in sums.items() if total >= observed)
    return PermutationResult(min(1.0, p_value), exact=True)


def _squared_differences(base: Sequence[Fraction], candidate: Sequence[Fraction]) -> dict[Fraction, float]:
    """Every squared difference that permuting the task's trials can give, with its probability."""
    passed = int(sum(base) + sum(candidate))
    result: dict[Fraction, float] = {}
    for own, probability in _hypergeometric(len(base) + len(candidate), passed, len(candidate)):
        square = (Fraction(own, len(candidate)) - Fraction(passed - own, len(base))) ** 2
        result[square] = result.get(square, 0.0) + probability
    return result


@lru_cache(1024)
def _hypergeometric(total: int, passed: int, drawn: int) -> tuple[tuple[int, float], ...]:
    from scipy.stats import hypergeom

    counts = range(max(0, passed + drawn - total), min(passed, drawn) + 1)
    return tuple(zip(counts, hypergeom.pmf(counts, total, passed, drawn).tolist(), strict=True))


def _normal_tail(distributions: Sequence[Mapping[int, float]], observed: int) -> float:
    """The sum over so many tasks is nearly normal."""
    means = [fsum(size * share for size, share in one.items()) for one in distributions]
    variances = [
        fsum((size - center) ** 2 * share for size, share in one.items())
        for one, center in zip(distributions, means, strict=True)
    ]
    return 1 - NormalDist(fsum(means), fsum(variances) ** 0.5).cdf(observed)


@lru_cache(1024)
def fisher_exact_test(passed: tuple[int, int], trials: tuple[int, int]) -> float:
    """Two-sided p-value of Fisher's exact test that two sides pass equally often."""
    from scipy.stats import fisher_exact

    return float(fisher_exact([[own, all_ - own] for own, all_ in zip(passed, trials, strict=True)]).pvalue)


def holm(p_values: Mapping[K, float]) -> dict[K, float]:
    """Holm correction of p-values for the number of tests (1979, Scandinavian Journal of Statistics 6).

    Written out here because scipy corrects for the false discovery rate only.
    """
    corrected: dict[K, float] = {}
    largest = 0.0
    ranked = sorted(p_values.items(), key=lambda item: item[1])
    for rank, (key, p_value) in enumerate(ranked):
        largest = max(largest, min(1.0, p_value * (len(ranked) - rank)))
        corrected[key] = largest
    return {key: corrected[key] for key in p_values}
