"""Money and tokens that may be spent: a call starts only if its worst case still fits."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from evalscribe.chat import CallFailed, Reply, Request, Usage
from evalscribe.ids import canonical_json
from evalscribe.llm.prices import Price
from evalscribe.ports import Model

BYTES_PER_TOKEN = 2
"""Of the densest text that evidence holds (ids, hashes, minified code); prose and code take three to four."""

LEFT_UNDONE = "left undone, run again with more"


class Budget:
    """What may be spent, on dollars, on tokens or on both, by all calls of one command together."""

    def __init__(self, usd: float | None = None, tokens: int | None = None) -> None:
        self.usd = usd
        self.tokens = tokens
        self.spent = Usage()
        self._held: list[Usage] = []
        self._settled = asyncio.Event()

    @asynccontextmanager
    async def hold(self, worst: Usage) -> AsyncIterator[None]:
        """Keep the worst case of a call aside while it runs, waiting for calls under way where it does not fit yet.

        Raises `CallFailed` where it does not fit beside what is spent.
        """
        while not self._fits(worst):
            if not self._held:
                raise CallFailed(f"{self._name()} has no room for another call: {LEFT_UNDONE}", free=True)
            await self._settled.wait()
        self._held.append(worst)
        try:
            yield
        finally:
            self._held.remove(worst)
            self._settled.set()
            self._settled = asyncio.Event()

    def settle(self, usage: Usage) -> None:
        """Count what a call consumed."""
        self.spent += usage

    def _fits(self, worst: Usage) -> bool:
        total = sum(self._held, self.spent) + worst
        in_dollars = self.usd is None or total.cost_usd <= self.usd
        return in_dollars and (self.tokens is None or total.input_tokens + total.output_tokens <= self.tokens)

    def _name(self) -> str:
        dollars = [] if self.usd is None else [f"${self.usd:g}"]
        tokens = [] if self.tokens is None else [f"{self.tokens} tokens"]
        return f"the budget of {' and '.join(dollars + tokens)}"


class Budgeted:
    """A `ports.Model` that spends from a budget shared with others."""

    def __init__(self, model: Model, budget: Budget, price: Price | None) -> None:
        self.id = model.id
        self.context_tokens = model.context_tokens
        self._model = model
        self._budget = budget
        self._price = price

    async def complete(self, request: Request) -> Reply:
        worst = worst_case(request, self._price)
        async with self._budget.hold(worst):
            used = worst
            try:
                reply = await self._model.complete(request)
                used = reply.usage
                return reply
            except CallFailed as error:
                used = error.usage = _consumed(error, worst)
                raise
            except Exception:
                # What ends the command (a refused key, no such model) was turned away before any token.
                used = Usage()
                raise
            finally:
                self._budget.settle(used)

    async def close(self) -> None:
        await self._model.close()


def worst_case(request: Request, price: Price | None) -> Usage:
    """The most that one call can consume: the whole prompt written to the cache, the answer as long as allowed."""
    raw = canonical_json([request.system, request.tools, request.messages])
    prompt = len(raw.encode("utf-8", "replace")) // BYTES_PER_TOKEN
    cost = price.worst(prompt, request.max_tokens) if price else 0.0
    return Usage(calls=1, input_tokens=prompt, output_tokens=request.max_tokens, cost_usd=cost)


def _consumed(error: CallFailed, worst: Usage) -> Usage:
    if error.usage.calls or error.free:
        return error.usage
    return worst
