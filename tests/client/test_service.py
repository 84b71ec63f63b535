"""The SDK's model service: its limits hold across threads and event loops."""

import asyncio
import gc
import threading
from pathlib import Path

import pytest

from evalscribe import AgentRun, BaseLLMService, ModelOption, ResultType, Rubric, build_judge
from evalscribe.errors import AccessError, UsageError
from evalscribe.model.chat import Message, Request
from support.judge_providers import Providers
from support.scripted_server import Answer
from support.waiting import until, wait_until

RUBRIC = Rubric(rubric_text="Is it right?")
HELD = Answer(held=True)
"""An answer that is sent only when the test is over. A call that waits for it never returns."""
UNPRICED = Rubric(
    rubric_text="Is it right?", judge_model=ModelOption(provider="openai", model_name="my-own-model-of-no-price")
)


async def test_build_judge_judges_an_agent_run(providers: Providers, workspace: Path, agent_run: AgentRun) -> None:
    async with BaseLLMService() as service:
        result = await build_judge(RUBRIC, service)(agent_run)
        assert {stage: usage.calls for stage, usage in service.spent().items()} == {"judge": 1}
    assert result.output == {"label": "match", "explanation": "See [T0B0]."}
    assert (result.rubric_id, result.judge) == (RUBRIC.id, "anthropic/claude-opus-5-5")
    assert result.usage.cost_usd > 0
    assert not (workspace / ".evalscribe").exists()


def test_keys_are_read_from_the_environment_and_from_env_files(workspace: Path) -> None:
    with pytest.raises(AccessError, match="set ANTHROPIC_API_KEY"):
        build_judge(RUBRIC, BaseLLMService())
    with pytest.raises(AccessError, match="set OPENAI_API_KEY"):
        build_judge(UNPRICED, BaseLLMService())
    (workspace / ".env").write_text("ANTHROPIC_API_KEY=k\n")
    assert build_judge(RUBRIC, BaseLLMService()).rubric == RUBRIC


def test_one_service_serves_many_event_loops(providers: Providers, workspace: Path, agent_run: AgentRun) -> None:
    service = BaseLLMService()
    judge = build_judge(RUBRIC, service)
    for _ in range(3):
        assert asyncio.run(judge(agent_run)).result_type is ResultType.DIRECT_RESULT
    assert len(providers.calls) == 3
    assert service.spent()["judge"].calls == 3
    service.stop()


async def test_answer_is_streamed_to_a_callback(providers: Providers, workspace: Path) -> None:
    pieces: list[str] = []
    async with BaseLLMService() as service:
        model = service.open("anthropic/claude-opus-5-5", "judge")
        pending = Request(system="Judge.", messages=(Message(role="user", text="Why?"),))
        reply = await model.complete(pending, pieces.append)
    assert "".join(pieces) == reply.text != ""


def test_model_without_a_price_is_limited_by_tokens(providers: Providers, workspace: Path, agent_run: AgentRun) -> None:
    service = BaseLLMService(max_tokens=20_000)
    judge = build_judge(UNPRICED, service)
    results = [asyncio.run(judge(agent_run)) for _ in range(5)]
    service.stop()
    kinds = [result.result_type for result in results]
    assert (kinds[0], kinds[-1]) == (ResultType.DIRECT_RESULT, ResultType.FAILURE)
    assert results[-1].reason is not None
    assert "the budget of 20000 tokens has no room for another call" in results[-1].reason
    used = service.spent()["judge"]
    assert used.calls == len(providers.calls) == kinds.count(ResultType.DIRECT_RESULT)
    assert used.input_tokens + used.output_tokens <= 20_000


def test_model_with_a_price_is_limited_by_dollars(providers: Providers, workspace: Path, agent_run: AgentRun) -> None:
    service = BaseLLMService(budget_usd=0.0001)
    result = asyncio.run(build_judge(RUBRIC, service)(agent_run))
    assert result.reason is not None
    assert "the budget of $0.0001 and 2000000 tokens" in result.reason
    assert providers.calls == []


def test_calls_never_exceed_the_concurrency_limit(providers: Providers, workspace: Path, agent_run: AgentRun) -> None:
    providers.anthropic.gather(3)
    judge = build_judge(RUBRIC, BaseLLMService(max_concurrency=3))

    async def judge_all() -> None:
        runs = [agent_run.model_copy(update={"metadata": {"number": number}}) for number in range(12)]
        await asyncio.gather(*map(judge, runs))

    asyncio.run(judge_all())
    assert (len(providers.calls), providers.anthropic.peak) == (12, 3)


def test_cancelled_judge_stops_its_call(providers: Providers, workspace: Path, agent_run: AgentRun) -> None:
    providers.anthropic._script = HELD
    service = BaseLLMService()
    judge = build_judge(RUBRIC, service)

    async def cancel_judge() -> None:
        pending = asyncio.ensure_future(judge(agent_run))
        await until(lambda: providers.calls, "a call under way")
        pending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await pending

    asyncio.run(cancel_judge())
    service.stop()
    assert service.spent()["judge"].calls == 1


def test_closing_the_service_cancels_calls_in_flight(
    providers: Providers, workspace: Path, agent_run: AgentRun
) -> None:
    providers.anthropic._script = HELD
    service = BaseLLMService()
    judge = build_judge(RUBRIC, service)

    async def closed_meanwhile() -> None:
        pending = asyncio.ensure_future(judge(agent_run))
        await until(lambda: providers.calls, "a call under way")
        await service.close()
        with pytest.raises(UsageError, match="closed"):
            await pending

    asyncio.run(closed_meanwhile())


def test_closed_service_refuses_calls(workspace: Path, providers: Providers, agent_run: AgentRun) -> None:
    service = BaseLLMService()
    judge = build_judge(RUBRIC, service)
    for _ in range(2):
        service.stop()
    with pytest.raises(UsageError, match="this service is closed: create a new one"):
        asyncio.run(judge(agent_run))


def test_unreferenced_service_ends_its_thread(providers: Providers, workspace: Path, agent_run: AgentRun) -> None:
    before = set(threading.enumerate())
    judge = build_judge(RUBRIC, BaseLLMService())
    gc.collect()
    assert asyncio.run(judge(agent_run)).result_type is ResultType.DIRECT_RESULT
    (service_thread,) = (
        thread for thread in threading.enumerate() if thread not in before and thread.name == "evalscribe"
    )
    del judge
    gc.collect()
    wait_until(lambda: not service_thread.is_alive(), "its thread ends")


@pytest.mark.parametrize("bounds", [{"max_concurrency": 0}, {"max_tokens": 0}])
def test_limits_below_one_are_refused(workspace: Path, bounds: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="at least 1"):
        BaseLLMService(**bounds)
