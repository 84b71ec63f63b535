"""Whether something ends within a second, on a machine that may be busy with something else."""

from collections.abc import Callable
from itertools import takewhile

TRIES = 3


def within_a_second(attempt: Callable[[int], float]) -> bool:
    """Whether one of a few attempts, each given its number, took less: what lingers is late every time."""
    late = takewhile(lambda seconds: seconds >= 1, map(attempt, range(TRIES)))
    return sum(1 for _ in late) < TRIES
