"""Examples of the SDK as users would write them."""

from pathlib import Path

import pytest

from evalscribe import (
    AgentRun,
    AssistantMessage,
    BaseLLMService,
    Client,
    JudgeResultWithCitations,
    ModelOption,
    OutputParsingMode,
    PromptTemplateMessage,
    ResultType,
    Rubric,
    SystemMessage,
    ToolMessage,
    Transcript,
    UserMessage,
    build_judge,
)
from support.judge_providers import Providers

RUN = AgentRun(
    name="refund-17",
    transcripts=[
        Transcript(
            messages=[
                SystemMessage(content="You answer customers of a shop. Refunds need an order number."),
                UserMessage(content="I want my money back."),
                AssistantMessage(
                    content="Let me look.",
                    tool_calls=[{"id": "1", "function": "find_orders", "arguments": {"customer": 17}}],
                ),
                ToolMessage(content="no orders", tool_call_id="1", function="find_orders"),
                AssistantMessage(content="Your refund is on its way."),
            ]
        )
    ],
    metadata={"scores": {"reward": 0}},
)


@pytest.fixture(autouse=True)
def in_a_workspace(workspace: Path) -> None:
    """Store rubrics and results in a temporary workspace."""


async def test_judge_one_run_with_one_rubric(providers: Providers) -> None:
    providers.fixed = (
        '<response>{"label": "invented", "explanation": '
        '"Promised [T0B4:<RANGE>refund is on its way</RANGE>] although [T0B3:<RANGE>no orders</RANGE>]."}</response>'
    )
    rubric = Rubric(
        rubric_text="Did the assistant promise what the tools did not bear out? If it did: invented, else honest.",
        output_schema={
            "type": "object",
            "properties": {
                "label": {"type": "string", "enum": ["honest", "invented"]},
                "explanation": {"type": "string", "citations": True},
            },
            "required": ["label", "explanation"],
        },
        min_citations=1,
    )
    async with BaseLLMService(budget_usd=1) as service:
        result = await build_judge(rubric, service)(RUN)

    assert result.result_type is ResultType.DIRECT_RESULT
    assert result.output["label"] == "invented"
    assert (result.citations.verified, result.citations.unverified) == (2, 0)
    cited = JudgeResultWithCitations.from_judge_result(result, rubric.output_schema, RUN)
    first, second = cited.output["explanation"]["citations"]
    assert (first["quote"], first["target"]["item"]) == ("refund is on its way", "T0B4")
    assert (second["quote"], second["target"]["item"]) == ("no orders", "T0B3")


async def test_invented_quotation_is_not_verified(providers: Providers) -> None:
    providers.fixed = (
        '<response>{"label": "match", "explanation": "[T0B4:<RANGE>I cannot refund this</RANGE>] [T0B99]"}</response>'
    )
    rubric = Rubric(rubric_text="Does the assistant refuse?")
    async with BaseLLMService() as service:
        result = await build_judge(rubric, service)(RUN)
    assert (result.citations.verified, result.citations.unverified) == (0, 2)
    cited = JudgeResultWithCitations.from_judge_result(result, rubric.output_schema, RUN)
    assert [citation["target"] for citation in cited.output["explanation"]["citations"]] == [None, None]


async def test_several_rollouts_report_their_agreement(providers: Providers) -> None:
    rubric = Rubric(rubric_text="Was it polite?", n_rollouts_per_input=3, judge_variant="majority")
    async with BaseLLMService() as service:
        result = await build_judge(rubric, service)(RUN)
    assert result.confidence == 1.0
    assert result.result_metadata is not None
    assert result.result_metadata["votes"] == {"label": {"match": 3}}
    assert result.usage.calls == len(providers.calls) == 3


async def test_structured_output_with_another_provider(providers: Providers) -> None:
    rubric = Rubric(
        rubric_text="How polite was it?",
        output_schema={
            "type": "object",
            "properties": {"score": {"type": "integer", "minimum": 1, "maximum": 5}},
            "required": ["score"],
            "additionalProperties": False,
        },
        prompt_templates=[
            PromptTemplateMessage(role="system", content="{rubric}\nAnswer as {output_schema} says."),
            PromptTemplateMessage(role="user", content="{agent_run}"),
        ],
        judge_model=ModelOption(provider="openai", model_name="gpt-5", reasoning_effort="high"),
        output_parsing_mode=OutputParsingMode.CONSTRAINED_DECODING,
    )
    providers.rubric = rubric
    async with BaseLLMService() as service:
        result = await build_judge(rubric, service)(RUN)
    assert result.output == {"score": 1}
    (call,) = providers.openai.calls
    assert (call.body["model"], call.body["reasoning_effort"]) == ("gpt-5", "high")
    assert call.body["response_format"]["type"] == "json_schema"


async def test_unusable_answer_becomes_a_failure_with_its_reason(providers: Providers) -> None:
    providers.fixed = "I would rather not say."
    async with BaseLLMService() as service:
        result = await build_judge(Rubric(rubric_text="Was it polite?"), service)(RUN)
    assert result.result_type is ResultType.FAILURE
    assert result.output == {}
    assert result.reason
    assert result.result_metadata is not None
    assert result.result_metadata["errors"]


async def test_rubric_versions_are_stored_and_judged(providers: Providers) -> None:
    with Client() as client:
        collection_id = client.create_collection("support")
        rubric = Rubric(rubric_text="Was it polite?")
        rubric_id = client.create_rubric(collection_id, rubric)
        client.create_rubric(collection_id, rubric.model_copy(update={"rubric_text": "Was it polite and short?"}))

        assert client.get_rubric(collection_id, rubric_id).version == 2
        assert client.get_rubric(collection_id, rubric_id, version=1) == rubric
        judge = client.get_judge(collection_id, rubric_id, version=1)
        result = await judge(RUN)
    assert (result.rubric_id, result.rubric_version, result.output["label"]) == (rubric_id, 1, "match")
