"""Helpers that wait for an event instead of a fixed time."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")
PATIENCE_S = 1200
"""Maximum seconds that a test waits for an event or a process. It is long because it only prevents endless waiting."""
POLL_S = 0.01


def wait_until(condition: Callable[[], object], what: str = "a condition") -> None:
    """Block until `condition()` is true. Fail with a message that contains `what` if this takes too long."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S} s: {what}"
        time.sleep(POLL_S)


async def until(condition: Callable[[], object], what: str = "a condition") -> None:
    """Wait like `wait_until`, while other tasks of the event loop continue.

    Works even if a `LoopClock` stands still.
    """
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S} s: {what}"
        await asyncio.to_thread(time.sleep, POLL_S)


async def with_longer_limits(attempt: Callable[[float], Awaitable[T]], has_begun: Callable[[T], object]) -> T:
    """Repeat an attempt with longer time limits until its work began before the limit. A busy machine can delay it.

    Args:
        attempt: Makes the attempt with a time limit in seconds.
        has_begun: Returns whether the result shows that the work began.
    """
    for limit_s in (1.0, 5.0, 25.0, 125.0):
        result = await attempt(limit_s)
        if has_begun(result):
            return result
    raise AssertionError(f"it did not begin within {limit_s} s: {result}")
