"""Batched calls against a server on loopback."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import SecretStr

from evalscribe.errors import EvalscribeError, NotFoundError, UsageError
from evalscribe.llm.anthropic import AnthropicModel
from evalscribe.llm.batch import BatchNotAnswered
from evalscribe.llm.budget import Budget, worst_case
from evalscribe.llm.service import ModelService
from evalscribe.model.chat import BatchIntent, Reply, Usage
from evalscribe.settings.access import Access
from evalscribe.settings.config import DEFAULT
from support.batch_sessions import (
    HALF_PRICE,
    NAME,
    OPUS,
    QUICK,
    BatchSessions,
    fail_calls,
    make_request,
    sent_key,
    stored_intent,
    texts,
)
from support.batches_server import Batch, answer, errored, succeeded
from support.waiting import until


async def test_concurrent_calls_form_one_batch_and_each_gets_its_own_answer(sessions: BatchSessions) -> None:
    replies = await sessions.ask(*(make_request(f"q{n}") for n in range(7)))
    assert texts(replies) == [f"to q{n}" for n in range(7)]
    assert len(sessions.server.batches) == 1
    assert sessions.server.singles == []


async def test_batch_reply_costs_half_price(sessions: BatchSessions) -> None:
    (reply,) = await sessions.ask(make_request("q"))
    assert isinstance(reply, Reply)
    assert reply.usage.cost_usd == pytest.approx(HALF_PRICE)
    assert reply.usage.model_copy(update={"cost_usd": 0.0}) == Usage(calls=1, input_tokens=100, output_tokens=10)


async def test_batch_request_body_equals_that_of_a_single_call(sessions: BatchSessions) -> None:
    request = make_request("q").model_copy(update={"effort": "high", "answer_schema": {"type": "object"}})
    await sessions.ask(request)
    ((key, sent),) = sessions.server.batches[0].requests.items()
    assert sent == AnthropicModel(NAME, "key").params(request)
    assert (key,) == sessions.keys(request)


async def test_rollouts_are_sent_separately_and_equal_requests_once(sessions: BatchSessions) -> None:
    replies = await sessions.ask(make_request("q", 0), make_request("q", 1), make_request("q", 1))
    assert texts(replies) == ["to q"] * 3
    assert len(sessions.server.submitted) == 2


async def test_batch_is_submitted_when_full_by_count_or_size(sessions: BatchSessions) -> None:
    replies = await sessions.ask(*(make_request(f"q{n}") for n in range(7)), pace=QUICK.model_copy(update={"most": 3}))
    assert len(texts(replies)) == 7
    assert sorted(len(batch.requests) for batch in sessions.server.batches) == [1, 3, 3]
    big = QUICK.model_copy(update={"most_bytes": 1})
    assert len(texts(await sessions.ask(make_request("a"), make_request("b"), pace=big))) == 2
    assert len(sessions.server.batches) == 5


async def test_stored_answer_is_reused_without_contacting_the_server(sessions: BatchSessions) -> None:
    await sessions.ask(make_request("q0"), make_request("q1"))
    before = dict(sessions.server.calls)
    assert texts(await sessions.ask(make_request("q1"))) == ["to q1"]
    assert sessions.server.calls == before


async def test_batch_answer_is_streamed_as_one_piece_on_every_request(sessions: BatchSessions) -> None:
    pieces: list[str] = []
    for _ in range(2):
        model = sessions.within(Budget(usd=1.0))
        await model.complete(make_request("q"), pieces.append)
        await model.close()
    assert pieces == ["to q", "to q"]
    assert len(sessions.server.submitted) == 1


async def test_budget_counts_an_answer_once_however_often_it_is_requested(sessions: BatchSessions) -> None:
    budgets = [Budget(usd=1.0), Budget(usd=1.0)]
    costs = []
    for budget in budgets:
        model = sessions.within(budget)
        costs += [
            reply.usage.cost_usd
            for reply in await asyncio.gather(*(model.complete(make_request("q")) for _ in range(3)))
        ]
        await model.close()
    assert costs == [pytest.approx(HALF_PRICE)] * 6, "what an answer cost is told each time"
    assert [budget.spent.calls for budget in budgets] == [1, 0]
    assert budgets[0].spent.cost_usd == pytest.approx(HALF_PRICE)


async def test_unclaimed_answer_is_billed_to_its_first_reader(sessions: BatchSessions) -> None:
    stored_intent(
        sessions,
        make_request("q0"),
        make_request("q1"),
        batch_id=sent_key(sessions, make_request("q0"), make_request("q1")),
    )
    await sessions.ask(make_request("q0"))
    replies = await sessions.ask(make_request("q0"), make_request("q1"))
    assert [reply.billed_before for reply in replies if isinstance(reply, Reply)] == [True, False]


async def test_fresh_resends_used_answers_and_reads_unclaimed_ones(sessions: BatchSessions) -> None:
    stored_intent(
        sessions,
        make_request("q0"),
        make_request("q1"),
        batch_id=sent_key(sessions, make_request("q0"), make_request("q1")),
    )
    await sessions.ask(make_request("q0"))
    sessions.server.result = lambda key, params: {"type": "succeeded", "message": answer("again")}
    assert texts(await sessions.ask(make_request("q0"), make_request("q1"), fresh=True)) == ["again", "to q1"]
    assert sessions.server.submitted == dict(
        zip(sessions.keys(make_request("q0"), make_request("q1")), (2, 1), strict=True)
    )


async def test_old_batch_does_not_answer_a_request_that_was_resent(sessions: BatchSessions) -> None:
    old = sent_key(sessions, make_request("q0"), make_request("q1"))
    stored_intent(sessions, make_request("q1"), batch_id=old)
    sessions.intents.add(BatchIntent(id="anew", keys=sessions.keys(make_request("q0")), created=datetime.now(UTC)))
    sessions.intents.submitted("anew", sent_key(sessions, make_request("q0")))
    lines = sessions.server.lines

    def lined(batch: Batch) -> list[bytes]:
        sessions.server.result = (
            succeeded if batch.id == old else lambda *_: {"type": "succeeded", "message": answer("new")}
        )
        return lines(batch)

    sessions.server.lines = lined  # type: ignore[method-assign]
    assert texts(await sessions.ask(make_request("q1"))) == ["to q1"]
    assert texts(await sessions.ask(make_request("q0"))) == ["new"]


async def test_abandoned_batch_is_read_by_the_next_session(sessions: BatchSessions) -> None:
    sessions.server.looks = 10**9
    left = asyncio.create_task(sessions.ask(make_request("q0"), make_request("q1")))
    await until(lambda: any(batch.looks for batch in sessions.server.batches))
    left.cancel()
    await asyncio.wait([left])
    sessions.server.looks = 0
    assert texts(await sessions.ask(make_request("q0"), make_request("q2"))) == ["to q0", "to q2"]
    assert set(sessions.server.submitted.values()) == {1}
    assert [len(batch.requests) for batch in sessions.server.batches] == [2, 1]


@pytest.mark.parametrize("kind", ["errored", "expired", "canceled"])
async def test_unanswered_request_is_sent_singly_at_full_price(sessions: BatchSessions, kind: str) -> None:
    lost = sessions.keys(make_request("q1"))[0]
    sessions.server.result = lambda key, params: (errored(kind) if key == lost else succeeded)(key, params)
    budget = Budget(usd=1.0)
    model = sessions.within(budget)
    replies = await asyncio.gather(*(model.complete(make_request(f"q{n}")) for n in range(3)))
    await model.close()
    assert [reply.text for reply in replies] == ["to q0", "alone", "to q2"]
    assert len(sessions.server.singles) == 1
    assert budget.spent.cost_usd == pytest.approx(4 * HALF_PRICE)
    assert budget.spent == replies[0].usage + replies[1].usage + replies[2].usage


async def test_unanswered_request_without_single_calls_fails_for_free(sessions: BatchSessions) -> None:
    sessions.server.result = errored()
    (failure,) = await sessions.ask(make_request("q"))
    assert isinstance(failure, BatchNotAnswered)
    assert (failure.reason, failure.free) == ("the batch did not answer (errored: no luck)", True)


UNREADABLE = [{"type": "succeeded", "message": {"content": None}}, {"type": "succeeded"}, None, "text"]


@pytest.mark.parametrize("result", UNREADABLE)
async def test_unreadable_answer_is_billed_once_and_remembered(sessions: BatchSessions, result: Any) -> None:
    sessions.server.result = lambda key, params: result
    (failure,) = await sessions.ask(make_request("q"))
    assert isinstance(failure, BatchNotAnswered)
    assert not failure.free
    before = dict(sessions.server.calls)
    (again,) = await sessions.ask(make_request("q"))
    assert isinstance(again, BatchNotAnswered)
    assert again.free, "it is counted once"
    assert sessions.server.calls == before


async def test_missing_result_fails_only_its_own_request(sessions: BatchSessions) -> None:
    lines = sessions.server.lines
    sessions.server.lines = lambda batch: lines(batch)[:-1]  # type: ignore[method-assign]
    first, second = await sessions.ask(make_request("q0"), make_request("q1"))
    assert isinstance(first, BatchNotAnswered)
    assert "no result" in first.reason
    assert not first.free
    assert isinstance(second, Reply)


async def test_unreadable_result_is_sent_singly_and_each_cost_counts_once(sessions: BatchSessions) -> None:
    assert OPUS is not None
    sessions.server.result = lambda key, params: None
    worst, budget = worst_case(make_request("q"), OPUS.batch()), Budget(usd=1.0)
    for model in (sessions.within(budget), sessions.within(budget)):
        reply = await model.complete(make_request("q"))
        assert reply.text == "alone"
        await model.close()
    assert budget.spent.calls == 3, "what may have been charged, and each single call"
    assert budget.spent.cost_usd == pytest.approx(worst.cost_usd + 4 * HALF_PRICE)
    assert len(sessions.server.batches) == 1


async def test_missing_recent_batch_is_not_resent(sessions: BatchSessions) -> None:
    stored_intent(sessions, make_request("q0"), batch_id="msgbatch_elsewhere")
    (failure,) = await sessions.ask(make_request("q0"))
    assert isinstance(failure, NotFoundError)
    assert "repeat the command without `batch`" in str(failure)
    assert sessions.server.batches == []


async def test_batch_with_expired_results_is_resent(sessions: BatchSessions) -> None:
    stored_intent(sessions, make_request("q0"), batch_id="msgbatch_long_ago", age_days=30)
    assert texts(await sessions.ask(make_request("q0"))) == ["to q0"]


async def test_cancelled_call_is_removed_before_its_batch_is_submitted(sessions: BatchSessions) -> None:
    model = sessions.model()
    stays, leaves = (asyncio.create_task(model.complete(make_request(text))) for text in ("stays", "leaves"))
    await asyncio.sleep(0)
    leaves.cancel()
    assert (await stays).text == "to stays"
    with pytest.raises(asyncio.CancelledError):
        await leaves
    await model.close()
    assert len(sessions.server.submitted) == 1


async def test_calls_beyond_the_budget_wait_for_the_next_batch(sessions: BatchSessions) -> None:
    assert OPUS is not None
    worst = worst_case(make_request("q0"), OPUS.batch())
    budget = Budget(usd=3.5 * worst.cost_usd)
    model = sessions.within(budget)
    replies = await asyncio.gather(*(model.complete(make_request(f"q{n}")) for n in range(8)), return_exceptions=True)
    await model.close()
    sizes = [len(batch.requests) for batch in sessions.server.batches]
    assert sizes[0] == 3
    assert len(sizes) > 1, "the others follow when the first wave is settled"
    received = [reply for reply in replies if isinstance(reply, Reply)]
    assert len(received) == sum(sizes)
    assert budget.spent.cost_usd <= 3.5 * worst.cost_usd


async def test_one_batch_counts_usage_per_stage(sessions: BatchSessions) -> None:
    budget, waves = Budget(usd=1.0), sessions.model()
    tag, judge = (sessions.within(budget, stage, waves) for stage in ("tag", "judge"))
    await asyncio.gather(
        tag.complete(make_request("q0")), judge.complete(make_request("q1")), judge.complete(make_request("q2"))
    )
    await tag.close()
    await judge.close()
    assert {stage: usage.calls for stage, usage in budget.by_stage.items()} == {"tag": 1, "judge": 2}
    assert len(sessions.server.batches) == 1


async def test_concurrent_sessions_submit_shared_requests_once(sessions: BatchSessions) -> None:
    ours, theirs = [make_request(f"q{n}") for n in range(6)], [make_request(f"q{n}") for n in range(3, 9)]
    both = await asyncio.gather(sessions.ask(*ours), sessions.ask(*theirs))
    assert [texts(replies) for replies in both] == [
        [f"to q{n}" for n in range(6)],
        [f"to q{n}" for n in range(3, 9)],
    ]
    assert set(sessions.server.submitted.values()) == {1}


async def test_unexpected_error_reaches_waiting_callers(
    sessions: BatchSessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(intent: BatchIntent) -> BatchIntent:
        raise RuntimeError("disk on fire")

    monkeypatch.setattr(sessions.intents, "add", broken)
    (failure,) = await sessions.ask(make_request("q"))
    assert isinstance(failure, EvalscribeError)
    assert "disk on fire" in str(failure)


async def test_results_are_fetched_from_the_configured_host(sessions: BatchSessions) -> None:
    """The server names another host in `results_url`; fetching from there would fail."""
    assert texts(await sessions.ask(make_request("q"))) == ["to q"]
    assert sessions.server.shown(sessions.server.batches[0])["results_url"].startswith("http://localhost:9/")


def served(sessions: BatchSessions) -> ModelService:
    def access(provider: str) -> Access:
        return Access(url=sessions.server.url, url_origin=DEFAULT, key=SecretStr("key"), key_origin=DEFAULT)

    return ModelService(access, Budget(usd=1.0), intents=sessions.intents)


async def test_model_service_with_intents_batches_calls_of_all_stages(
    sessions: BatchSessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evalscribe.llm.batch.BatchPacing", lambda: QUICK)
    sessions.server.looks = 1
    models = served(sessions)
    calls = [models.open(f"anthropic/{NAME}", stage).complete(make_request(f"q{stage}")) for stage in ("tag", "judge")]
    replies = await asyncio.gather(*calls)
    assert [reply.text for reply in replies] == ["to qtag", "to qjudge"]
    assert len(sessions.server.batches) == 1, "stages share a wave"
    assert [usage.calls for usage in models.spent().values()] == [1, 1]
    await models.close()


def test_batching_is_refused_for_other_providers(sessions: BatchSessions) -> None:
    with pytest.raises(UsageError, match=r"`batch` works only with Anthropic models, not openai/gpt-5\.3"):
        served(sessions).open("openai/gpt-5.3", "judge")


async def test_overloaded_single_call_after_a_batch_is_retried(sessions: BatchSessions) -> None:
    sessions.server.result = errored()
    sessions.server.refuse = fail_calls("single", 529)
    model = sessions.within(Budget(usd=1.0))
    assert (await model.complete(make_request("q"))).text == "alone"
    await model.close()
