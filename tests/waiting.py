"""Waiting for events: tests wait for what happens, not for a length of time."""

import asyncio
import time
from collections.abc import Callable

PATIENCE_S = 300
"""Seconds that a test waits for an event or a process. Only a guard against hanging, so it is generous."""
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
