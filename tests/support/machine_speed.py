"""Measure how slow this machine currently is, to adjust limits on durations.

Its speed varies, and other programs can use its processors.
"""

import hashlib
import json
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

USUAL_S = 0.02
"""Seconds that the reference work takes on the machine on which the limits were measured."""
_CALLS = [{"id": str(n), "arguments": {"order": n, "rows": [n] * 5}} for n in range(300)]
_TALK = [{"role": "user", "content": f"Where is order {n}?", "tool_calls": [call]} for n, call in enumerate(_CALLS)]


def slowness(clock: Callable[[], float] = time.perf_counter) -> float:
    """Return how many times slower than usual this machine is, from the best of five measurements; at least 1.

    `clock` is the clock that measures the limited duration. `time.process_time` excludes the turns of other processes,
    but not their effect on the processor's caches.
    """
    return max(1.0, min(_worked(clock) for _ in range(5)) / USUAL_S)


def _worked(clock: Callable[[], float]) -> float:
    """Return the seconds for work that is similar to imports and runs: JSON, digests and compression."""
    began = clock()
    for _ in range(12):
        text = json.dumps(_TALK)
        hashlib.sha256(text.encode()).digest()
        zlib.compress(text.encode())
        {message["content"]: [*message["tool_calls"]] for message in json.loads(text)}
    return clock() - began


@contextmanager
def cpu_below(seconds: float) -> Iterator[None]:
    """Fail a benchmark if the block takes more than `seconds` of CPU time. The limit is raised on a slower machine."""
    began = time.process_time()
    yield
    took = time.process_time() - began
    print(f"{took:.2f} s of CPU, at most {seconds}")
    assert took < seconds or took < seconds * slowness(time.process_time)
