"""Requests and replies of the chat-completions adapter, and the dialects of the services."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from evalscribe.errors import UsageError
from evalscribe.llm.budget import Price, Rate
from evalscribe.llm.completion import COMPATIBLE, DIALECTS, Dialect, dialect_of, is_strict, messages
from evalscribe.llm.openai import OpenAIModel
from evalscribe.model.chat import Effort, Message, Reply, Request, Tool, ToolResult, Usage
from evalscribe.settings.access import GOOGLE, OPENAI, OPENROUTER, PROVIDERS, Provider
from support.chat_server import USAGE, Answer, Call, ChatServer, completion, failure, says, use
from support.scripted_server import Script

KEY = "sk-proj-secret-123456"
OPEN = {"type": "object", "properties": {"label": {"type": "string"}}}
CLOSED = {**OPEN, "required": ["label"], "additionalProperties": False}
TOOL = Tool(name="submit", description="Submit.", input_schema=CLOSED)
ASKED = Request(system="Judge.", messages=(Message(role="user", text="Why?"),), max_tokens=77)
PRICE = Price(model="x/y", rates=(Rate(input=2, output=10, cache_write=3, cache_read=1),))


async def ask(
    script: Script,
    requests: Sequence[Request] = (ASKED,),
    spoken: Dialect | None = None,
    provider: Provider = OPENAI,
    key: str = KEY,
) -> tuple[list[Reply], list[Call]]:
    """Return the replies and the calls that the server received; `spoken` overrides the provider's dialect."""
    with ChatServer(script) as server:
        model = OpenAIModel("test", key, provider, server.url, PRICE, dialect=spoken or DIALECTS[provider.name])
        try:
            return [await model.complete(request) for request in requests], server.calls
        finally:
            await model.close()


def changed(**fields: Any) -> Request:
    return ASKED.model_copy(update=fields)


async def test_request_matches_the_chat_completions_api() -> None:
    _, (call,) = await ask(says("Done."), [changed(tools=(TOOL,), effort="high")])
    assert call.path == "/chat/completions"
    assert call.headers["authorization"] == f"Bearer {KEY}"
    assert call.body == {
        "model": "test",
        "messages": [{"role": "system", "content": "Judge."}, {"role": "user", "content": "Why?"}],
        "max_completion_tokens": 77,
        "reasoning_effort": "high",
        "tools": [
            {
                "type": "function",
                "function": {"name": "submit", "description": "Submit.", "parameters": CLOSED, "strict": True},
            }
        ],
    }


async def test_openai_environment_variables_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("API_KEY", "ADMIN_KEY", "ORG_ID", "PROJECT_ID", "WEBHOOK_SECRET"):
        monkeypatch.setenv(f"OPENAI_{name}", "planted")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Mine: planted\nAuthorization: planted")
    for key in (KEY, ""):
        _, (call,) = await ask(says("Done."), provider=OPENROUTER, key=key)
        assert "planted" not in json.dumps(call.headers)
        assert call.headers.get("authorization") == (f"Bearer {KEY}" if key else None)


async def test_structured_output_is_strict_only_for_closed_schemas() -> None:
    _, (closed, loose) = await ask(says("{}"), [changed(answer_schema=CLOSED), changed(answer_schema=OPEN)])
    sent = closed.body["response_format"]
    assert sent == {"type": "json_schema", "json_schema": {"name": "answer", "schema": CLOSED, "strict": True}}
    assert loose.body["response_format"]["json_schema"]["strict"] is False


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (CLOSED, True),
        (OPEN, False),
        ({**CLOSED, "required": []}, False),
        ({"type": "array", "items": CLOSED}, True),
        ({"type": "array", "items": OPEN}, False),
        ({**CLOSED, "properties": {"label": OPEN}}, False),
    ],
)
def test_is_strict_requires_closed_schemas_at_every_level(schema: dict[str, Any], strict: bool) -> None:
    assert is_strict(schema) is strict


async def test_openrouter_request_asks_for_cost_and_schema_support() -> None:
    usage = {**USAGE, "cost": 0.0123, "is_byok": False}
    (_, reply), (plain, bound) = await ask(
        says("{}", usage=usage), [ASKED, changed(answer_schema=CLOSED)], provider=OPENROUTER
    )
    assert plain.body["usage"] == {"include": True}
    assert "provider" not in plain.body
    assert bound.body["provider"] == {"require_parameters": True}
    assert (plain.body["max_tokens"], "max_completion_tokens" in plain.body) == (77, False)
    assert reply.usage.cost_usd == 0.0123


async def test_openrouter_cost_includes_the_upstream_cost_with_an_own_key() -> None:
    usage = {**USAGE, "cost": 0.001, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.02}}
    (reply,), _ = await ask(says("x", usage=usage), provider=OPENROUTER)
    assert reply.usage.cost_usd == pytest.approx(0.021)


async def test_usage_includes_cached_tokens_and_cost() -> None:
    usage = {
        "prompt_tokens": 3000,
        "completion_tokens": 500,
        "total_tokens": 3500,
        "prompt_tokens_details": {"cached_tokens": 2000},
        "completion_tokens_details": {"reasoning_tokens": 400},
    }
    (reply,), _ = await ask(says("x", usage=usage))
    cost = (1000 * 2 + 2000 * 1 + 500 * 10) / 1_000_000
    assert reply.usage.cost_usd == pytest.approx(cost)
    assert reply.usage.model_copy(update={"cost_usd": 0.0}) == Usage(
        calls=1, input_tokens=3000, output_tokens=500, cache_read_tokens=2000
    )


async def test_thinking_tokens_only_in_the_total_are_counted_as_output() -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 420}
    (reply,), _ = await ask(says("x", usage=usage), provider=GOOGLE)
    assert reply.usage.output_tokens == 320


async def test_answer_without_usage_has_zero_calls() -> None:
    (reply,), _ = await ask(says("x", usage=None))
    assert (reply.text, reply.usage.calls) == ("x", 0)


def test_consecutive_user_messages_are_merged() -> None:
    request = Request(system="", messages=(Message(role="user", text="One."), Message(role="user", text="Two.")))
    assert messages(request) == [{"role": "user", "content": "One.\n\nTwo."}]


async def test_assistant_turn_is_sent_back_with_signatures_and_reasoning_details() -> None:
    calls = [
        {
            "id": "call_a",
            "type": "function",
            "function": {"name": "read_lines", "arguments": '{"path": "a"}'},
            "extra_content": {"google": {"thought_signature": "sig=="}},
        }
    ]
    message = {
        "content": None,
        "tool_calls": calls,
        "reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}],
        "annotations": [],
        "audio": None,
        "reasoning": "to be left out",
    }
    with ChatServer(completion(message, "tool_calls")) as server:
        model = OpenAIModel("test", KEY, GOOGLE, server.url)
        reply = await model.complete(ASKED)
        results = (ToolResult(call_id="call_a", text="1| x"), ToolResult(call_id="call_b", text="bad", is_error=True))
        turns = (
            *ASKED.messages,
            Message(role="assistant", raw=reply.raw),
            Message(role="user", text="Go on.", tool_results=results),
        )
        await model.complete(changed(messages=turns))
        await model.close()
    assert server.calls[1].body["messages"][2:] == [
        {"role": "assistant", "tool_calls": calls, "reasoning_details": message["reasoning_details"]},
        {"role": "tool", "tool_call_id": "call_a", "content": "1| x"},
        {"role": "tool", "tool_call_id": "call_b", "content": "Error: bad"},
        {"role": "user", "content": "Go on."},
    ]


async def test_tool_call_without_an_id_gets_one() -> None:
    message = {"tool_calls": [{"id": "", "type": "function", "function": {"name": "submit", "arguments": "{}"}}]}
    (reply,), _ = await ask(completion(message, "stop"))
    assert (reply.stop, reply.tool_calls[0].id) == ("tool_use", "call_1")
    assert reply.raw["tool_calls"][0]["id"] == "call_1"


@pytest.mark.parametrize("arguments", ['{"cau', "", "[1]", "null", None, '{"a": ' * 100_000])
async def test_invalid_tool_arguments_become_empty(arguments: str | None) -> None:
    message = {"tool_calls": [{"id": "c", "type": "function", "function": {"name": "submit", "arguments": arguments}}]}
    (reply,), _ = await ask(completion(message, "length"))
    assert (reply.stop, reply.tool_calls[0].input) == ("max_tokens", {})


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("stop", "end"),
        ("length", "max_tokens"),
        ("content_filter", "refusal"),
        ("content_filter: PROHIBITED_CONTENT", "refusal"),
        ("SAFETY", "refusal"),
        ("of_tomorrow", "unknown"),
    ],
)
async def test_finish_reasons_are_mapped(reason: str, stop: str) -> None:
    (reply,), _ = await ask(says("x", reason))
    assert reply.stop == stop


async def test_refusal_field_is_a_refusal() -> None:
    (reply,), _ = await ask(completion({"content": None, "refusal": "I cannot."}))
    assert (reply.stop, reply.text) == ("refusal", "I cannot.")


async def test_text_parts_of_the_content_are_joined() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "thinking", "thinking": "x"}, {"type": "text", "text": "b"}]
    (reply,), _ = await ask(completion({"content": parts}))
    assert reply.text == "ab"


@pytest.mark.parametrize(
    ("provider", "wanted", "sent"),
    [
        (OPENAI, "max", "max"),
        (OPENAI, "minimal", "minimal"),
        (OPENROUTER, "max", "xhigh"),
        (OPENROUTER, "high", "high"),
        (GOOGLE, "xhigh", "high"),
        (GOOGLE, "low", "low"),
    ],
)
async def test_effort_is_the_nearest_supported_by_the_service(provider: Provider, wanted: Effort, sent: str) -> None:
    _, (call,) = await ask(says("x"), [changed(effort=wanted)], provider=provider)
    assert call.body["reasoning_effort"] == sent


def refuses_effort(*taken: str) -> Script:
    def answer(call: Call) -> Answer:
        effort = call.body.get("reasoning_effort")
        if effort is None or effort in taken:
            return says("Done.")
        return failure(400, "unsupported_value", f"'reasoning_effort' does not support {effort!r} with this model.")

    return answer


@pytest.mark.parametrize(("taken", "sent"), [(("high",), ["max", "high", "high"]), ((), ["max", "high", None, None])])
async def test_rejected_effort_is_lowered_once_for_all_later_calls(
    taken: tuple[str, ...], sent: list[str | None]
) -> None:
    replies, calls = await ask(refuses_effort(*taken), [changed(effort="max")] * 2)
    assert [reply.text for reply in replies] == ["Done.", "Done."]
    assert [call.body.get("reasoning_effort") for call in calls] == sent


@pytest.mark.parametrize("spoken", [COMPATIBLE, DIALECTS["openai"]])
async def test_rejected_token_limit_parameter_is_replaced_by_its_other_name(spoken: Dialect) -> None:
    def answer(call: Call) -> Answer:
        if spoken.limit in call.body:
            return failure(400, "unsupported_parameter", f"Unsupported parameter: '{spoken.limit}'.")
        return says("Done.")

    replies, calls = await ask(answer, [ASKED, ASKED], spoken)
    assert [reply.text for reply in replies] == ["Done.", "Done."]
    assert [spoken.limit in call.body for call in calls] == [True, False, False]


async def test_adaptation_stops_when_every_request_is_rejected() -> None:
    answer = failure(400, None, "Unsupported: max_tokens, max_completion_tokens, reasoning_effort")
    with ChatServer(answer) as server:
        model = OpenAIModel("test", KEY, OPENAI, server.url)
        with pytest.raises(Exception, match="rejected the request"):
            await model.complete(changed(effort="max"))
        await model.close()
    efforts = [call.body.get("reasoning_effort") for call in server.calls]
    assert efforts == ["high", "high", None]


def test_custom_openai_url_is_compatible_and_openrouter_keeps_its_dialect() -> None:
    assert dialect_of(OPENAI, OPENAI.url) == DIALECTS["openai"]
    assert dialect_of(OPENAI, "http://127.0.0.1:11434/v1") == COMPATIBLE
    assert dialect_of(OPENROUTER, "http://127.0.0.1:1/v1") == DIALECTS["openrouter"]


@pytest.mark.parametrize("name", [name for name in PROVIDERS if name != "anthropic"])
async def test_check_requests_a_free_endpoint(name: str) -> None:
    with ChatServer(says("x")) as server:
        model = OpenAIModel("test", KEY, PROVIDERS[name], server.url)
        await model.check()
        await model.close()
    assert [(call.path, call.body) for call in server.calls] == [(DIALECTS[name].check, {})]


@pytest.mark.parametrize("url", ["model.example", "ftp://model.example", "https://user:pw@model.example"])
def test_invalid_url_is_refused_without_echoing_its_password(url: str) -> None:
    with pytest.raises(UsageError) as raised:
        OpenAIModel("test", KEY, OPENAI, url)
    assert "pw@" not in str(raised.value)


async def test_compatible_server_gets_tools_without_strict() -> None:
    _, (call,) = await ask(use(("submit", {"label": "x"})), [changed(tools=(TOOL,))], COMPATIBLE)
    assert "strict" not in call.body["tools"][0]["function"]
    assert call.body["max_tokens"] == 77
