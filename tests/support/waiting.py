"""Helpers that wait for an event instead of a fixed time."""

import asyncio
import time
from collections.abc import Callable

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
