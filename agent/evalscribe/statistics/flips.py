"""The sign-flip test of paired differences: of sides that are alike each could as well have the other sign."""

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import fsum, lcm
from typing import NamedTuple

MOST_STEPS = 500_000
"""Of the exact computation: about a quarter of a second. What needs more is drawn."""
MOST_UNITS = 1_000_000
"""In which a difference is expressed exactly; finer ones are rounded to it."""
MOST_SIZES = 100
"""Of differences that are drawn from: finer ones are rounded to so many parts of the largest."""
DRAWS = 5_000
SEED = 20_261_121
"""The same comparison gives the same figure every time."""


class Luck(NamedTuple):
    """How often luck alone brings a difference at least as large, in either direction."""

    p: float
    exact: bool
    """False where it was estimated from `DRAWS` draws."""


def sign_flip(differences: Iterable[Fraction]) -> Luck:
    """The two-sided test that differences of pairs are symmetric around 0. With single trials it is McNemar's exact.

    Valid whatever the pairs differ in among themselves: a pair is one unit, however many trials it has.
    """
    whole = _in_units(list(differences))
    sizes = Counter(abs(units) for units in whole if units)
    observed = abs(sum(whole))
    if not observed:
        return Luck(1.0, exact=True)
    exact = _exact(sizes, observed)
    return Luck(_drawn(whole), exact=False) if exact is None else Luck(exact, exact=True)


def _in_units(differences: Sequence[Fraction]) -> list[int]:
    unit = lcm(*(difference.denominator for difference in differences))
    if unit > MOST_UNITS:
        return [round(difference * MOST_UNITS) for difference in differences]
    return [int(difference * unit) for difference in differences]


def _exact(sizes: Counter[int], observed: int) -> float | None:
    """The chance of a sum that far from 0; None where it would take too long.

    Differences of one size are a binomial, so that a step is a size and not a pair.
    """
    chances = {0: 1.0}
    steps = 0
    for size, number in sorted(sizes.items()):
        steps += len(chances) * (number + 1)
        if steps > MOST_STEPS:
            return None
        chances = _with(chances, size, _binomial(number))
    return min(1.0, fsum(chance for total, chance in chances.items() if abs(total) >= observed))


def _with(chances: dict[int, float], size: int, of_ups: Sequence[float]) -> dict[int, float]:
    """The sums after as many more differences of one size as `of_ups` is for."""
    number = len(of_ups) - 1
    moves = [(size * (2 * ups - number), chance) for ups, chance in enumerate(of_ups) if chance]
    found: dict[int, float] = {}
    for total, chance in chances.items():
        for move, share in moves:
            found[total + move] = found.get(total + move, 0.0) + chance * share
    return found


def _binomial(number: int) -> list[float]:
    """The chance of each count of heads in `number` tosses; 0 for what no float can hold."""
    middle = number // 2
    below = [1.0]
    for ups in range(middle, 0, -1):
        below.append(below[-1] * ups / (number - ups + 1))
    half = below[::-1]
    weights = [*half, *(half[number - ups] for ups in range(middle + 1, number + 1))]
    whole = fsum(weights)
    return [weight / whole for weight in weights]


def _drawn(whole: Sequence[int]) -> float:
    """The same chance from draws, the observed sum counted among them."""
    step = max(1, max(map(abs, whole)) // MOST_SIZES)
    coarse = [round(units / step) for units in whole]
    sizes, observed = Counter(map(abs, coarse)), abs(sum(coarse))
    toss = random.Random(SEED)  # noqa: S311 - nothing secret: the same figure every time
    hits = sum(abs(_sum(sizes, toss)) >= observed for _ in range(DRAWS))
    return (hits + 1) / (DRAWS + 1)


def _sum(sizes: Counter[int], toss: random.Random) -> int:
    return sum(size * (2 * toss.getrandbits(number).bit_count() - number) for size, number in sizes.items())
