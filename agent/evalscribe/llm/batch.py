"""Many questions in one Message Batch: half the price, and an answer within a day.

    waves = Batched(AnthropicModel(…), intents, price)            # one for each model, whatever stages ask it
    model = batched(waves, Persistent(…), budget, price, stage)    # what `Service.open` gives where it has intents

Calls gather into a wave; when none came for a moment, the wave goes out as one batch, and each call returns when the
batch has ended. So whoever calls must call many times at once, and must not bound the time of a call: a day is normal.
The intent to send a batch is stored before it is sent. After a kill anywhere, asking the same again finds the batch,
by its id or, where that was not heard any more, among the service's recent ones, and sends only what is in none.
An answer is billed once: whoever takes it after the first is given it as billed before, until it is forgotten.
"""

import asyncio
import copy
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from evalscribe.chat import CallFailed, Reply, Request, Usage
from evalscribe.errors import EvalscribeError
from evalscribe.ids import canonical_json, content_id
from evalscribe.llm.anthropic import AnthropicModel
from evalscribe.llm.batch_api import BatchApi, Gone, Outcome
from evalscribe.llm.batch_delivery import Delivery, Pace
from evalscribe.llm.budget import Budgeted, Purse
from evalscribe.llm.prices import Price
from evalscribe.ports import Intent, Intents, Model, OnText, Unanswered

if TYPE_CHECKING:
    from anthropic.types.message_create_params import MessageCreateParamsNonStreaming


Failure = CallFailed | EvalscribeError


class NotAnswered(CallFailed):
    """The batch did not answer this question: ask it by itself."""


@dataclass
class Question:
    """A question that somebody waits for."""

    params: "MessageCreateParamsNonStreaming"
    answer: "asyncio.Future[Outcome | Failure]"
    callers: int = 0


class Batched:
    """A `ports.Model` whose calls go out together."""

    def __init__(
        self,
        adapter: AnthropicModel,
        intents: Intents,
        price: Price | None,
        *,
        pace: Pace | None = None,
        fresh: bool = False,
    ) -> None:
        """`price`: of a single call; what comes through a batch is counted at the batch's.

        `fresh`: what was answered and taken once is asked anew; an answer that a killed process left is still used.
        """
        self.id = adapter.id
        self.context_tokens = adapter.context_tokens
        self._adapter = adapter
        self._intents = intents
        self._pace = pace or Pace()
        self._fresh = fresh
        self._delivery = Delivery(BatchApi(adapter, price.batch() if price else None), intents, self._pace)
        self._asked: dict[str, Question] = {}
        self._wave: dict[str, Question] = {}
        self._wave_bytes = 0
        self._quiet: asyncio.TimerHandle | None = None
        self._followed: set[str] = set()
        """Questions whose batch a task waits for."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        """Raises `NotAnswered` where the batch has no answer, `EvalscribeError` for what concerns all calls.

        `on_text` hears the whole text at once: a batch writes no answer while anybody waits.
        """
        params = self._adapter.params(request)
        key = question_key(params, request.rollout)
        asked = self._asked.get(key) or self._ask(key, params)
        asked.callers += 1
        try:
            reply = self._taken(key, await asyncio.shield(asked.answer))
        finally:
            asked.callers -= 1
            if not asked.callers and self._asked.get(key) is asked:
                del self._asked[key]
                self._wave.pop(key, None)
        if on_text and reply.text:
            on_text(reply.text)
        return reply

    def forget(self, request: Request) -> None:
        self._intents.release(question_key(self._adapter.params(request), request.rollout))

    async def close(self) -> None:
        """A batch under way goes on without us."""
        if self._quiet:
            self._quiet.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._adapter.close()

    def _ask(self, key: str, params: "MessageCreateParamsNonStreaming") -> Question:
        asked = Question(params, asyncio.get_running_loop().create_future())
        self._asked[key] = asked
        try:
            if self._fresh:
                self._intents.release(key)
            self._pursue(key)
        except EvalscribeError as error:
            self._answer(key, error)
        return asked

    def _taken(self, key: str, outcome: Outcome | Failure) -> Reply:
        if isinstance(outcome, Reply):
            return outcome if self._intents.take(key) else outcome.model_copy(update={"billed_before": True})
        if isinstance(outcome, Unanswered):
            free = not (outcome.charged and self._intents.take(key))
            raise NotAnswered(f"the batch did not answer ({outcome.reason})", free=free)
        # Whoever catches one may change it, and many wait for the same.
        raise copy.copy(outcome)

    def _pursue(self, key: str) -> None:
        """Take the answer from where it is or will be, or let the question join the wave."""
        known = self._intents.outcome(key)
        if known:
            self._answer(key, known)
        elif key not in self._followed:
            intent = self._intents.of(key)
            if intent is None:
                self._join(key)
            else:
                self._followed.update(intent.keys)
                self._start(lambda: self._deliver(intent, lambda: self._delivery.recovered(intent)), intent.keys)

    def _answer(self, key: str, outcome: Outcome | Failure) -> None:
        asked = self._asked.get(key)
        if asked and not asked.answer.done():
            asked.answer.set_result(outcome)

    def _join(self, key: str) -> None:
        self._wave[key] = self._asked[key]
        self._wave_bytes += len(canonical_json(self._asked[key].params).encode("utf-8", "replace"))
        if self._quiet:
            self._quiet.cancel()
        if len(self._wave) >= self._pace.most or self._wave_bytes >= self._pace.most_bytes:
            self._flush()
        else:
            self._quiet = asyncio.get_running_loop().call_later(self._pace.quiet_s, self._flush)

    def _flush(self) -> None:
        wave, self._wave, self._wave_bytes = self._wave, {}, 0
        if wave:
            self._start(lambda: self._send(wave), wave)

    def _start(self, work: Callable[[], Awaitable[None]], keys: Iterable[str]) -> None:
        task = asyncio.create_task(self._guarded(work, keys))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guarded(self, work: Callable[[], Awaitable[None]], keys: Iterable[str]) -> None:
        """Whatever goes wrong reaches those who wait for these answers: the one place that catches everything."""
        try:
            await work()
        except Exception as error:
            if not isinstance(error, Failure):
                error = EvalscribeError(f"a batch of {self.id} came to nothing: {error!r}")
            for key in keys:
                self._answer(key, error)

    async def _send(self, wave: Mapping[str, Question]) -> None:
        """Store the intent, and only then send the questions that are in no other process's."""
        intent_id = secrets.token_hex(16)
        with self._intents.claim(intent_id):
            wanted = Intent(id=intent_id, keys=tuple(wave), created=datetime.now(UTC))
            intent = self._intents.add(wanted)
            params = {key: wave[key].params for key in intent.keys}
            for key in wave.keys() - params.keys():
                self._pursue(key)
            if params:
                self._followed.update(intent.keys)
                sent = partial(self._delivery.submit, intent, params)
                await self._guarded(lambda: self._deliver(intent, sent), intent.keys)

    async def _deliver(self, intent: Intent, sent: Callable[[], Awaitable[str | None]]) -> None:
        """Answer everybody who asked what is in the intent; what turns out to be in no batch is asked anew."""
        try:
            batch_id = await sent()
            if batch_id is not None:
                await self._read(intent, batch_id)
                return
        except Gone:
            pass
        finally:
            self._followed.difference_update(intent.keys)
        for key in intent.keys:
            if key in self._asked:
                self._pursue(key)

    async def _read(self, intent: Intent, batch_id: str) -> None:
        async with aclosing(self._delivery.outcomes(intent, batch_id)) as outcomes:
            async for some in outcomes:
                for key, outcome in some.items():
                    self._answer(key, outcome)


class Either:
    """A `ports.Model` that asks by itself what the batch did not answer."""

    def __init__(self, waves: Model, single: Model) -> None:
        self.id = waves.id
        self.context_tokens = waves.context_tokens
        self._waves = waves
        self._single = single

    async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        try:
            return await self._waves.complete(request, on_text)
        except NotAnswered as lost:
            return await self._alone(request, lost.usage, on_text)

    async def _alone(self, request: Request, lost: Usage, on_text: OnText | None) -> Reply:
        try:
            reply = await self._single.complete(request, on_text)
        except CallFailed as error:
            error.usage, error.free = lost + error.usage, error.free and not lost.calls
            raise
        return reply.model_copy(update={"usage": lost + reply.usage})

    def forget(self, request: Request) -> None:
        self._waves.forget(request)

    async def close(self) -> None:
        await self._waves.close()
        await self._single.close()


def batched(waves: Batched, single: Model, budget: Purse, price: Price | None, stage: str) -> Model:
    """Through the batch at its price, and what that did not answer by a single call, which is budgeted on its own.

    Each holds its own worst case of the budget, one after the other: calls that do not fit join the next wave.
    """
    return Either(Budgeted(waves, budget, price.batch() if price else None, stage), single)


def question_key(params: "MessageCreateParamsNonStreaming", rollout: int) -> str:
    """64 hex digits, as a batch may name a question: equal for equal questions, and for nothing else."""
    return content_id({"params": params, "rollout": rollout}).removeprefix("sha256:")
