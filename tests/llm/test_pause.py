"""A refusal for the rate pauses one lane; three in a row pause all. Timed by the server's own record of arrivals."""

import asyncio
import time

import pytest

from chat_server import Answer, Call, ChatServer, failure, says
from evalscribe.chat import CallFailed, Message, Reply, Request
from evalscribe.llm.openai import OpenAIModel
from evalscribe.llm.pause import IN_A_ROW, Pause
from evalscribe.llm.retry import Patience, Persistent

QUICK = Patience(attempts=6, first_wait_s=0.01, longest_wait_s=0.02, total_s=6.0)
LONG = "0.6"


def asked(lane: str) -> Request:
    return Request(system=lane, messages=(Message(role="user", text="Why?"),))


def lane(call: Call) -> str:
    name = call.body["messages"][0]["content"]
    assert isinstance(name, str)
    return name


def limited(wait: str = LONG) -> Answer:
    return failure(429, "rate_limit_exceeded", retry_after=wait)


class Lanes:
    """Models of one provider that share a pause, and one that does not."""

    def __init__(self, server: ChatServer, patience: Patience = QUICK) -> None:
        self._model = OpenAIModel("test", "key", base_url=server.url)
        self._patience = patience
        self.shared = Pause()

    async def ask(self, name: str, pause: Pause | None = None) -> Reply:
        return await Persistent(self._model, self._patience, pause or self.shared).complete(asked(name))

    async def close(self) -> None:
        await self._model.close()


async def taken(server: ChatServer, number: int) -> None:
    """Return when so many requests have come in."""
    async with asyncio.timeout(5):
        while len(server.calls) < number:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_one_refusal_pauses_its_own_lane_only() -> None:
    def answer(call: Call) -> Answer:
        return limited() if call.number == 0 else says("Done.")

    with ChatServer(answer) as server:
        lanes = Lanes(server)
        first = asyncio.create_task(lanes.ask("a"))
        await taken(server, 1)
        await asyncio.sleep(0.1)
        await lanes.ask("b")
        await first
        await lanes.close()
    assert [lane(call) for call in server.calls] == ["a", "b", "a"]
    assert server.calls[2].at - server.calls[0].at >= 0.6


async def test_three_in_a_row_pause_every_lane_until_the_longest_wait_is_over() -> None:
    """The longest is the first one's; the third asks for less."""
    waits = [LONG, "0.1", "0.1"]

    def answer(call: Call) -> Answer:
        return limited(waits[call.number]) if call.number < IN_A_ROW else says("Done.")

    with ChatServer(answer) as server:
        lanes = Lanes(server)
        refused = [asyncio.create_task(lanes.ask(name)) for name in "abc"]
        await taken(server, IN_A_ROW)
        await asyncio.sleep(0.05)
        await asyncio.gather(*refused, *(lanes.ask(name) for name in "de"))
        await lanes.close()
    after = [call for call in server.calls if call.number >= IN_A_ROW]
    assert {lane(call) for call in after} == set("abcde")
    assert min(call.at for call in after) - server.calls[0].at >= 0.58


async def test_the_first_answer_ends_the_pause() -> None:
    """A call that was under way before the pause comes back well: nobody goes on waiting."""

    def answer(call: Call) -> Answer:
        if lane(call) == "slow":
            return Answer(body=says("Done.").body, delay_s=0.5)
        return limited("2") if call.number <= IN_A_ROW else says("Done.")

    with ChatServer(answer) as server:
        lanes = Lanes(server)
        slow = asyncio.create_task(lanes.ask("slow"))
        await taken(server, 1)
        refused = [asyncio.create_task(lanes.ask(name)) for name in "abc"]
        await taken(server, 1 + IN_A_ROW)
        await asyncio.sleep(0.1)
        began = time.monotonic()
        await lanes.ask("new")
        waited = time.monotonic() - began
        await slow
        for task in refused:
            task.cancel()
        await asyncio.gather(*refused, return_exceptions=True)
        await lanes.close()
    assert waited < 1.75
    at = {lane(call): call.at for call in server.calls}
    assert at["new"] - at["slow"] >= 0.49, "it waited as long as the pause held"


async def test_an_answer_in_between_starts_the_count_anew() -> None:
    script = [limited("0.05"), limited("0.05"), says("Done."), limited("2"), says("Done.")]
    with ChatServer(script) as server:
        lanes = Lanes(server)
        await lanes.ask("a")
        late = asyncio.create_task(lanes.ask("b"))
        await taken(server, 4)
        await asyncio.sleep(0.1)
        assert lanes.shared.left_s() == 0.0
        late.cancel()
        await asyncio.gather(late, return_exceptions=True)
        await lanes.close()


async def test_another_provider_goes_on() -> None:
    def answer(call: Call) -> Answer:
        return says("Done.") if lane(call) == "other" else limited("2")

    with ChatServer(answer) as server:
        lanes = Lanes(server)
        refused = [asyncio.create_task(lanes.ask(name)) for name in "abc"]
        await taken(server, IN_A_ROW)
        await asyncio.sleep(0.1)
        assert lanes.shared.left_s() > 1.0
        await lanes.ask("other", Pause())
        assert lanes.shared.left_s() > 0.0
        for task in refused:
            task.cancel()
        await asyncio.gather(*refused, return_exceptions=True)
        await lanes.close()


async def test_nobody_waits_for_longer_than_any_call_has_patience() -> None:
    with ChatServer(limited("60")) as server:
        lanes = Lanes(server, QUICK.model_copy(update={"total_s": 1.0}))
        began = time.monotonic()
        for name in "abcd":
            with pytest.raises(CallFailed, match="asks to wait 60 s"):
                await lanes.ask(name)
        assert time.monotonic() - began < 5.0
        await lanes.close()
    assert len(server.calls) == 4


async def test_a_call_that_would_be_paused_beyond_its_patience_is_given_up() -> None:
    with ChatServer(limited("0.4")) as server:
        lanes = Lanes(server, QUICK.model_copy(update={"total_s": 1.0}))
        began = time.monotonic()
        outcomes = await asyncio.gather(*(lanes.ask(name) for name in "abcdef"), return_exceptions=True)
        took = time.monotonic() - began
        await lanes.close()
    assert all(isinstance(outcome, CallFailed) for outcome in outcomes)
    assert took < 2.5
