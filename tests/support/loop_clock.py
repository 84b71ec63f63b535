"""A clock for the event loop that stands still until a test advances it."""

import asyncio


class LoopClock:
    """Makes the timers of the running loop (sleeps, timeouts, deadlines) elapse only when `advance` is called."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._now = loop.time()
        loop.time = lambda: self._now  # type: ignore[method-assign]

    def advance(self, seconds: float) -> None:
        self._now += seconds
