"""What a judge gives back: the same fields whatever it came to."""

import asyncio
from pathlib import Path

from evalscribe import AgentRun, BaseLLMService, JudgeResult, ResultType, Rubric, build_judge
from support.judge_providers import Providers

ASKED_FOR = (
    "id",
    "agent_run_id",
    "rubric_id",
    "rubric_version",
    "output",
    "result_metadata",
    "result_type",
)
BESIDES = ("reason", "citations", "confidence", "judge", "usage")


def test_a_result_has_the_fields_that_were_asked_for_and_what_they_lack() -> None:
    assert tuple(JudgeResult.model_fields) == (*ASKED_FOR, *BESIDES)
    assert [kind.name for kind in ResultType] == ["DIRECT_RESULT", "FAILURE"]


def test_a_direct_result_and_a_failure_fill_them_all(
    workspace: Path, providers: Providers, agent_run: AgentRun
) -> None:
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


def test_a_result_reads_back_from_its_json(workspace: Path, providers: Providers, agent_run: AgentRun) -> None:
    providers.rubric = rubric = Rubric(rubric_text="Was it right?", n_rollouts_per_input=2)
    service = BaseLLMService()
    result = asyncio.run(build_judge(rubric, service)(agent_run))
    service.stop()
    assert JudgeResult.model_validate_json(result.model_dump_json()) == result
