"""Many pieces over a crew: how every engine maps."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

from evalscribe.ports import Crew, Lost

T = TypeVar("T")
R = TypeVar("R")


async def mapped(crew: Crew[T, R], work: Iterable[T], lanes: int) -> AsyncIterator[tuple[T, R | Lost]]:
    """Each piece with its result, at most `lanes` under way; whoever stops listening cancels the rest."""
    waiting = iter(work)
    under_way: dict[asyncio.Task[R | Lost], T] = {}
    try:
        while True:
            for piece in waiting:
                under_way[asyncio.ensure_future(crew.do(piece))] = piece
                if len(under_way) >= lanes:
                    break
            if not under_way:
                return
            done, _ = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                yield under_way.pop(task), task.result()
    finally:
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
