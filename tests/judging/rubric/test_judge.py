"""The judge of a rubric: what is asked, kept, and said of it."""

import json
from typing import Any

from evalscribe.agent_run import AgentRun, AssistantMessage, Transcript, UserMessage
from evalscribe.chat import Usage
from evalscribe.judge_result import ResultType
from evalscribe.judging.rubric.judge import RubricJudge
from evalscribe.llm.scripted import ScriptedModel, says
from evalscribe.rubric import Rubric

RUN = AgentRun(
    transcripts=(
        Transcript(
            messages=(
                UserMessage(content="What is the capital of France?"),
                AssistantMessage(content="The capital of France is Paris."),
            )
        ),
    )
)


def answer(**fields: Any) -> str:
    return f"<response>{json.dumps({'label': 'match', 'explanation': 'Paris [T0B1]', **fields})}</response>"


async def test_one_answer_is_a_result() -> None:
    model = ScriptedModel([says(answer(), usage=Usage(calls=1, input_tokens=10, output_tokens=2))])
    result = await RubricJudge(Rubric(rubric_text="Right?", id="right"), model)(RUN)
    assert result.result_type is ResultType.DIRECT_RESULT
    assert result.output == {"label": "match", "explanation": "Paris [T0B1]"}
    assert (result.citations.verified, result.citations.unverified) == (1, 0)
    assert (result.rubric_id, result.rubric_version, result.agent_run_id) == ("right", 1, RUN.id)
    assert result.usage == Usage(calls=1, input_tokens=10, output_tokens=2)
    assert result.confidence is None
