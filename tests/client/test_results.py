"""A judge returns the same fields for a result and for a failure."""

import asyncio
from pathlib import Path

from evalscribe import AgentRun, BaseLLMService, JudgeResult, ResultType, Rubric, build_judge
from support.judge_providers import Providers

REQUESTED = (
    "id",
    "agent_run_id",
    "rubric_id",
    "rubric_version",
    "output",
    "result_metadata",
    "result_type",
)
ADDED = ("reason", "citations", "confidence", "judge", "usage")


def test_result_has_the_requested_fields_and_ours() -> None:
    assert tuple(JudgeResult.model_fields) == (*REQUESTED, *ADDED)
    assert [kind.name for kind in ResultType] == ["DIRECT_RESULT", "FAILURE"]


def test_direct_result_and_failure_fill_every_field(workspace: Path, providers: Providers, agent_run: AgentRun) -> None:
    providers.rubric = rubric = Rubric(rubric_text="Was it right?", id="right", version=3)
    service = BaseLLMService()
    judge = build_judge(rubric, service)
    result = asyncio.run(judge(agent_run))
    assert (result.agent_run_id, result.rubric_id, result.rubric_version) == (agent_run.id, "right", 3)
    assert (result.result_type, result.output["label"], result.reason) == (ResultType.DIRECT_RESULT, "match", None)
    assert (result.citations.verified, result.judge) == (1, rubric.judge_model.id)
    assert result.usage.calls == 1
    assert result.usage.cost_usd > 0
    providers.fixed = "I cannot say."
    failed = asyncio.run(judge(agent_run))
    assert (failed.result_type, failed.output) == (ResultType.FAILURE, {})
    assert failed.result_metadata is not None
    assert failed.result_metadata["errors"] == [failed.reason] == ["no JSON object"]
    assert failed.usage.calls == 2
    service.stop()


def test_result_round_trips_through_json(workspace: Path, providers: Providers, agent_run: AgentRun) -> None:
    providers.rubric = rubric = Rubric(rubric_text="Was it right?", n_rollouts_per_input=2)
    service = BaseLLMService()
    result = asyncio.run(build_judge(rubric, service)(agent_run))
    service.stop()
    assert JudgeResult.model_validate_json(result.model_dump_json()) == result
