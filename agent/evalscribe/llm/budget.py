"""Provide the prices of models, and the budget that all calls of a command share, even if they run in several
processes."""

import asyncio
import math
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache, partial
from itertools import count
from types import MappingProxyType
from typing import cast

from evalscribe.errors import AccessError, UsageError
from evalscribe.ids import Frozen, canonical_json
from evalscribe.model.chat import BudgetExceeded, CallFailed, Reply, Request, Usage
from evalscribe.model.protocols import AskParent, Model, OnText
from evalscribe.settings.access import did_you_mean, price_rows
from evalscribe.settings.consent import Consent

MILLION = 1_000_000
BATCH_FACTOR = 0.5
"""Price of a token in a Message Batch, relative to its price in a single call. The factor also applies to cached
tokens."""


class Rate(Frozen):
    """Prices in US dollars per million tokens. They apply to calls whose prompt has more than `above` tokens."""

    above: int = 0
    input: float
    output: float
    cache_write: float
    cache_read: float

    def cost(self, usage: Usage) -> float:
        uncached = usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens
        return (
            max(0, uncached) * self.input
            + usage.cache_write_tokens * self.cache_write
            + usage.cache_read_tokens * self.cache_read
            + usage.output_tokens * self.output
        ) / MILLION

    def times(self, factor: float) -> "Rate":
        rates = {name: getattr(self, name) * factor for name in ("input", "output", "cache_write", "cache_read")}
        return self.model_copy(update=rates)


class Price(Frozen):
    """Price of one model. The length of the prompt determines which rate applies."""

    model: str
    rates: tuple[Rate, ...]
    """Rates in ascending order of `above`. The first rate has `above` 0."""

    def cost(self, usage: Usage) -> float:
        """Return the cost of one call in US dollars."""
        # A prompt of 0 tokens gets the first rate, whose `above` is 0. Without this, no rate would match and `max`
        # would raise.
        rate = max((r for r in self.rates if r.above < max(1, usage.input_tokens)), key=lambda r: r.above)
        return rate.cost(usage)

    def worst(self, input_tokens: int, output_tokens: int) -> float:
        """Return the maximum cost, in US dollars, of a call with these numbers of tokens.

        If writing to the cache costs more, the whole prompt counts as written to the cache.
        """
        usage = Usage(input_tokens=input_tokens, output_tokens=output_tokens)
        written = usage.model_copy(update={"cache_write_tokens": input_tokens})
        return max(self.cost(usage), self.cost(written))

    def batch(self) -> "Price":
        """Return the price of the same model in a batch."""
        return self.model_copy(update={"rates": tuple(rate.times(BATCH_FACTOR) for rate in self.rates)})


def price_of(model: str) -> Price | None:
    """Return the price of the model `provider/name`; None if the price file does not contain it.

    The name can end with a date, such as `…-20261007`.
    """
    return _prices().get(re.sub(r"-\d{8}$", "", model))


def cost_of(model: Model, *, batch: bool = False) -> Callable[[Usage], float] | None:
    """Return a function that computes the cost of one call in US dollars.

    `batch` says whether the call is part of a batch. Returns None if the price of the model is unknown.
    """
    cost = price_of(model.id)
    if cost is None:
        return None
    return cost.batch().cost if batch else cost.cost


@cache
def _prices() -> dict[str, Price]:
    rates: dict[str, list[Rate]] = {}
    for row in price_rows():
        rates.setdefault(row["model"], []).append(Rate(**{key: row[key] for key in row.keys() - {"model"}}))
    return {model: Price(model=model, rates=tuple(sorted(r, key=lambda x: x.above))) for model, r in rates.items()}


BYTES_PER_TOKEN = 2
"""Minimum number of bytes per token in ASCII text. Ids, hashes and minified code reach this minimum; prose and ordinary
code have 3 to 4 bytes per token.

In text other than ASCII, every byte can need a token of its own.
"""
TOKENS_PER_CALL = 64
"""Maximum number of tokens that a provider adds to a message, for example for roles and separators."""
TOKENS_FOR_TOOLS = 1024
"""Maximum number of tokens of the instructions that a provider adds if the request has tools or an output schema."""

Settle = Callable[[Usage], None]
"""Function that records the usage of a call."""


class Budget:
    """Limit on the usage of all calls of one command: in dollars, in tokens, or in both.

    The budget also checks that the user has consented to calls of the model.
    """

    def __init__(self, usd: float | None = None, tokens: int | None = None, consent: Consent | None = None) -> None:
        """Set the limits.

        Raises `UsageError` if a limit is invalid, such as NaN. If `consent` is None, all models may be called.
        """
        for bound in (usd, tokens):
            if bound is not None and not (math.isfinite(bound) and bound >= 0):
                raise UsageError(f"a budget must be a number of at least 0, not {bound}")
        self.usd = usd
        self.tokens = tokens
        self.consent = consent or Consent(agreed=True)
        self._by_stage: dict[str, Usage] = {}
        self._holds = _Holds()
        self._settled = asyncio.Event()

    @property
    def by_stage(self) -> Mapping[str, Usage]:
        """Usage of each stage so far. The stages are in the order in which they first called a model."""
        return MappingProxyType(self._by_stage)

    @property
    def spent(self) -> Usage:
        return sum(self._by_stage.values(), Usage())

    @asynccontextmanager
    async def hold(self, worst: Usage, stage: str, model: str = "") -> AsyncIterator[Settle]:
        """Reserve the maximum usage of a call while the call runs.

        If the call does not fit into the budget yet, wait until calls in progress end. A waiting call reserves nothing.
        Raises `BudgetExceeded` if the call does not fit even when all other calls have ended. Raises `ConsentError` if
        the model may not be called. Every call of a model must use this method.
        """
        self.consent.require(model)
        while not self._fits(worst, self._holds):
            # A call that does not fit into what the usage so far has left will never fit, so it does not wait for the
            # calls in progress.
            if not self._fits(worst, _Holds()):
                raise BudgetExceeded(f"{self._name()} has no room for another call; run again with a larger budget")
            await self._settled.wait()
        # The stage is entered before the call, so that stages are ordered by their first calls and not by their first
        # answers.
        self._by_stage.setdefault(stage, Usage())
        self._holds.add(worst)
        try:
            yield partial(self._settle, stage)
        finally:
            self._holds.remove(worst)
            # All waiting calls check again, because a small call can fit where a large one does not. Calls that still
            # wait then wait on the new event.
            self._settled.set()
            self._settled = asyncio.Event()

    def _settle(self, stage: str, usage: Usage) -> None:
        self._by_stage[stage] = self._by_stage.get(stage, Usage()) + usage

    def _fits(self, worst: Usage, holds: "_Holds") -> bool:
        total = self.spent + worst
        in_dollars = self.usd is None or total.cost_usd + holds.usd <= self.usd
        return in_dollars and (self.tokens is None or _tokens(total) + holds.tokens <= self.tokens)

    def _name(self) -> str:
        dollars = [] if self.usd is None else [f"${self.usd:g}"]
        tokens = [] if self.tokens is None else [f"{self.tokens} tokens"]
        return f"the budget of {' and '.join(dollars + tokens)}"


class _Holds:
    """Sum of the reserved amounts. An update takes constant time, no matter how many calls there are."""

    def __init__(self) -> None:
        self.usd = 0.0
        self.tokens = 0
        self._calls = 0

    def add(self, worst: Usage) -> None:
        self.usd += worst.cost_usd
        self.tokens += _tokens(worst)
        self._calls += 1

    def remove(self, worst: Usage) -> None:
        self._calls -= 1
        self.tokens -= _tokens(worst)
        # The sum is reset to exactly 0 when no call is in flight, because a rounding error would block waiting calls.
        self.usd = self.usd - worst.cost_usd if self._calls else 0.0


class BudgetedModel:
    """A `Model` that charges its calls to one stage of a shared budget."""

    def __init__(
        self, model: Model, budget: "Budget | RemoteBudget", price: Price | None, stage: str = "judge"
    ) -> None:
        """Store the arguments.

        Raises `UsageError` if the price of the model is unknown and the budget has only a limit in dollars.
        """
        if price is None and budget.usd is not None and budget.tokens is None:
            raise UsageError(
                f"{model.id} has no known price{did_you_mean(model.id)}, so a budget in dollars cannot limit it: "
                "set `max_tokens` N",
                fields=("max_tokens",),
            )
        self.id = model.id
        self.context_tokens = model.context_tokens
        self._model = model
        self._budget = budget
        self._price = price
        self._stage = stage

    async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        """Make the call within the budget.

        If a reply or failure contains no usage, the call's maximum usage is counted and stored in the reply or failure,
        unless the call was free.

        A reply that was billed before keeps its usage, but this usage is not counted again.
        """
        worst = worst_case(request, self._price)
        async with self._budget.hold(worst, self._stage, self.id) as settle:
            # The maximum counts if the call is cancelled or fails in an unexpected way: the provider can have charged
            # for it.
            used = worst
            try:
                reply = _counted(await self._model.complete(request, on_text), worst)
                used = Usage() if reply.billed_before else reply.usage
                return reply
            except CallFailed as error:
                used = error.usage = _consumed(error, worst)
                raise
            except (AccessError, UsageError):
                # The call was rejected before any token was processed, for example because of an invalid key or an
                # unknown model.
                used = Usage()
                raise
            finally:
                settle(used)

    def forget(self, request: Request) -> None:
        self._model.forget(request)

    async def close(self) -> None:
        await self._model.close()


def worst_case(request: Request, price: Price | None) -> Usage:
    """Return the maximum usage of one call.

    The answer is assumed to have the maximum length. If writing to the cache costs more, the whole prompt is assumed to
    be written to the cache.
    """
    prompt = _most_tokens(canonical_json([request.system, request.tools, request.messages, request.answer_schema]))
    prompt += TOKENS_PER_CALL * (1 + len(request.messages))
    prompt += TOKENS_FOR_TOOLS if request.tools or request.answer_schema else 0
    cost = price.worst(prompt, request.max_tokens) if price else 0.0
    return Usage(calls=1, input_tokens=prompt, output_tokens=request.max_tokens, cost_usd=cost)


def _tokens(usage: Usage) -> int:
    return usage.input_tokens + usage.output_tokens


def _most_tokens(text: str) -> int:
    # Evidence can contain lone surrogates, which UTF-8 cannot encode.
    size = len(text.encode("utf-8", "replace"))
    ascii_only = size if text.isascii() else len(text.encode("ascii", "ignore"))
    # `-(-a // b)` rounds up.
    return size - ascii_only + -(-ascii_only // BYTES_PER_TOKEN)


def _counted(reply: Reply, worst: Usage) -> Reply:
    """Return the reply, with the usage `worst` if the provider reported none."""
    # A prompt that exceeds the context window is rejected unread, so it costs nothing.
    if reply.usage.calls or reply.stop == "context_exceeded":
        return reply
    return reply.model_copy(update={"usage": worst})


def _consumed(error: CallFailed, worst: Usage) -> Usage:
    if error.usage.calls or error.free:
        return error.usage
    return worst


class BudgetHold(Frozen):
    """A worker's request to reserve the maximum usage of a call.

    The parent process answers with the number of the reservation as soon as the usage is reserved.
    """

    worst: Usage
    stage: str
    model: str


class BudgetRelease(Frozen):
    """A worker's report of the usage of its call. The report ends the reservation."""

    number: int
    used: Usage | None
    """The usage of the call; None if the call was not sent."""


class RemoteBudget:
    """The budget in a worker process. It forwards every reservation to the budget of the parent process."""

    def __init__(self, ask: AskParent, usd: float | None, tokens: int | None) -> None:
        self.usd = usd
        self.tokens = tokens
        self._ask = ask
        self._late: set[asyncio.Future[None]] = set()

    @property
    def by_stage(self) -> Mapping[str, Usage]:
        """Return an empty mapping, because only the parent's budget counts the usage of stages."""
        return {}

    @asynccontextmanager
    async def hold(self, worst: Usage, stage: str, model: str = "") -> AsyncIterator[Settle]:
        """Reserve a call's maximum usage in the parent's budget.

        If the caller is cancelled while it waits, the reservation is released as soon as the parent has made it.
        """
        asking = asyncio.ensure_future(self._ask(BudgetHold(worst=worst, stage=stage, model=model)))
        try:
            # The parent cannot be told to forget a request. If it were cancelled here, the number of the reservation
            # would be lost, and the reservation would last as long as the command.
            number = cast(int, await asyncio.shield(asking))
        except asyncio.CancelledError:
            late = asyncio.ensure_future(self._give_back(asking))
            # The event loop holds only weak references to tasks.
            self._late.add(late)
            late.add_done_callback(self._late.discard)
            raise
        used = [worst]
        try:
            yield used.append
        finally:
            await self._ask(BudgetRelease(number=number, used=used[-1]))

    async def _give_back(self, asking: "asyncio.Future[object]") -> None:
        (number,) = await asyncio.gather(asking, return_exceptions=True)
        if isinstance(number, int):
            await self._ask(BudgetRelease(number=number, used=None))


@asynccontextmanager
async def serve_budget(budget: "Budget | RemoteBudget") -> AsyncIterator[AskParent]:
    """Answer the requests of one worker.

    If the worker dies before it reports the usage of a call, the maximum usage of the call is counted.
    """
    async with AsyncExitStack() as dying:
        holds: dict[int, tuple[AsyncExitStack, Settle, Usage]] = {}
        numbers = count()

        async def bury() -> None:
            for stack, settle, worst in holds.values():
                # A worker that died can have been charged for its calls.
                settle(worst)
                await stack.aclose()

        async def ask(question: object) -> object:
            if isinstance(question, BudgetHold):
                stack = AsyncExitStack()
                settle = await stack.enter_async_context(budget.hold(question.worst, question.stage, question.model))
                number = next(numbers)
                holds[number] = stack, settle, question.worst
                return number
            assert isinstance(question, BudgetRelease), question
            stack, settle, _ = holds.pop(question.number)
            if question.used is not None:
                settle(question.used)
            await stack.aclose()
            return None

        dying.push_async_callback(bury)
        yield ask
