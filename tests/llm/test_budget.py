"""A call starts only if its worst case fits the budget."""

import asyncio
from dataclasses import replace

import pytest

from evalscribe.errors import AccessError, UnavailableError, UsageError
from evalscribe.llm.anthropic import AnthropicModel
from evalscribe.llm.budget import Budget, BudgetedModel, price_of, worst_case
from evalscribe.llm.service import RetryingModel, RetryPolicy
from evalscribe.model.chat import CallFailed, Message, Reply, Request, Usage
from support.messages_server import Answer, MessagesServer, failure, message, page
from support.scripted_model import ScriptedModel, text_reply
from support.waiting import PATIENCE_S

OPUS = price_of("anthropic/claude-opus-5-5")
ASKED = Request(system="s" * 4000, messages=(Message(role="user", text="Why?"),), max_tokens=1000)
WORST = worst_case(ASKED, OPUS)
SMALL = Usage(calls=1, input_tokens=100, output_tokens=10, cost_usd=0.001)


def test_worst_case_overestimates_tokens_and_prices_them_as_cache_writes() -> None:
    assert OPUS is not None
    assert 2000 < WORST.input_tokens < 2500
    assert WORST.cost_usd == pytest.approx(WORST.input_tokens * 5e-6 + 1000 * 20e-6)


async def test_calls_are_refused_once_the_next_worst_case_does_not_fit() -> None:
    budget = Budget(usd=WORST.cost_usd + 2 * SMALL.cost_usd)
    model = BudgetedModel(ScriptedModel([text_reply("x", usage=SMALL)] * 9), budget, OPUS)
    for _ in range(3):
        await model.complete(ASKED)
    with pytest.raises(CallFailed, match=r"budget of \$0\.03.* run again with a larger budget") as raised:
        await model.complete(ASKED)
    assert raised.value.free
    assert budget.spent.cost_usd == pytest.approx(0.003)


class Slow:
    """Model that answers after 20 ms and records how many calls were in flight at once."""

    id = "scripted/slow"
    context_tokens = 200_000

    def __init__(self, usage: Usage = SMALL) -> None:
        self.open = 0
        self.peak = 0
        self._usage = usage

    async def complete(self, request: Request, on_text: object = None) -> Reply:
        self.open += 1
        self.peak = max(self.peak, self.open)
        try:
            await asyncio.sleep(0.02)
        finally:
            self.open -= 1
        return text_reply("x", usage=self._usage)

    async def close(self) -> None: ...


async def test_calls_in_flight_reserve_their_worst_case() -> None:
    slow = Slow()
    budget = Budget(usd=2.5 * WORST.cost_usd)
    model = BudgetedModel(slow, budget, OPUS)
    await asyncio.gather(*(model.complete(ASKED) for _ in range(8)))
    assert slow.peak == 2, "the third waits until one of them is settled"
    assert budget.spent.calls == 8


async def test_budget_is_never_exceeded_by_concurrent_worst_case_calls() -> None:
    budget = Budget(usd=3.2 * WORST.cost_usd)
    model = BudgetedModel(Slow(WORST), budget, OPUS)
    results = await asyncio.gather(*(model.complete(ASKED) for _ in range(8)), return_exceptions=True)
    assert sum(isinstance(result, Reply) for result in results) == 3
    assert sum(isinstance(result, CallFailed) for result in results) == 5
    assert budget.spent.cost_usd <= 3.2 * WORST.cost_usd


async def test_token_budget_is_enforced() -> None:
    whole = WORST.input_tokens + WORST.output_tokens
    model = BudgetedModel(ScriptedModel([text_reply("x", usage=SMALL)] * 2), Budget(tokens=whole + 109), None)
    await model.complete(ASKED)
    with pytest.raises(CallFailed, match=f"budget of {whole + 109} tokens"):
        await model.complete(ASKED)


async def test_cancelled_call_counts_its_worst_case() -> None:
    budget = Budget(usd=1.0)
    task = asyncio.create_task(BudgetedModel(Slow(), budget, OPUS).complete(ASKED))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert budget.spent == WORST


async def spend(answer: Answer) -> tuple[Budget, Exception | None]:
    budget = Budget(usd=1.0)
    with MessagesServer(answer) as server:
        timeout_s = 0.5 if answer.held else PATIENCE_S
        model = BudgetedModel(
            AnthropicModel("claude-opus-5-5", "key", server.url, OPUS, timeout_s=timeout_s), budget, OPUS
        )
        try:
            await model.complete(ASKED)
        except Exception as error:
            return budget, error
        finally:
            await model.close()
    return budget, None


@pytest.mark.parametrize("status", [400, 401, 404, 413, 429, 500, 529])
async def test_rejected_requests_are_free(status: int) -> None:
    budget, error = await spend(failure(status))
    assert budget.spent == Usage()
    assert isinstance(error, AccessError) == (status == 401)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(page(), id="page"),
        pytest.param(Answer(body=b'{"id": "m'), id="half"),
        pytest.param(Answer(cut="reset"), id="reset"),
        pytest.param(replace(message(), held=True), id="late"),
    ],
)
async def test_failed_reply_without_usage_counts_its_worst_case(answer: Answer) -> None:
    budget, error = await spend(answer)
    assert budget.spent == WORST
    assert isinstance(error, CallFailed)
    assert error.usage == WORST


async def test_retries_count_against_the_budget() -> None:
    budget = Budget(usd=2.5 * WORST.cost_usd)
    with MessagesServer(Answer(cut="reset")) as server:
        attempt = AnthropicModel("claude-opus-5-5", "key", server.url, OPUS)
        model = RetryingModel(BudgetedModel(attempt, budget, OPUS), RetryPolicy(first_wait_s=0.01))
        with pytest.raises(CallFailed, match="no room") as raised:
            await model.complete(ASKED)
        await model.close()
    assert len(server.calls) == 2
    assert raised.value.usage == WORST + WORST


async def test_usage_is_counted_per_stage_in_order_of_first_calls() -> None:
    budget = Budget(usd=1.0)
    tag, judge = (
        BudgetedModel(ScriptedModel([text_reply("x", usage=SMALL)] * 2), budget, OPUS, s) for s in ("tag", "judge")
    )
    for model in (tag, judge, judge):
        await model.complete(ASKED)
    assert list(budget.by_stage.items()) == [("tag", SMALL), ("judge", SMALL + SMALL)]
    assert budget.spent == SMALL + SMALL + SMALL


async def test_call_larger_than_the_budget_fails_without_waiting() -> None:
    budget = Budget(usd=1.5 * WORST.cost_usd)
    under_way = asyncio.create_task(BudgetedModel(Slow(), budget, OPUS).complete(ASKED))
    await asyncio.sleep(0)
    huge = ASKED.model_copy(update={"max_tokens": 100_000})
    with pytest.raises(CallFailed, match="no room") as raised:
        await BudgetedModel(Slow(), budget, OPUS).complete(huge)
    assert raised.value.free
    assert not under_way.done()
    await under_way


async def test_small_call_overtakes_one_waiting_for_room() -> None:
    budget = Budget(usd=1.9 * WORST.cost_usd)
    small = ASKED.model_copy(update={"system": "", "max_tokens": 10})
    done: list[str] = []

    async def one(name: str, request: Request) -> None:
        await BudgetedModel(Slow(), budget, OPUS).complete(request)
        done.append(name)

    await asyncio.gather(one("first", ASKED), one("waits", ASKED), one("small", small))
    assert done == ["first", "small", "waits"]


def test_unpriced_model_requires_a_token_budget() -> None:
    with pytest.raises(UsageError, match="`max_tokens`"):
        BudgetedModel(Slow(), Budget(usd=1.0), None)
    assert BudgetedModel(Slow(), Budget(usd=1.0, tokens=1000), None).id == "scripted/slow"


@pytest.mark.parametrize(("answer", "worst"), [(text_reply("x", usage=Usage()), WORST), (text_reply(), None)])
async def test_reply_without_usage_counts_its_worst_case(answer: Reply, worst: Usage | None) -> None:
    budget = Budget(usd=1.0)
    reply = await BudgetedModel(ScriptedModel([answer]), budget, OPUS).complete(ASKED)
    assert reply.usage == budget.spent == (worst or answer.usage)


async def test_unexpected_error_counts_its_worst_case() -> None:
    budget = Budget(usd=1.0)
    with pytest.raises(UnavailableError):
        await BudgetedModel(ScriptedModel([UnavailableError("gone")]), budget, OPUS).complete(ASKED)
    assert budget.spent == WORST


async def test_reported_usage_equals_counted_usage_across_failed_attempts() -> None:
    budget = Budget(usd=1.0)
    script = [Answer(cut="reset"), failure(529), page(), message({"type": "text", "text": "x"})]
    with MessagesServer(script) as server:
        attempt = AnthropicModel("claude-opus-5-5", "key", server.url, OPUS)
        model = RetryingModel(BudgetedModel(attempt, budget, OPUS), RetryPolicy(first_wait_s=0.01))
        with pytest.raises(CallFailed) as raised:
            await model.complete(ASKED)
        reply = await model.complete(ASKED)
        await model.close()
    assert raised.value.usage == WORST + WORST, "the connection that was cut, and the page; not the 529"
    assert raised.value.usage + reply.usage == budget.spent


async def test_rejected_call_after_a_lost_attempt_is_not_free() -> None:
    budget = Budget(usd=1.0)
    with MessagesServer([Answer(cut="reset"), failure(400)]) as server:
        attempt = AnthropicModel("claude-opus-5-5", "key", server.url, OPUS)
        model = RetryingModel(BudgetedModel(attempt, budget, OPUS), RetryPolicy(first_wait_s=0.01))
        with pytest.raises(CallFailed) as raised:
            await model.complete(ASKED)
        await model.close()
    assert (raised.value.free, raised.value.usage) == (False, WORST)


@pytest.mark.parametrize(
    "dense",
    [
        ASKED.model_copy(update={"answer_schema": {"type": "object", "description": "d" * 1000}}),
        ASKED.model_copy(update={"system": "評" * 4000}),
    ],
)
def test_schemas_and_non_latin_text_raise_the_worst_case(dense: Request) -> None:
    assert worst_case(dense, OPUS).input_tokens >= WORST.input_tokens + 500
    assert worst_case(ASKED.model_copy(update={"system": "評" * 4000}), OPUS).input_tokens >= 12_000


@pytest.mark.parametrize("bound", [float("nan"), float("inf"), -1, -0.01])
def test_negative_or_non_finite_budget_is_refused(bound: float) -> None:
    with pytest.raises(UsageError, match="a budget must be a number of at least 0"):
        Budget(usd=bound)
    with pytest.raises(UsageError, match="a budget must be a number of at least 0"):
        Budget(tokens=bound)  # type: ignore[arg-type]
