"""An event loop clock that stands still until a test advances it."""

import asyncio


class LoopClock:
    """Timers of the running loop (sleeps, timeouts, deadlines) elapse when `advance` is called, and only then."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._now = loop.time()
        loop.time = lambda: self._now  # type: ignore[method-assign]

    def advance(self, seconds: float) -> None:
        self._now += seconds
