"""Prompt targets: requests and answer parsing."""

from typing import Any

import pytest
from pydantic import ValidationError

from evalscribe.experiments.targets import PromptModelTarget
from evalscribe.model.chat import CallFailed, StopReason, Usage
from evalscribe.model.target import TargetCall, TargetFailure, TargetMessage, TargetPromptVersion, TargetReply
from support.scripted_model import ScriptedModel, Step, text_reply

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}


def prompt(content: str = "Answer {{input.q}}", **changed: Any) -> TargetPromptVersion:
    messages = (TargetMessage(role="system", content="Be kind."), TargetMessage(role="user", content=content))
    defaults = {"id": "pv-1", "prompt_id": "prompt-1", "number": 1, "model": "anthropic/m", "created_at": ""}
    return TargetPromptVersion.model_validate({**defaults, "messages": messages, **changed})


async def answer_prompt(
    step: Step, value: Any = None, version: TargetPromptVersion | None = None, repetition: int = 1
) -> tuple[TargetReply | TargetFailure, ScriptedModel]:
    model = ScriptedModel([step])
    call = TargetCall(run_id="r", item_key="k", repetition=repetition, input={"q": "1+1"} if value is None else value)
    return await PromptModelTarget(version or prompt(), model).answer(call), model


async def test_input_is_inserted_as_data_and_not_as_template() -> None:
    value = {"q": "{{input.other}} and $& \\1", "order": {"items": [{"id": 7}]}}
    text = "{{ input.q }} {{input.order.items.0}} {{input.order.items.0.id}}"
    _, model = await answer_prompt(text_reply("ok"), value, prompt(text))
    (request,) = model.requests
    assert request.system == "Be kind."
    assert request.messages[0].text == '{{input.other}} and $& \\1 {"id": 7} 7'


async def test_text_is_inserted_verbatim_and_other_values_as_json() -> None:
    for value, shown in (("plain", "plain"), ({"a": "ä"}, '{"a": "ä"}'), (3, "3")):
        _, model = await answer_prompt(text_reply("ok"), value, prompt("{{input}}"))
        assert model.requests[0].messages[0].text == shown


async def test_input_without_a_template_field_fails_without_a_model_call() -> None:
    failed, model = await answer_prompt(text_reply("ok"), {"other": 1})
    assert isinstance(failed, TargetFailure)
    assert failed.reason == "the item's input has no 'q', which {{input.q}} names"
    assert not model.requests


@pytest.mark.parametrize("text", ["{{name}}", "{{input[0]}}", "{{ input.a | upper }}", "{{inputs}}", "{{}}"])
def test_invalid_template_variables_are_refused(text: str) -> None:
    with pytest.raises(ValidationError, match="is not a variable"):
        TargetMessage(role="user", content=text)


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("Paris", "Paris"),
        ("42", "42"),
        ('"x"', '"x"'),
        ('{"n": 1}', {"n": 1}),
        ("[1]", [1]),
        ("[1", "[1"),
        ("NaN", "NaN"),
    ],
)
async def test_json_objects_and_arrays_are_parsed_and_other_answers_stay_text(text: str, output: Any) -> None:
    reply, _ = await answer_prompt(text_reply(text, usage=Usage(calls=1, input_tokens=5)))
    assert isinstance(reply, TargetReply)
    assert reply.output == output
    assert reply.usage
    assert (reply.usage.input_tokens, reply.model) == (5, "anthropic/m")
    assert reply.transcript
    assert [message.role for message in reply.transcript.messages] == ["system", "user", "assistant"]
    assert reply.transcript.messages[1].content == "Answer 1+1"


async def test_answer_is_parsed_and_validated_when_an_output_schema_is_set() -> None:
    version = prompt(output_schema=SCHEMA, effort="low", max_tokens=50)
    reply, model = await answer_prompt(text_reply("3"), version=version, repetition=3)
    assert isinstance(reply, TargetReply)
    assert reply.output == 3
    (request,) = model.requests
    assert (request.max_tokens, request.effort, request.rollout) == (50, "low", 2)
    assert request.answer_schema
    failed, _ = await answer_prompt(text_reply("three"), version=version)
    assert isinstance(failed, TargetFailure)
    assert "output_schema" in failed.reason


@pytest.mark.parametrize(
    ("stop", "message"), [("max_tokens", "cut off at 4096 tokens"), ("refusal", "refused to answer")]
)
async def test_truncated_or_refused_answer_fails_and_keeps_its_usage(stop: StopReason, message: str) -> None:
    failed, _ = await answer_prompt(text_reply("so f", stop=stop, usage=Usage(calls=1, output_tokens=9)))
    assert isinstance(failed, TargetFailure)
    assert message in failed.reason
    assert failed.usage
    assert failed.usage.output_tokens == 9


async def test_failed_call_fails_the_item_and_keeps_its_cost() -> None:
    failed, _ = await answer_prompt(CallFailed("it broke", Usage(calls=2, cost_usd=0.5)))
    assert isinstance(failed, TargetFailure)
    assert (failed.reason, failed.usage) == ("it broke", Usage(calls=2, cost_usd=0.5))
