"""What stands in a worker process: one worker, its pieces under way, and its line to whoever hands them out."""

import asyncio
import pickle
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import count
from typing import Any

from evalscribe.ids import Frozen
from evalscribe.ports import Factory, Worker


class Question(Frozen):
    """One question of the worker, as it goes over the line."""

    number: int
    asked: Any


@dataclass(frozen=True)
class Done:
    """What came of a piece or of a question: a value, or what was raised."""

    value: Any = None
    error: BaseException | None = None

    def result(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value


class Place:
    """Everything here runs on the event loop of the worker's process; nothing but values goes in and out."""

    def __init__(self) -> None:
        self._opened = AsyncExitStack()
        self._worker: Worker[Any, Any] | None = None
        self._numbers = count()
        self._questions: asyncio.Queue[Question] = asyncio.Queue()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._pieces: dict[int, asyncio.Task[Any]] = {}

    async def open(self, factory: Factory[Any, Any]) -> Done:
        """Make the worker."""
        return await outcome(self._open(factory))

    async def do(self, number: int, piece: object) -> Done:
        """`number` tells pieces apart that are under way."""
        assert self._worker is not None, "a place is opened first"
        task = asyncio.ensure_future(outcome(self._worker(piece)))
        self._pieces[number] = task
        try:
            return await task
        finally:
            del self._pieces[number]

    async def cancel(self, number: int) -> None:
        """Nobody waits for this piece any more."""
        if task := self._pieces.get(number):
            task.cancel()

    async def question(self) -> Question:
        """The next question, when there is one."""
        return await self._questions.get()

    async def answer(self, number: int, answer: Done) -> None:
        waiting = self._waiting.pop(number, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    async def close(self) -> None:
        """Cancel what is under way and close what the worker works with."""
        for task in self._pieces.values():
            task.cancel()
        await asyncio.gather(*self._pieces.values(), return_exceptions=True)
        await self._opened.aclose()

    async def _open(self, factory: Factory[Any, Any]) -> None:
        self._worker = await self._opened.enter_async_context(factory(self._ask))

    async def _ask(self, asked: object) -> object:
        number = next(self._numbers)
        answered: asyncio.Future[Done] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answered
        await self._questions.put(Question(number=number, asked=asked))
        return (await answered).result()


async def outcome(doing: Any) -> Done:
    """What came of it, as a value that crosses the wire: of an error that cannot, its kind and its words."""
    try:
        return Done(value=await doing)
    except Exception as error:
        return Done(error=_sendable(error))


def _sendable(error: Exception) -> Exception:
    error.__cause__ = error.__context__ = None  # of a library that the other side may not have
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - our own words, made a line above
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
