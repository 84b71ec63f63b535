"""One question asked, by the answer that comes back."""

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
ASKED = RequestPrompt.of(("Why did it fail?\n", REF), {REF: make_record("a")})
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"label": {"type": "string", "enum": ["x", "y"]}, "why": {"type": "string", "citations": True}},
    "required": ["label", "why"],
    "additionalProperties": False,
}
USAGE = Usage(calls=1, input_tokens=100, output_tokens=10, cost_usd=0.5)


async def answer(
    *script: Step, schema: dict[str, Any] | None = None, window: int = 200_000, asked: RequestPrompt = ASKED
) -> tuple[RequestAnswer, ScriptedModel]:
    model = ScriptedModel(script, context_tokens=window)
    questioner = RequestModel(model, Prompts(), schema)
    return await questioner.ask(asked, questioner.request(asked)), model


def tagged(label: str, why: str) -> Reply:
    return text_reply(f"I think.\n<response>{json.dumps({'label': label, 'why': why})}</response>", usage=USAGE)


async def test_free_text_with_its_citations() -> None:
    told, model = await answer(
        text_reply("  It lied [T0B1:<RANGE>Done by a</RANGE>], [T0B0:<RANGE>made up</RANGE>].\n", usage=USAGE)
    )
    assert told.output is not None
    assert told.output["output"] == "It lied [T0B1:<RANGE>Done by a</RANGE>], [T0B0:<RANGE>made up</RANGE>]."
    assert [one["status"] for one in told.output["citations"]] == ["verified", "unverified"]
    assert told.usage == USAGE
    (request,) = model.requests
    assert "cites block 1 of transcript 0" in request.system
    assert "You can cite only what stands in this message" in request.system
    assert request.messages[0].text == ASKED.text


async def test_a_prompt_of_words_alone_is_told_nothing_of_citations() -> None:
    _, model = await answer(text_reply("Yes."), asked=RequestPrompt.of(("Is it?",), {}))
    assert model.requests[0].system.endswith("Answer in your own words.")
    assert "cite" not in model.requests[0].system


async def test_an_answer_that_fits_a_schema() -> None:
    told, model = await answer(tagged("x", "Since [T0B1]."), schema=SCHEMA)
    assert told.output is not None
    assert told.output["label"] == "x"
    assert told.output["why"]["text"] == "Since [T0B1]."
    assert told.output["why"]["citations"][0]["target"]["agent_run_id"] == "a"
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
async def test_a_second_chance(schema: dict[str, Any] | None, bad: Reply, good: Reply, words: str) -> None:
    told, model = await answer(bad, good, schema=schema)
    assert told.output is not None
    assert told.usage == USAGE + USAGE
    assert words in model.requests[1].messages[-1].text
    told, _ = await answer(bad, bad, schema=schema)
    assert (told.output, told.final) == (None, False)


@pytest.mark.parametrize(
    ("step", "error", "final"),
    [
        (text_reply("", stop="refusal"), "the model refused to answer", True),
        (text_reply("", stop="context_exceeded"), "the model finds the prompt too long: refer to less at once", True),
        (CallFailed("overloaded (tried 5 times)"), "overloaded (tried 5 times)", False),
    ],
)
async def test_what_concerns_one_question_is_its_error(step: Step, error: str, final: bool) -> None:
    told, _ = await answer(step)
    assert (told.output, told.error, told.final) == (None, error, final)


async def test_what_concerns_all_is_raised() -> None:
    with pytest.raises(AccessError, match="no key"):
        await answer(AccessError("no key"))


async def test_a_prompt_beyond_the_window_is_not_asked_and_says_by_how_much() -> None:
    long = RequestPrompt.of((REF,), {REF: make_record("a", said="word " * 20_000)})
    told, model = await answer(window=8_000, asked=long)
    assert told.final
    assert told.error is not None
    assert told.error.startswith("the prompt has about 25,")
    assert "more than scripted/model can read and answer (8,000 in all): refer to less at once" in told.error
    assert model.requests == []


async def test_a_secret_in_an_answer_is_not_kept() -> None:
    told, _ = await answer(text_reply("The key is sk-ant-api03-" + "aB3" * 31 + "AA"))
    assert told.output is not None
    assert "aB3aB3" not in told.output["output"]


def test_the_key_is_that_of_the_question() -> None:
    def key(schema: dict[str, Any] | None = None, effort: Any = None, asked: RequestPrompt = ASKED) -> str:
        questioner = RequestModel(ScriptedModel([]), Prompts(), schema, effort)
        return questioner.key(questioner.request(asked))

    again = RequestPrompt.of(("Why did it fail?\n", REF), {REF: make_record("a")})
    other = RequestPrompt.of(("Why did it fail?\n", REF), {REF: make_record("a", said="Bye.")})
    assert key(asked=again) == key()
    assert len({key(), key(SCHEMA), key(effort="low"), key(asked=other)}) == 4


def test_a_known_answer_leads_to_what_is_asked_about_now() -> None:
    """The same text may belong to a run of another id."""
    questioner = RequestModel(ScriptedModel([]), Prompts(), SCHEMA)
    known = {"label": "x", "why": {"text": "Since [T0B1].", "citations": [{"target": {"agent_run_id": "old"}}]}}
    assert questioner.again(known, ASKED)["why"]["citations"][0]["target"]["agent_run_id"] == "a"


def test_a_schema_that_is_none() -> None:
    with pytest.raises(RubricError, match="output_schema"):
        RequestModel(ScriptedModel([]), Prompts(), {"type": "string"})
