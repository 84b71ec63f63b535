"""Questions that go out together, against a server on loopback."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import SecretStr

from batch_desk import HALF_PRICE, NAME, OPUS, QUICK, Desk, ask, failing, sent, stored_intent, texts
from batches_server import Batch, answer, errored, succeeded
from evalscribe.errors import EvalscribeError, NotFoundError, UsageError
from evalscribe.llm.anthropic import AnthropicModel
from evalscribe.llm.batch import BatchNotAnswered
from evalscribe.llm.budget import Budget, worst_case
from evalscribe.llm.service import ModelService
from evalscribe.model.chat import BatchIntent, Reply, Usage
from evalscribe.settings.access import Access
from evalscribe.settings.config import DEFAULT
from waiting import until


async def test_calls_at_once_are_one_batch_and_each_gets_its_own_answer(desk: Desk) -> None:
    replies = await desk.ask(*(ask(f"q{n}") for n in range(7)))
    assert texts(replies) == [f"to q{n}" for n in range(7)]
    assert len(desk.server.batches) == 1
    assert desk.server.singles == []


async def test_what_a_batch_costs_is_half(desk: Desk) -> None:
    (reply,) = await desk.ask(ask("q"))
    assert isinstance(reply, Reply)
    assert reply.usage.cost_usd == pytest.approx(HALF_PRICE)
    assert reply.usage.model_copy(update={"cost_usd": 0.0}) == Usage(calls=1, input_tokens=100, output_tokens=10)


async def test_the_body_of_a_question_is_that_of_a_single_call(desk: Desk) -> None:
    request = ask("q").model_copy(update={"effort": "high", "answer_schema": {"type": "object"}})
    await desk.ask(request)
    (sent,) = desk.server.batches[0].requests.values()
    assert sent == AnthropicModel(NAME, "key").params(request)


async def test_rollouts_are_questions_of_their_own_and_equal_questions_are_one(desk: Desk) -> None:
    replies = await desk.ask(ask("q", 0), ask("q", 1), ask("q", 1))
    assert texts(replies) == ["to q"] * 3
    assert len(desk.server.submitted) == 2


async def test_a_wave_goes_out_when_it_is_full(desk: Desk) -> None:
    replies = await desk.ask(*(ask(f"q{n}") for n in range(7)), pace=QUICK.model_copy(update={"most": 3}))
    assert len(texts(replies)) == 7
    assert sorted(len(batch.requests) for batch in desk.server.batches) == [1, 3, 3]
    big = QUICK.model_copy(update={"most_bytes": 1})
    assert len(texts(await desk.ask(ask("a"), ask("b"), pace=big))) == 2
    assert len(desk.server.batches) == 5


async def test_asked_again_later_nothing_is_sent_and_nothing_is_looked_up(desk: Desk) -> None:
    await desk.ask(ask("q0"), ask("q1"))
    before = dict(desk.server.calls)
    assert texts(await desk.ask(ask("q1"))) == ["to q1"]
    assert desk.server.calls == before


async def test_an_answer_of_a_batch_is_heard_at_once_whoever_asks_again(desk: Desk) -> None:
    heard: list[str] = []
    for _ in range(2):
        model = desk.within(Budget(usd=1.0))
        await model.complete(ask("q"), heard.append)
        await model.close()
    assert heard == ["to q", "to q"]
    assert len(desk.server.submitted) == 1


async def test_what_is_spent_counts_an_answer_once_however_often_it_is_asked_for(desk: Desk) -> None:
    budgets = [Budget(usd=1.0), Budget(usd=1.0)]
    costs = []
    for budget in budgets:
        model = desk.within(budget)
        costs += [reply.usage.cost_usd for reply in await asyncio.gather(*(model.complete(ask("q")) for _ in range(3)))]
        await model.close()
    assert costs == [pytest.approx(HALF_PRICE)] * 6, "what an answer cost is told each time"
    assert [budget.spent.calls for budget in budgets] == [1, 0]
    assert budgets[0].spent.cost_usd == pytest.approx(HALF_PRICE)


async def test_what_a_batch_answered_and_nobody_took_counts_for_who_takes_it_first(desk: Desk) -> None:
    stored_intent(desk, ask("q0"), ask("q1"), batch_id=sent(desk, ask("q0"), ask("q1")))
    await desk.ask(ask("q0"))
    replies = await desk.ask(ask("q0"), ask("q1"))
    assert [reply.billed_before for reply in replies if isinstance(reply, Reply)] == [True, False]


async def test_fresh_asks_anew_what_was_taken_and_uses_what_nobody_took(desk: Desk) -> None:
    stored_intent(desk, ask("q0"), ask("q1"), batch_id=sent(desk, ask("q0"), ask("q1")))
    await desk.ask(ask("q0"))
    desk.server.result = lambda key, params: {"type": "succeeded", "message": answer("again")}
    assert texts(await desk.ask(ask("q0"), ask("q1"), fresh=True)) == ["again", "to q1"]
    assert desk.server.submitted == dict(zip(desk.keys(ask("q0"), ask("q1")), (2, 1), strict=True))


async def test_an_old_batch_that_is_read_again_answers_nothing_that_was_asked_anew(desk: Desk) -> None:
    old = sent(desk, ask("q0"), ask("q1"))
    stored_intent(desk, ask("q1"), batch_id=old)
    desk.intents.add(BatchIntent(id="anew", keys=desk.keys(ask("q0")), created=datetime.now(UTC)))
    desk.intents.submitted("anew", sent(desk, ask("q0")))
    lines = desk.server.lines

    def lined(batch: Batch) -> list[bytes]:
        desk.server.result = (
            succeeded if batch.id == old else lambda *_: {"type": "succeeded", "message": answer("new")}
        )
        return lines(batch)

    desk.server.lines = lined  # type: ignore[method-assign]
    assert texts(await desk.ask(ask("q1"))) == ["to q1"]
    assert texts(await desk.ask(ask("q0"))) == ["new"]


async def test_a_batch_that_nobody_waited_for_to_the_end_is_read_next_time(desk: Desk) -> None:
    desk.server.looks = 10**9
    left = asyncio.create_task(desk.ask(ask("q0"), ask("q1")))
    await until(lambda: any(batch.looks for batch in desk.server.batches))
    left.cancel()
    await asyncio.wait([left])
    desk.server.looks = 0
    assert texts(await desk.ask(ask("q0"), ask("q2"))) == ["to q0", "to q2"]
    assert set(desk.server.submitted.values()) == {1}
    assert [len(batch.requests) for batch in desk.server.batches] == [2, 1]


@pytest.mark.parametrize("kind", ["errored", "expired", "canceled"])
async def test_what_a_batch_did_not_answer_is_asked_by_itself_at_the_full_price(desk: Desk, kind: str) -> None:
    lost = desk.keys(ask("q1"))[0]
    desk.server.result = lambda key, params: (errored(kind) if key == lost else succeeded)(key, params)
    budget = Budget(usd=1.0)
    model = desk.within(budget)
    replies = await asyncio.gather(*(model.complete(ask(f"q{n}")) for n in range(3)))
    await model.close()
    assert [reply.text for reply in replies] == ["to q0", "alone", "to q2"]
    assert len(desk.server.singles) == 1
    assert budget.spent.cost_usd == pytest.approx(4 * HALF_PRICE)
    assert budget.spent == replies[0].usage + replies[1].usage + replies[2].usage


async def test_without_a_way_to_ask_by_itself_it_is_said_and_free(desk: Desk) -> None:
    desk.server.result = errored()
    (failure,) = await desk.ask(ask("q"))
    assert isinstance(failure, BatchNotAnswered)
    assert (failure.reason, failure.free) == ("the batch did not answer (errored: no luck)", True)


UNREADABLE = [{"type": "succeeded", "message": {"content": None}}, {"type": "succeeded"}, None, "text"]


@pytest.mark.parametrize("result", UNREADABLE)
async def test_an_answer_that_cannot_be_read_may_have_cost_and_is_known_from_then_on(desk: Desk, result: Any) -> None:
    desk.server.result = lambda key, params: result
    (failure,) = await desk.ask(ask("q"))
    assert isinstance(failure, BatchNotAnswered)
    assert not failure.free
    before = dict(desk.server.calls)
    (again,) = await desk.ask(ask("q"))
    assert isinstance(again, BatchNotAnswered)
    assert again.free, "it is counted once"
    assert desk.server.calls == before


async def test_a_question_that_the_batch_forgot_concerns_that_question_only(desk: Desk) -> None:
    lines = desk.server.lines
    desk.server.lines = lambda batch: lines(batch)[:-1]  # type: ignore[method-assign]
    first, second = await desk.ask(ask("q0"), ask("q1"))
    assert isinstance(first, BatchNotAnswered)
    assert "says nothing" in first.reason
    assert not first.free
    assert isinstance(second, Reply)


async def test_what_the_batch_spoiled_is_asked_by_itself_and_both_are_counted_once(desk: Desk) -> None:
    assert OPUS is not None
    desk.server.result = lambda key, params: None
    worst, budget = worst_case(ask("q"), OPUS.batch()), Budget(usd=1.0)
    for model in (desk.within(budget), desk.within(budget)):
        reply = await model.complete(ask("q"))
        assert reply.text == "alone"
        await model.close()
    assert budget.spent.calls == 3, "what may have been charged, and each single call"
    assert budget.spent.cost_usd == pytest.approx(worst.cost_usd + 4 * HALF_PRICE)
    assert len(desk.server.batches) == 1


async def test_a_batch_that_is_gone_is_never_sent_again_while_it_may_be_there(desk: Desk) -> None:
    stored_intent(desk, ask("q0"), batch_id="msgbatch_elsewhere")
    (failure,) = await desk.ask(ask("q0"))
    assert isinstance(failure, NotFoundError)
    assert "Without --batch" in str(failure)
    assert desk.server.batches == []


async def test_a_batch_whose_results_are_too_old_is_asked_anew(desk: Desk) -> None:
    stored_intent(desk, ask("q0"), batch_id="msgbatch_long_ago", age_days=30)
    assert texts(await desk.ask(ask("q0"))) == ["to q0"]


async def test_a_cancelled_call_leaves_the_wave_before_it_goes_out(desk: Desk) -> None:
    model = desk.model()
    stays, leaves = (asyncio.create_task(model.complete(ask(text))) for text in ("stays", "leaves"))
    await asyncio.sleep(0)
    leaves.cancel()
    assert (await stays).text == "to stays"
    with pytest.raises(asyncio.CancelledError):
        await leaves
    await model.close()
    assert len(desk.server.submitted) == 1


async def test_calls_beyond_the_budget_wait_for_the_next_wave(desk: Desk) -> None:
    assert OPUS is not None
    worst = worst_case(ask("q0"), OPUS.batch())
    budget = Budget(usd=3.5 * worst.cost_usd)
    model = desk.within(budget)
    replies = await asyncio.gather(*(model.complete(ask(f"q{n}")) for n in range(8)), return_exceptions=True)
    await model.close()
    sizes = [len(batch.requests) for batch in desk.server.batches]
    assert sizes[0] == 3
    assert len(sizes) > 1, "the others follow when the first wave is settled"
    answered = [reply for reply in replies if isinstance(reply, Reply)]
    assert len(answered) == sum(sizes)
    assert budget.spent.cost_usd <= 3.5 * worst.cost_usd


async def test_stages_are_told_apart_in_what_was_spent(desk: Desk) -> None:
    budget, waves = Budget(usd=1.0), desk.model()
    tag, judge = (desk.within(budget, stage, waves) for stage in ("tag", "judge"))
    await asyncio.gather(tag.complete(ask("q0")), judge.complete(ask("q1")), judge.complete(ask("q2")))
    await tag.close()
    await judge.close()
    assert {stage: usage.calls for stage, usage in budget.by_stage.items()} == {"tag": 1, "judge": 2}
    assert len(desk.server.batches) == 1


async def test_two_at_once_send_what_both_ask_once(desk: Desk) -> None:
    ours, theirs = [ask(f"q{n}") for n in range(6)], [ask(f"q{n}") for n in range(3, 9)]
    both = await asyncio.gather(desk.ask(*ours), desk.ask(*theirs))
    assert [texts(replies) for replies in both] == [
        [f"to q{n}" for n in range(6)],
        [f"to q{n}" for n in range(3, 9)],
    ]
    assert set(desk.server.submitted.values()) == {1}


async def test_an_error_that_nobody_foresaw_reaches_those_who_wait(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(intent: BatchIntent) -> BatchIntent:
        raise RuntimeError("disk on fire")

    monkeypatch.setattr(desk.intents, "add", broken)
    (failure,) = await desk.ask(ask("q"))
    assert isinstance(failure, EvalscribeError)
    assert "disk on fire" in str(failure)


async def test_the_key_goes_to_no_other_host(desk: Desk) -> None:
    """The server names another host for the results; who went there would get nothing."""
    assert texts(await desk.ask(ask("q"))) == ["to q"]
    assert desk.server.shown(desk.server.batches[0])["results_url"].startswith("http://localhost:9/")


def served(desk: Desk) -> ModelService:
    def access(provider: str) -> Access:
        return Access(url=desk.server.url, url_origin=DEFAULT, key=SecretStr("key"), key_origin=DEFAULT)

    return ModelService(access, Budget(usd=1.0), intents=desk.intents)


async def test_with_intents_every_model_that_is_opened_asks_in_batches(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evalscribe.llm.batch.BatchPacing", lambda: QUICK)
    desk.server.looks = 1
    models = served(desk)
    calls = [models.open(f"anthropic/{NAME}", stage).complete(ask(f"q{stage}")) for stage in ("tag", "judge")]
    replies = await asyncio.gather(*calls)
    assert [reply.text for reply in replies] == ["to qtag", "to qjudge"]
    assert len(desk.server.batches) == 1, "stages share a wave"
    assert [usage.calls for usage in models.spent().values()] == [1, 1]
    await models.close()


def test_other_providers_have_no_batches(desk: Desk) -> None:
    with pytest.raises(UsageError, match=r"--batch is for models of anthropic, not for openai/gpt-5\.3"):
        served(desk).open("openai/gpt-5.3", "judge")


async def test_patience_is_that_of_single_calls(desk: Desk) -> None:
    desk.server.result = errored()
    desk.server.refuse = failing("single", 529)
    model = desk.within(Budget(usd=1.0))
    assert (await model.complete(ask("q"))).text == "alone"
    await model.close()
