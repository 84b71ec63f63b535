"""How slow this machine is now, for bounds on time: others may use its processors as well."""

import time

USUAL_S = 0.05
"""What the sum takes on the machine that bounds were measured on."""


def slowness() -> float:
    """Times slower than that machine, the best of a few tries; at least 1."""
    return max(1.0, min(_summed() for _ in range(5)) / USUAL_S)


def _summed() -> float:
    began = time.perf_counter()
    total = 0
    for number in range(1_000_000):
        total += number
    return time.perf_counter() - began
