"""One budget for many processes: it is kept where the work is handed out, and workers ask there before each call."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from typing import cast

from evalscribe.chat import Usage
from evalscribe.ids import Frozen
from evalscribe.llm.budget import Purse, Settle
from evalscribe.ports import Ask


class Hold(Frozen):
    """A worker asks for room; answered with a number as soon as there is some."""

    worst: Usage
    stage: str


class Release(Frozen):
    """A worker tells what its call consumed."""

    number: int
    used: Usage | None
    """None: nothing was asked."""


class FarBudget:
    """A `Purse` in a worker's process."""

    def __init__(self, ask: Ask, usd: float | None, tokens: int | None) -> None:
        self.usd = usd
        self.tokens = tokens
        self._ask = ask
        self._late: set[asyncio.Future[None]] = set()

    @property
    def by_stage(self) -> Mapping[str, Usage]:
        """Only the budget itself knows."""
        return {}

    @asynccontextmanager
    async def hold(self, worst: Usage, stage: str) -> AsyncIterator[Settle]:
        """A call that is cancelled while it waits gives its room back when it gets it."""
        asking = asyncio.ensure_future(self._ask(Hold(worst=worst, stage=stage)))
        try:
            number = cast(int, await asyncio.shield(asking))
        except asyncio.CancelledError:
            late = asyncio.ensure_future(self._give_back(asking))
            self._late.add(late)
            late.add_done_callback(self._late.discard)
            raise
        used = [worst]
        try:
            yield used.append
        finally:
            await self._ask(Release(number=number, used=used[-1]))

    async def _give_back(self, asking: "asyncio.Future[object]") -> None:
        (number,) = await asyncio.gather(asking, return_exceptions=True)
        if isinstance(number, int):
            await self._ask(Release(number=number, used=None))


@asynccontextmanager
async def served(budget: Purse) -> AsyncIterator[Ask]:
    """Answers one worker; what it never told is counted at its worst: a worker that died may have been charged."""
    async with AsyncExitStack() as dying:
        held: dict[int, tuple[AsyncExitStack, Settle, Usage]] = {}
        numbers = count()

        async def bury() -> None:
            for stack, settle, worst in held.values():
                settle(worst)
                await stack.aclose()

        async def ask(question: object) -> object:
            if isinstance(question, Hold):
                stack = AsyncExitStack()
                settle = await stack.enter_async_context(budget.hold(question.worst, question.stage))
                number = next(numbers)
                held[number] = stack, settle, question.worst
                return number
            assert isinstance(question, Release), question
            stack, settle, _ = held.pop(question.number)
            if question.used is not None:
                settle(question.used)
            await stack.aclose()
            return None

        dying.push_async_callback(bury)
        yield ask
