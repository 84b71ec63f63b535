"""Work in threads of its own: whatever it does, the server goes on listening."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


async def aside(work: Callable[[], T]) -> T:
    """What a function gives that does not await. Cancelled, it runs on and nobody hears of it."""
    return await asyncio.wrap_future(_started(work))


async def apart(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """What a use case gives, in an event loop of its own. Cancelling this cancels it and waits until it has stopped,
    or until this is cancelled again."""
    running: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = Future()

    async def main() -> T:
        task = asyncio.current_task()
        assert task is not None
        running.set_result((asyncio.get_running_loop(), task))
        return await work()

    ended = asyncio.wrap_future(_started(lambda: asyncio.run(main())))
    ended.add_done_callback(unheard)
    try:
        return await asyncio.shield(ended)
    except asyncio.CancelledError:
        loop, task = await asyncio.wrap_future(running)
        with suppress(RuntimeError):  # it has ended just now
            loop.call_soon_threadsafe(task.cancel)
        await asyncio.wait([ended])
        raise


def unheard(ended: "asyncio.Future[Any]") -> None:
    """Nobody may be left to hear how it ended: that is no error of its own."""
    if not ended.cancelled():
        ended.exception()


def _started(work: Callable[[], T]) -> Future[T]:
    """A program may end without its thread: whatever was finished is stored."""
    done: Future[T] = Future()
    done.set_running_or_notify_cancel()
    threading.Thread(target=_settle, args=(done, work), name="evalscribe", daemon=True).start()
    return done


def _settle(done: Future[T], work: Callable[[], T]) -> None:
    try:
        done.set_result(work())
    except BaseException as error:  # whoever waits is told, whatever it was
        done.set_exception(error)
