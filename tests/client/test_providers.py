"""Every provider, chosen by a rubric's model, in both parsing modes, with a server of its protocol."""

import json
from pathlib import Path
from typing import Any

import pytest

from evalscribe import (
    AgentRun,
    BaseLLMService,
    JudgeResult,
    OutputParsingMode,
    ResultType,
    Rubric,
    Transcript,
    UserMessage,
    build_judge,
)
from evalscribe.errors import RubricError, UsageError
from support.provider_servers import KEY, VENDORS, Vendor
from support.scripted_server import Answer, Call, Script, ScriptedServer

OUTPUT = {"label": "match", "explanation": "See [T0B1:<RANGE>Paris</RANGE>]."}
JSON = json.dumps(OUTPUT)
MODES = tuple(OutputParsingMode)


@pytest.fixture(params=VENDORS, ids=lambda vendor: vendor.name)
def vendor(request: pytest.FixtureRequest, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Vendor:
    parameter: Vendor = request.param
    monkeypatch.delenv(parameter.provider.key_name, raising=False)
    if parameter.key:
        monkeypatch.setenv(parameter.provider.key_name, KEY)
    return parameter


async def judge_with(
    vendor: Vendor, script: Script, monkeypatch: pytest.MonkeyPatch, run: AgentRun, **fields: Any
) -> tuple[JudgeResult, ScriptedServer]:
    rubric = Rubric(rubric_text="Was it right?", judge_model=f"{vendor.provider.name}/vendor/model-x", **fields)
    with vendor.server(script) as server:
        monkeypatch.setenv(vendor.provider.url_name, server.url)
        async with BaseLLMService() as service:
            return await build_judge(rubric, service)(run), server


@pytest.mark.parametrize("mode", MODES)
async def test_every_provider_judges_in_every_mode(
    vendor: Vendor, mode: OutputParsingMode, monkeypatch: pytest.MonkeyPatch, agent_run: AgentRun
) -> None:
    answer = JSON if mode is OutputParsingMode.CONSTRAINED_DECODING else f"I think.\n<response>{JSON}</response>"
    result, server = await judge_with(vendor, vendor.says(answer), monkeypatch, agent_run, output_parsing_mode=mode)
    assert (result.reason, result.output) == (None, OUTPUT)
    assert (result.citations.verified, result.usage.calls) == (1, 1)
    assert result.judge == f"{vendor.provider.name}/vendor/model-x"
    (call,) = server.calls
    assert call.body["model"] == "vendor/model-x"
    if mode is OutputParsingMode.CONSTRAINED_DECODING:
        assert vendor.schema(call)["properties"]["explanation"] == {"type": "string"}
        assert "<response>" not in json.dumps(call.body)
    else:
        assert "response_format" not in call.body
        assert "output_config" not in call.body


@pytest.mark.parametrize("mode", MODES)
async def test_invalid_answer_is_returned_once_with_every_provider(
    vendor: Vendor, mode: OutputParsingMode, monkeypatch: pytest.MonkeyPatch, agent_run: AgentRun
) -> None:
    script = [vendor.says('{"label": "maybe"}'), vendor.says(JSON)]
    result, server = await judge_with(vendor, script, monkeypatch, agent_run, output_parsing_mode=mode)
    assert (result.output, result.usage.calls) == (OUTPUT, 2)
    roles = [turn["role"] for turn in server.calls[1].body["messages"]]
    assert roles[-3:] == ["user", "assistant", "user"]
    assert "maybe" in json.dumps(server.calls[1].body["messages"][-1])


async def test_error_about_one_subject_is_a_failure_with_every_provider(
    vendor: Vendor, monkeypatch: pytest.MonkeyPatch, agent_run: AgentRun
) -> None:
    for script, reason in (
        (vendor.refusal, "the model refused to judge this subject"),
        (vendor.too_long, "the subject is too long for the model"),
        (vendor.says("", vendor.cut_off), "the answer was cut off at 16384 tokens"),
        (vendor.failure(400, text="no such thing"), "rejected the request"),
    ):
        result, _ = await judge_with(vendor, script, monkeypatch, agent_run)
        assert result.result_type is ResultType.FAILURE
        assert reason in (result.reason or "")
        assert result.result_metadata is not None
        assert result.result_metadata["errors"] == [result.reason]


async def test_prompt_rejected_as_too_long_is_read_in_parts(vendor: Vendor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each provider reports in its own way that a prompt is too long although our estimate fits."""
    messages = tuple(UserMessage(content=f"Paris, day {n}. " + "On and on. " * 150) for n in range(20))
    observations = json.dumps({"observations": ["It is Paris [T0B1:<RANGE>Paris</RANGE>]."]})

    def script(call: Call) -> Answer:
        body = json.dumps(call.body)
        if len(body) > 20_000:
            return vendor.too_long
        return vendor.says(f"<response>{observations if 'You read part' in body else JSON}</response>")

    result, _ = await judge_with(vendor, script, monkeypatch, AgentRun(transcripts=(Transcript(messages=messages),)))
    assert (result.reason, result.output, result.citations.verified) == (None, OUTPUT, 1)
    assert result.result_metadata is not None
    assert result.result_metadata["read_in_parts"] >= 1


def test_unknown_provider_is_refused_before_any_call() -> None:
    with pytest.raises(RubricError, match="anthropic, openai, openrouter, google"):
        Rubric(rubric_text="x", judge_model="nobody/model-x")
    with pytest.raises(UsageError, match="nobody"):
        BaseLLMService().open("nobody/model-x", "judge")
