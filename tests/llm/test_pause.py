"""A rate-limit refusal pauses one call; three in a row pause all. Tests advance the clock of the event loop."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from evalscribe.llm.openai import OpenAIModel
from evalscribe.llm.service import MAX_REFUSALS, RateLimitPause, RetryingModel, RetryPolicy
from evalscribe.model.chat import CallFailed, Message, Reply, Request
from support.chat_server import Answer, Call, ChatServer, failure, says
from support.loop_clock import LoopClock
from support.waiting import until

PATIENCE = RetryPolicy(attempts=6, first_wait_s=0.01, longest_wait_s=0.02, total_s=6.0)
LONG = "0.6"


def make_request(caller_name: str) -> Request:
    return Request(system=caller_name, messages=(Message(role="user", text="Why?"),))


def caller_name(call: Call) -> str:
    name = call.body["messages"][0]["content"]
    assert isinstance(name, str)
    return name


def limited(wait: str = LONG) -> Answer:
    return failure(429, "rate_limit_exceeded", retry_after=wait)


class Callers:
    """Calls to one provider that share a rate-limit pause."""

    def __init__(self, server: ChatServer, patience: RetryPolicy = PATIENCE) -> None:
        self._model = OpenAIModel("test", "key", base_url=server.url)
        self._patience = patience
        self._server = server
        self.shared = RateLimitPause()
        self.clock = LoopClock()

    @property
    def refusals(self) -> int:
        """Refusals since the last answer."""
        return self.shared._refused

    async def refused(self, names: str) -> list[asyncio.Task[Reply]]:
        """Start one call per letter, wait until all are refused, and return their waiting tasks."""
        before = self.refusals
        self._server.gather(len(names))
        tasks = [asyncio.create_task(self.ask(name)) for name in names]
        await until(lambda: self.refusals == before + len(names), "refusals")
        self._server.gather(0)
        return tasks

    async def ask(self, name: str, pause: RateLimitPause | None = None) -> Reply:
        return await RetryingModel(self._model, self._patience, pause or self.shared).complete(make_request(name))

    async def close(self) -> None:
        await self._model.close()


async def test_one_refusal_pauses_only_its_own_call() -> None:
    def answer(call: Call) -> Answer:
        return limited() if call.number == 0 else says("Done.")

    with ChatServer(answer) as server:
        callers = Callers(server)
        (first,) = await callers.refused("a")
        await callers.ask("b")
        assert [caller_name(call) for call in server.calls] == ["a", "b"]
        callers.clock.advance(0.59)
        await callers.ask("b")
        assert [caller_name(call) for call in server.calls] == ["a", "b", "b"]
        callers.clock.advance(0.02)
        await first
        await callers.close()
    assert [caller_name(call) for call in server.calls] == ["a", "b", "b", "a"]


async def test_three_refusals_in_a_row_pause_all_calls_for_the_longest_wait() -> None:
    """The first refusal asks for the longest pause."""
    waits = [LONG, "0.1", "0.1"]

    def answer(call: Call) -> Answer:
        return limited(waits[call.number]) if call.number < MAX_REFUSALS else says("Done.")

    with ChatServer(answer) as server:
        callers = Callers(server)
        tasks = await callers.refused("abc")
        tasks += [asyncio.create_task(callers.ask(name)) for name in "de"]
        callers.clock.advance(0.59)
        await settled()
        assert len(server.calls) == MAX_REFUSALS
        callers.clock.advance(0.02)
        await asyncio.gather(*tasks)
        await callers.close()
    assert {caller_name(call) for call in server.calls[MAX_REFUSALS:]} == set("abcde")


async def test_first_answer_ends_the_shared_pause() -> None:
    """A call that started before the pause succeeds, so new calls stop waiting."""

    def answer(call: Call) -> Answer:
        if caller_name(call) == "slow":
            return replace(says("Done."), held=True)
        return limited("2") if call.number <= MAX_REFUSALS else says("Done.")

    with ChatServer(answer) as server:
        callers = Callers(server)
        slow = asyncio.create_task(callers.ask("slow"))
        await until(lambda: server.calls, "the slow call")
        refused = await callers.refused("abc")
        new = asyncio.create_task(callers.ask("new"))
        await settled()
        assert len(server.calls) == 1 + MAX_REFUSALS, "it waits as long as the pause holds"
        server.release()
        await slow
        await new
        assert not any(task.done() for task in refused), "each waits as it was told"
        await cancelled(refused)
        await callers.close()


async def test_answer_between_refusals_resets_the_count() -> None:
    script = [limited("0.05"), limited("0.05"), says("Done."), limited("2"), says("Done.")]
    with ChatServer(script) as server:
        callers = Callers(server)
        first_call = asyncio.create_task(callers.ask("a"))
        for refusals in (1, 2):
            await until(lambda number=refusals: callers.refusals == number, "a refusal")
            callers.clock.advance(0.06)
        await first_call
        (late,) = await callers.refused("b")
        assert callers.shared.remaining_s() == 0.0
        await cancelled([late])
        await callers.close()


async def test_pause_does_not_affect_another_provider() -> None:
    def answer(call: Call) -> Answer:
        return says("Done.") if caller_name(call) == "other" else limited("2")

    with ChatServer(answer) as server:
        callers = Callers(server)
        refused = await callers.refused("abc")
        assert callers.shared.remaining_s() == 2.0
        await callers.ask("other", RateLimitPause())
        assert callers.shared.remaining_s() == 2.0
        await cancelled(refused)
        await callers.close()


async def test_retry_after_beyond_the_time_limit_fails_without_waiting() -> None:
    """The clock stands still, so a call that waits would never return."""
    with ChatServer(limited("60")) as server:
        callers = Callers(server)
        for name in "abcd":
            with pytest.raises(CallFailed, match="asks to wait 60 s"):
                await callers.ask(name)
        await callers.close()
    assert len(server.calls) == 4


async def test_call_fails_when_a_second_wait_would_exceed_its_time_limit() -> None:
    with ChatServer(limited("4")) as server:
        callers = Callers(server)
        refused = await callers.refused("abcdef")
        callers.clock.advance(4.1)
        outcomes = await asyncio.gather(*refused, return_exceptions=True)
        await callers.close()
    assert all(isinstance(outcome, CallFailed) for outcome in outcomes)
    assert len(server.calls) == 12, "none waits a second time: it would end after its six seconds"


async def settled() -> None:
    """Let every task run until it waits."""
    for _ in range(100):
        await asyncio.sleep(0)


async def cancelled(tasks: Sequence[asyncio.Task[Reply]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
