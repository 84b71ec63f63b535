"""One event loop in a thread of its own.

Connections and locks belong to the loop that made them, but users call `asyncio.run` several times, have a loop that
runs already (a notebook), or several threads: so what talks to models lives here, whatever loop waits for it.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

from evalscribe.errors import UsageError

T = TypeVar("T")
Last = Callable[[], Awaitable[None]]

CLOSED = "this service is closed: make a new one"
LAST_S = 10.0
"""How long the end of the thread is waited for."""


class Background:
    """Started with its first work; a program may end without stopping it."""

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._last: Future[Last] = Future()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`; cancelling this cancels it. Raises `UsageError` once stopped."""
        try:
            loop = self._started()
        except UsageError:
            work.close()
            raise
        done = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return await asyncio.wrap_future(done)
        except asyncio.CancelledError:
            if self._last.done() and not _cancelled():
                raise UsageError(CLOSED) from None
            raise

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """As `run`, where nothing can be awaited: a loop that runs here stands still meanwhile.

        Whatever interrupts the waiting ends the work before it is raised.
        """
        try:
            loop = self._started()
        except UsageError:
            work.close()
            raise
        ended = threading.Event()
        done = asyncio.run_coroutine_threadsafe(_signalling(work, ended), loop)
        try:
            return done.result()
        except CancelledError:
            raise UsageError(CLOSED) from None
        except BaseException:
            if done.cancel():
                ended.wait(LAST_S)
            raise

    def stop(self, last: Last) -> None:
        """Cancel what runs, do `last` where anything was ever done, and end the thread. A second time does nothing."""
        with self._changing:
            if self._last.done():
                return
            self._last.set_result(last)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(LAST_S)

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._changing:
            if self._last.done():
                raise UsageError(CLOSED)
            if self._loop is None:
                started: Future[asyncio.AbstractEventLoop] = Future()
                serve = _serve(started, self._last)
                self._thread = threading.Thread(target=asyncio.run, args=(serve,), name="evalscribe", daemon=True)
                self._thread.start()
                self._loop = started.result()
            return self._loop


async def _signalling(work: Coroutine[Any, Any, T], ended: threading.Event) -> T:
    try:
        return await work
    finally:
        ended.set()


async def _serve(started: Future[asyncio.AbstractEventLoop], last: Future[Last]) -> None:
    started.set_result(asyncio.get_running_loop())
    close = await asyncio.wrap_future(last)
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await close()


def _cancelled() -> bool:
    """Whether it is this task that somebody wants to end."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
