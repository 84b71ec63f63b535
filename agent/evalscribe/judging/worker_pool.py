"""Run many tasks with bounded concurrency."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


async def run_concurrently(todo: Iterable[T], work: Callable[[T], Awaitable[None]], lanes: int) -> None:
    """Run `work` for each item of `todo`, for at most `lanes` items at once.

    The first error is raised and cancels the other tasks, as does a cancellation of this call.
    """
    waiting = iter(todo)

    async def lane() -> None:
        for one in waiting:
            await work(one)

    tasks = [asyncio.ensure_future(lane()) for _ in range(lanes)]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
