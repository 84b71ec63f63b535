"""The scripted model fake."""

import pytest

from evalscribe.model.chat import CallFailed, Message, Request
from support.scripted_model import ScriptedModel, text_reply, tool_reply

ASKED = Request(system="Judge.", messages=(Message(role="user", text="Why?"),))


async def test_scripted_model_plays_its_steps_in_order() -> None:
    model = ScriptedModel(
        [text_reply("one"), lambda request: text_reply(request.system), CallFailed("gone"), tool_reply(("submit", {}))]
    )
    assert (await model.complete(ASKED)).text == "one"
    assert (await model.complete(ASKED)).text == "Judge."
    with pytest.raises(CallFailed, match="gone"):
        await model.complete(ASKED)
    assert (await model.complete(ASKED)).tool_calls[0].name == "submit"
    with pytest.raises(AssertionError, match="ends before call 5"):
        await model.complete(ASKED)
    assert len(model.requests) == 5


async def test_scripted_model_streams_text_word_by_word() -> None:
    pieces: list[str] = []
    await ScriptedModel([text_reply(" Two words.\n")]).complete(ASKED, pieces.append)
    assert pieces == [" Two", " words.", "\n"]
