"""Run work in this process."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import TypeVar

from evalscribe.model.protocols import AskParent, LostWork, QuestionHandler, WorkerFactory, WorkerPool

_Piece = TypeVar("_Piece")
_Result = TypeVar("_Result")


async def map_work(
    crew: WorkerPool[_Piece, _Result], work: Iterable[_Piece], lanes: int
) -> AsyncIterator[tuple[_Piece, _Result | LostWork]]:
    """Yield each piece with its result, at most `lanes` at a time; closing the iterator cancels the rest."""
    waiting = iter(work)
    under_way: dict[asyncio.Task[_Result | LostWork], _Piece] = {}
    try:
        while True:
            for piece in waiting:
                under_way[asyncio.ensure_future(crew(piece))] = piece
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


T = TypeVar("T")
R = TypeVar("R")


class LocalEngine:
    """An `Engine` whose workers share one event loop."""

    name = "local"

    def __init__(self, lanes: int = 4) -> None:
        self.lanes = lanes

    @asynccontextmanager
    async def crew(
        self, factory: WorkerFactory[T, R], clerk: QuestionHandler | None = None
    ) -> AsyncIterator[WorkerPool[T, R]]:
        async with (clerk or no_questions)() as ask, factory(ask) as worker:
            yield worker

    async def map(self, factory: WorkerFactory[T, R], work: Iterable[T]) -> AsyncIterator[tuple[T, R | LostWork]]:
        async with self.crew(factory) as crew:
            async for done in map_work(crew, work, self.lanes):
                yield done

    async def close(self) -> None:
        """Do nothing: no resources are held."""


@asynccontextmanager
async def no_questions() -> AsyncIterator[AskParent]:
    """A `QuestionHandler` for workers without questions."""

    async def ask(question: object) -> object:
        raise LookupError(f"no handler for {type(question).__name__}")

    yield ask
