"""How slow this machine is now, for bounds on time: it varies by itself, and others may use its processors as well."""

import hashlib
import json
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

USUAL_S = 0.02
"""What a piece of work takes on the machine, and at the moment, that bounds were measured on."""
_CALLS = [{"id": str(n), "arguments": {"order": n, "rows": [n] * 5}} for n in range(300)]
_TALK = [{"role": "user", "content": f"Where is order {n}?", "tool_calls": [call]} for n, call in enumerate(_CALLS)]


def slowness(clock: Callable[[], float] = time.perf_counter) -> float:
    """Times slower than that, the best of a few tries; at least 1.

    `clock`: what the bound is measured with; `time.process_time` where others' turns do not count, but what they take
    from the caches of this process does.
    """
    return max(1.0, min(_worked(clock) for _ in range(5)) / USUAL_S)


def _worked(clock: Callable[[], float]) -> float:
    """Seconds for such work as imports and runs do: JSON, digests, packing."""
    began = clock()
    for _ in range(12):
        text = json.dumps(_TALK)
        hashlib.sha256(text.encode()).digest()
        zlib.compress(text.encode())
        {message["content"]: [*message["tool_calls"]] for message in json.loads(text)}
    return clock() - began


@contextmanager
def cpu_below(seconds: float) -> Iterator[None]:
    """For benchmarks: fail if the block takes more CPU time than this, or than a slower machine would take."""
    began = time.process_time()
    yield
    took = time.process_time() - began
    print(f"{took:.2f} s of CPU, at most {seconds}")
    assert took < seconds or took < seconds * slowness(time.process_time)
