"""Asking a model one question: each kind of reply and what becomes of it."""

import json
from typing import Any

import pytest

from evalscribe.errors import AccessError, RubricError
from evalscribe.judging.requests import RequestAnswer, RequestModel, RequestPrompt
from evalscribe.model.chat import CallFailed, Reply, Usage
from evalscribe.model.result import AgentRunRef
from evalscribe.prompts.templates import Prompts
from support.request_records import make_record
from support.scripted_model import ScriptedModel, Step, text_reply

REF = AgentRunRef(id="a")
PROMPT = RequestPrompt.of(("Why did it fail?\n", REF), {REF: make_record("a")})
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"label": {"type": "string", "enum": ["x", "y"]}, "why": {"type": "string", "citations": True}},
    "required": ["label", "why"],
    "additionalProperties": False,
}
USAGE = Usage(calls=1, input_tokens=100, output_tokens=10, cost_usd=0.5)


async def answer(
    *script: Step, schema: dict[str, Any] | None = None, window: int = 200_000, prompt: RequestPrompt = PROMPT
) -> tuple[RequestAnswer, ScriptedModel]:
    model = ScriptedModel(script, context_tokens=window)
    questioner = RequestModel(model, Prompts(), schema)
    return await questioner.ask(prompt, questioner.request(prompt)), model


def tagged(label: str, why: str) -> Reply:
    return text_reply(f"I think.\n<response>{json.dumps({'label': label, 'why': why})}</response>", usage=USAGE)


async def test_free_text_answer_has_resolved_citations() -> None:
    outcome, model = await answer(
        text_reply("  It lied [T0B1:<RANGE>Done by a</RANGE>], [T0B0:<RANGE>made up</RANGE>].\n", usage=USAGE)
    )
    assert outcome.output is not None
    assert outcome.output["output"] == "It lied [T0B1:<RANGE>Done by a</RANGE>], [T0B0:<RANGE>made up</RANGE>]."
    assert [one["status"] for one in outcome.output["citations"]] == ["verified", "unverified"]
    assert outcome.usage == USAGE
    (request,) = model.requests
    assert "cites block 1 of transcript 0" in request.system
    assert "You can cite only what stands in this message" in request.system
    assert request.messages[0].text == PROMPT.text


async def test_prompt_without_references_does_not_mention_citations() -> None:
    _, model = await answer(text_reply("Yes."), prompt=RequestPrompt.of(("Is it?",), {}))
    assert model.requests[0].system.endswith("Answer in your own words.")
    assert "cite" not in model.requests[0].system


async def test_answer_with_a_schema_is_parsed_and_its_citations_resolved() -> None:
    outcome, model = await answer(tagged("x", "Since [T0B1]."), schema=SCHEMA)
    assert outcome.output is not None
    assert outcome.output["label"] == "x"
    assert outcome.output["why"]["text"] == "Since [T0B1]."
    assert outcome.output["why"]["citations"][0]["target"]["agent_run_id"] == "a"
    assert json.dumps(SCHEMA, indent=2) in model.requests[0].system


@pytest.mark.parametrize(
    ("schema", "bad", "good", "words"),
    [
        (SCHEMA, tagged("z", ""), tagged("x", ""), 'label: must be one of "x", "y"'),
        (None, text_reply("  ", usage=USAGE), text_reply("Well.", usage=USAGE), "the answer is empty"),
        (
            None,
            text_reply("Wel", stop="max_tokens", usage=USAGE),
            text_reply("Well.", usage=USAGE),
            "in your own words",
        ),
    ],
)
async def test_invalid_answer_is_asked_for_once_more(
    schema: dict[str, Any] | None, bad: Reply, good: Reply, words: str
) -> None:
    outcome, model = await answer(bad, good, schema=schema)
    assert outcome.output is not None
    assert outcome.usage == USAGE + USAGE
    assert words in model.requests[1].messages[-1].text
    outcome, _ = await answer(bad, bad, schema=schema)
    assert (outcome.output, outcome.final) == (None, False)


@pytest.mark.parametrize(
    ("step", "error", "final"),
    [
        (text_reply("", stop="refusal"), "the model refused to answer", True),
        (text_reply("", stop="context_exceeded"), "the model finds the prompt too long: refer to less at once", True),
        (CallFailed("overloaded (tried 5 times)"), "overloaded (tried 5 times)", False),
    ],
)
async def test_failed_call_becomes_the_error_of_its_question(step: Step, error: str, final: bool) -> None:
    outcome, _ = await answer(step)
    assert (outcome.output, outcome.error, outcome.final) == (None, error, final)


async def test_access_error_is_raised() -> None:
    with pytest.raises(AccessError, match="no key"):
        await answer(AccessError("no key"))


async def test_prompt_beyond_the_context_window_is_refused_with_its_size() -> None:
    long = RequestPrompt.of((REF,), {REF: make_record("a", said="word " * 20_000)})
    outcome, model = await answer(window=8_000, prompt=long)
    assert outcome.final
    assert outcome.error is not None
    assert outcome.error.startswith("the prompt has about 25,")
    assert "more than scripted/model can read and answer (8,000 in all): refer to less at once" in outcome.error
    assert model.requests == []


async def test_secret_in_an_answer_is_redacted() -> None:
    outcome, _ = await answer(text_reply("The key is sk-ant-api03-" + "aB3" * 31 + "AA"))
    assert outcome.output is not None
    assert "aB3aB3" not in outcome.output["output"]


def test_key_depends_on_prompt_schema_and_effort() -> None:
    def key(schema: dict[str, Any] | None = None, effort: Any = None, prompt: RequestPrompt = PROMPT) -> str:
        questioner = RequestModel(ScriptedModel([]), Prompts(), schema, effort)
        return questioner.key(questioner.request(prompt))

    again = RequestPrompt.of(("Why did it fail?\n", REF), {REF: make_record("a")})
    other = RequestPrompt.of(("Why did it fail?\n", REF), {REF: make_record("a", said="Bye.")})
    assert key(prompt=again) == key()
    assert len({key(), key(SCHEMA), key(effort="low"), key(prompt=other)}) == 4


def test_cached_answer_cites_the_run_of_the_current_prompt() -> None:
    """Runs with different ids may have the same text."""
    questioner = RequestModel(ScriptedModel([]), Prompts(), SCHEMA)
    known = {"label": "x", "why": {"text": "Since [T0B1].", "citations": [{"target": {"agent_run_id": "old"}}]}}
    assert questioner.again(known, PROMPT)["why"]["citations"][0]["target"]["agent_run_id"] == "a"


def test_schema_that_is_not_an_object_is_refused() -> None:
    with pytest.raises(RubricError, match="output_schema"):
        RequestModel(ScriptedModel([]), Prompts(), {"type": "string"})
