"""The engine of one process."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

from evalscribe.engine.mapped import mapped
from evalscribe.ports import Ask, Clerk, Crew, Factory, Lost, Worker

T = TypeVar("T")
R = TypeVar("R")


class LocalEngine:
    """A `ports.Engine` whose lanes take turns on one event loop."""

    name = "local"

    def __init__(self, lanes: int = 4) -> None:
        self.lanes = lanes

    @asynccontextmanager
    async def crew(self, factory: Factory[T, R], clerk: Clerk | None = None) -> AsyncIterator[Crew[T, R]]:
        async with (clerk or nobody)() as ask, factory(ask) as worker:
            yield _OneWorker(worker)

    async def map(self, factory: Factory[T, R], work: Iterable[T]) -> AsyncIterator[tuple[T, R | Lost]]:
        async with self.crew(factory) as crew:
            async for done in mapped(crew, work, self.lanes):
                yield done

    async def close(self) -> None:
        """Nothing is held."""


class _OneWorker(Generic[T, R]):
    """It dies with this process only."""

    def __init__(self, worker: Worker[T, R]) -> None:
        self._worker = worker

    async def do(self, piece: T) -> R | Lost:
        return await self._worker(piece)


@asynccontextmanager
async def nobody() -> AsyncIterator[Ask]:
    """A clerk who knows nothing."""

    async def ask(question: object) -> object:
        raise LookupError(f"nobody answers {type(question).__name__}")

    yield ask
