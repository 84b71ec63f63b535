"""Run many tasks with bounded concurrency."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


async def run_concurrently(items: Iterable[T], work: Callable[[T], Awaitable[None]], concurrency: int) -> None:
    """Run `work` for each item, for at most `concurrency` items at the same time.

    The first error is raised and cancels the other tasks. Cancelling this call also cancels them.
    """
    # All workers take from one iterator, so items are created only when they are needed.
    waiting = iter(items)

    async def worker() -> None:
        for item in waiting:
            await work(item)

    tasks = [asyncio.ensure_future(worker()) for _ in range(concurrency)]
    try:
        await asyncio.gather(*tasks)
    finally:
        # The tasks must have ended before the caller closes what they use.
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
