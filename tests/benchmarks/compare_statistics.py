"""Measure the errors of the paired comparison: false alarms, coverage of the interval, power to detect differences.

    python tests/benchmarks/compare_statistics.py [REPEATS]

The probability to pass is drawn for each task, so that trials of the same task are similar. In the setting `other
tasks`, both sides are equally good over all tasks, but each is better at different tasks. Prints shares that should be
about 0.050, 0.950 and 0.800.
"""

import random
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import NamedTuple

from evalscribe.statistics.significance import Paired, Task, compare_pairs

Chances = Callable[[random.Random], tuple[float, float]]
"""Draws the probabilities that base and candidate pass a task."""


class Setting(NamedTuple):
    name: str
    chances: Chances
    difference: float
    """Difference between the mean probabilities, over all tasks that can be drawn."""


class Rates(NamedTuple):
    alarms: float
    """Share of comparisons that call the sides different."""
    covered: float
    """Share of comparisons whose interval contains the true difference."""
    width: float


def alike(a: float, b: float) -> Chances:
    def drawn(draw: random.Random) -> tuple[float, float]:
        chance = draw.betavariate(a, b)
        return chance, chance

    return drawn


def apart(draw: random.Random) -> tuple[float, float]:
    return draw.betavariate(1, 1), draw.betavariate(1, 1)


def worse(by: float) -> Chances:
    def drawn(draw: random.Random) -> tuple[float, float]:
        chance = by + (1 - by) * draw.betavariate(2, 2)
        return chance, chance - by

    return drawn


SETTINGS = (
    Setting("any difficulty", alike(1, 1), 0.0),
    Setting("nearly all pass", alike(20, 1), 0.0),
    Setting("easy or hard", alike(0.3, 0.3), 0.0),
    Setting("other tasks", apart, 0.0),
    Setting("worse by 0.2", worse(0.2), -0.2),
)
TRIALS = ((1, 1), (4, 4), (1, 4), (2, 5))
TASKS = (8, 25, 50)


def comparisons(setting: Setting, tasks: int, trials: tuple[int, int], repeats: int) -> Iterator[Paired]:
    draw = random.Random(f"{setting.name} {tasks} {trials}")
    for _ in range(repeats):
        chances = [setting.chances(draw) for _ in range(tasks)]
        yield compare_pairs([Task(*(tried(draw, p, n) for p, n in zip(both, trials, strict=True))) for both in chances])


def tried(draw: random.Random, chance: float, trials: int) -> tuple[Fraction, ...]:
    return tuple(Fraction(draw.random() < chance) for _ in range(trials))


def rates(setting: Setting, tasks: int, trials: tuple[int, int], repeats: int) -> Rates:
    found = list(comparisons(setting, tasks, trials, repeats))
    covered = [one for one in found if one.interval.low - 1e-9 <= setting.difference <= one.interval.high + 1e-9]
    width = sum(one.interval.high - one.interval.low for one in found) / repeats
    return Rates(sum(one.significant for one in found) / repeats, len(covered) / repeats, width)


def power(tasks: int, trials: tuple[int, int], repeats: int) -> tuple[float, float]:
    """Return the median detectable difference of equal sides, and how often a difference of this size is detected."""
    equals = Setting("equals", worse(0.0), 0.0)
    by = sorted(one.detectable or 1.0 for one in comparisons(equals, tasks, trials, 101))[50]
    return by, rates(Setting("power", worse(by), -by), tasks, trials, repeats).alarms


def main(repeats: int) -> None:
    print(f"{'setting':<16} tasks trials  different  covered  width    of {repeats} comparisons each")
    for setting in SETTINGS:
        for tasks in TASKS:
            for trials in TRIALS:
                found = rates(setting, tasks, trials, repeats)
                print(
                    f"{setting.name:<16} {tasks:>5} {trials[0]}/{trials[1]:<4} {found.alarms:>10.3f}"
                    f" {found.covered:>8.3f} {found.width:>6.2f}"
                )
    for tasks in (25, 50, 100):
        for trials in TRIALS[:2]:
            by, found_in = power(tasks, trials, repeats)
            print(f"detectable with {tasks} tasks, {trials[0]} trials: {by:.3f}, found in {found_in:.3f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000)
