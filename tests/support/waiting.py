"""Helpers that wait for an event instead of a fixed time."""

import asyncio
import time
from collections.abc import Callable

PATIENCE_S = 1200
"""Seconds that a test waits for an event or a process; generous, as it only guards against hanging."""
POLL_S = 0.01


def wait_until(condition: Callable[[], object], what: str = "a condition") -> None:
    """Block until `condition()` is true; fail with `what` if it never is."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S} s: {what}"
        time.sleep(POLL_S)


async def until(condition: Callable[[], object], what: str = "a condition") -> None:
    """As `wait_until`, while other tasks of the event loop go on, even where a `LoopClock` stands still."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S} s: {what}"
        await asyncio.to_thread(time.sleep, POLL_S)
