"""The minimum detectable effect has about 80 % power: exact for single trials, simulated otherwise."""

from fractions import Fraction
from functools import cache

import numpy as np
import pytest
import scipy

from evalscribe.statistics.significance import ALPHA, Task, compare_pairs, minimum_detectable_effect

DRAWN = 100
WIDE = 3 * (0.8 * 0.2 / DRAWN) ** 0.5


@cache
def needed(changed: int) -> int:
    """Return how many of the changed tasks must be worse for significance in McNemar's exact test."""
    worse = np.arange(changed + 1)
    enough = worse[(2 * scipy.stats.binom.sf(worse - 1, changed, 0.5) <= ALPHA) & (2 * worse > changed)]
    return int(enough[0]) if len(enough) else changed + 1


def found_of_single_trials(tasks: int, varied: float, drop: float) -> float:
    """Return the power to detect a drop, summed over every number of changed tasks.

    `varied` is the share of tasks that change between two equal sides.
    """
    moved = varied * (1 - drop) ** 2 + drop
    changed = np.arange(tasks + 1)
    enough = np.array([needed(k) for k in changed])
    worse = scipy.stats.binom.sf(enough - 1, changed, (moved + drop) / 2 / moved)
    return float((scipy.stats.binom.pmf(changed, tasks, moved) * worse).sum())


@pytest.mark.parametrize("varied", [0.0, 0.02, 0.06, 0.12, 0.33, 0.5])
@pytest.mark.parametrize("tasks", [8, 10, 15, 20, 30, 60, 100, 200])
def test_detectable_effect_of_single_trials_has_80_percent_power_by_enumeration(tasks: int, varied: float) -> None:
    drop = minimum_detectable_effect(tasks, varied, 1.0)
    assert drop is not None
    assert 0.77 <= found_of_single_trials(tasks, varied, drop) <= 0.85


def test_six_tasks_have_no_detectable_effect() -> None:
    """Not even a drop that fails every task is detectable, nor any effect on a single observation."""
    assert minimum_detectable_effect(6, 0.0, 1.0) is None
    assert minimum_detectable_effect(1, 0.1, 0.25) is None
    assert minimum_detectable_effect(1.9, 0.0, 0.25) is None


def tasks(draw: np.random.Generator, shape: tuple[int, int, int], rate: float, drop: float) -> list[Task]:
    """Draw tasks; `shape` is (clusters, tasks per cluster, trials).

    Each cluster draws its own pass rate, which is lower by `drop` in the candidate.
    """
    clusters, size, trials = shape
    chances = np.repeat(drop + (1 - drop) * draw.beta(2 * rate, 2 * (1 - rate), clusters), size)
    sides = [draw.random((clusters * size, trials)) < (chances - by)[:, None] for by in (0.0, drop)]
    return [Task(*(tuple(map(Fraction, side.tolist())) for side in both)) for both in zip(*sides, strict=True)]


@pytest.mark.parametrize(
    ("shape", "rate"),
    [
        pytest.param((12, 1, 4), 0.9, id="repetitions"),
        pytest.param((12, 3, 1), 0.7, id="clusters"),
    ],
)
def test_detectable_effect_with_repetitions_or_clusters_has_80_percent_power(
    shape: tuple[int, int, int], rate: float
) -> None:
    draw = np.random.default_rng(20_261_121)
    clusters = np.repeat(np.arange(shape[0]), shape[1]).tolist()
    detectable_effects = [compare_pairs(tasks(draw, shape, rate, 0.0), clusters=clusters).detectable for _ in range(15)]
    drop = float(np.median([1.0 if one is None else one for one in detectable_effects]))
    held = [compare_pairs(tasks(draw, shape, rate, drop), clusters=clusters) for _ in range(DRAWN)]
    assert 0.8 - WIDE <= sum(one.significant and one.difference < 0 for one in held) / DRAWN <= 0.87 + WIDE


def test_correlated_clusters_have_a_larger_detectable_effect() -> None:
    """Twelve clusters of three tasks; 12 tasks changed: scattered in one suite, whole clusters in the other."""
    same, worse, better = (Task((Fraction(a),), (Fraction(b),)) for a, b in ((1, 1), (1, 0), (0, 1)))
    clusters = [number // 3 for number in range(36)]
    alone = [worse, same, same, better, same, same] * 6
    together = [*[worse] * 6, *[better] * 6, *[same] * 24]
    first, second = (compare_pairs(some, clusters=clusters).detectable for some in (alone, together))
    assert first is not None
    assert second is not None
    assert second > 1.5 * first


def test_small_grade_changes_have_a_smaller_detectable_effect() -> None:
    def suite(far: Fraction) -> list[Task]:
        half = Fraction(1, 2)
        return [Task((half,), (half + way * far,)) for way in (1, -1)] * 15

    small, large = (compare_pairs(suite(far)).detectable for far in (Fraction(1, 20), Fraction(1, 2)))
    assert small is not None
    assert large is not None
    assert small < large / 3


def test_detectable_effect_scales_with_the_grades() -> None:
    some = [Task((Fraction(n % 5, 4),), (Fraction(n % 3, 2),)) for n in range(30)]
    large = [Task((100 * task.base[0],), (100 * task.candidate[0],)) for task in some]
    one, other = compare_pairs(some, 1.0).detectable, compare_pairs(large, 100.0).detectable
    assert one is not None
    assert other == pytest.approx(100 * one)
