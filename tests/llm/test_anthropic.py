"""The Anthropic adapter against a server on loopback."""

import inspect
import json

import httpx2
import pytest

from evalscribe.errors import AccessError, EvalscribeError, UnavailableError, UsageError
from evalscribe.llm.anthropic import AnthropicModel
from evalscribe.llm.attempt import CallTarget, retry_after
from evalscribe.llm.budget import price_of
from evalscribe.model.chat import CallFailed, Message, Reply, Request, Tool, ToolResult, TransientFailure, Usage
from evalscribe.settings.access import ANTHROPIC
from support.messages_server import Answer, MessagesServer, failure, message, says
from support.waiting import PATIENCE_S

KEY = "sk-ant-secret-123456"
TOOL = Tool(name="submit", description="Submit.", input_schema={"type": "object", "properties": {}})
ASKED_OF = CallTarget(provider=ANTHROPIC, model="claude-x", host="127.0.0.1")
ASKED = Request(system="Judge.", messages=(Message(role="user", text="Why?"),), tools=(TOOL,), effort="high")


def model(url: str, **options: float) -> AnthropicModel:
    return AnthropicModel("claude-opus-5-5", KEY, url, price_of("anthropic/claude-opus-5-5"), **options)


async def ask(server: MessagesServer, request: Request = ASKED) -> Reply:
    adapter = model(server.url, timeout_s=PATIENCE_S)
    try:
        return await adapter.complete(request)
    finally:
        await adapter.close()


async def test_request_matches_the_messages_api() -> None:
    with MessagesServer() as server:
        await ask(server)
    call = server.calls[0]
    assert call.path == "/v1/messages"
    assert call.headers["authorization"] == f"Bearer {KEY}"
    assert call.body["model"] == "claude-opus-5-5"
    assert call.body["cache_control"] == {"type": "ephemeral"}
    assert call.body["system"][0]["cache_control"] == {"type": "ephemeral"}
    assert call.body["tool_choice"] == {"type": "auto"}
    assert call.body["tools"][0]["strict"] is True
    assert call.body["output_config"] == {"effort": "high"}
    assert "thinking" not in call.body


async def test_usage_includes_cache_tokens_and_cost() -> None:
    usage = {
        "input_tokens": 100,
        "cache_read_input_tokens": 2000,
        "cache_creation_input_tokens": 1000,
        "output_tokens": 500,
    }
    with MessagesServer(message({"type": "text", "text": "Done."}, usage=usage)) as server:
        reply = await ask(server)
    cost = (100 * 4 + 2000 * 0.20 + 1000 * 5 + 500 * 20) / 1_000_000
    assert reply.usage.cost_usd == pytest.approx(cost)
    assert reply.usage.model_copy(update={"cost_usd": 0.0}) == Usage(
        calls=1, input_tokens=3100, output_tokens=500, cache_read_tokens=2000, cache_write_tokens=1000
    )
    assert (reply.text, reply.stop) == ("Done.", "end")


async def test_assistant_turn_is_sent_back_unchanged() -> None:
    content = [
        {"type": "thinking", "thinking": "", "signature": "sig=="},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "toolu_1", "name": "read_lines", "input": {"path": "a", "first": 1}},
        {"type": "of_tomorrow", "payload": [1, {"a": None}]},
    ]
    with MessagesServer(message(*content, stop="tool_use")) as server:
        adapter = model(server.url)
        reply = await adapter.complete(ASKED)
        results = (ToolResult(call_id="toolu_1", text="1| x", is_error=True),)
        turns = (
            *ASKED.messages,
            Message(role="assistant", raw=reply.raw),
            Message(role="user", text="Go on.", tool_results=results),
        )
        await adapter.complete(ASKED.model_copy(update={"messages": turns}))
        await adapter.close()
    sent = server.calls[1].body["messages"]
    assert sent[1] == {"role": "assistant", "content": content}
    assert sent[2]["content"] == [
        {"type": "tool_result", "tool_use_id": "toolu_1", "content": "1| x", "is_error": True},
        {"type": "text", "text": "Go on."},
    ]


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("end_turn", "end"),
        ("stop_sequence", "end"),
        ("max_tokens", "max_tokens"),
        ("refusal", "refusal"),
        ("pause_turn", "pause"),
        ("model_context_window_exceeded", "context_exceeded"),
        ("of_tomorrow", "unknown"),
    ],
)
async def test_stop_reasons_are_mapped(reason: str, stop: str) -> None:
    with MessagesServer(says("x", reason)) as server:
        assert (await ask(server)).stop == stop


@pytest.mark.parametrize("status", [400, 413])
async def test_too_long_prompt_stops_with_context_exceeded(status: int) -> None:
    with MessagesServer(failure(status, "invalid_request_error", "prompt is too long: 1000001 tokens")) as server:
        assert (await ask(server)).stop == "context_exceeded"


@pytest.mark.parametrize("status", [400, 403, 429])
async def test_billing_error_raises_access_error_for_any_status(status: int) -> None:
    answer = failure(status, "billing_error", "no credit")
    with MessagesServer(answer) as server, pytest.raises(AccessError, match=f"{status}: no credit.*billing"):
        await ask(server)


BROKEN = {
    "no content": Answer(body=json.dumps({"type": "message", "content": None, "stop_reason": "end_turn"}).encode()),
    "no usage": Answer(body=json.dumps({"type": "message", "content": [], "stop_reason": "end_turn"}).encode()),
    "usage of text": message({"type": "text", "text": "x"}, usage={"input_tokens": "many", "output_tokens": None}),
    "text of none": message({"type": "tool_use", "id": None, "name": "submit", "input": {}}),
}


@pytest.mark.parametrize("answer", BROKEN.values(), ids=BROKEN.keys())
async def test_malformed_reply_fails_this_call_and_is_not_free(answer: Answer) -> None:
    with MessagesServer(answer) as server, pytest.raises(CallFailed) as raised:
        await ask(server)
    assert not raised.value.free
    assert KEY not in str(raised.value)


async def test_truncated_tool_input_becomes_empty() -> None:
    cut_off = message({"type": "tool_use", "id": "t", "name": "submit", "input": '{"cau'}, stop="max_tokens")
    with MessagesServer(cut_off) as server:
        reply = await ask(server)
    assert (reply.stop, reply.tool_calls[0].input) == ("max_tokens", {})


def test_connect_timeout_is_free_and_means_unavailable() -> None:
    import anthropic

    from evalscribe.llm.anthropic_errors import map_anthropic_error

    error = make_error(anthropic.APITimeoutError)
    error.__cause__ = httpx2.ConnectTimeout("late")
    failure = map_anthropic_error(error, ASKED_OF)
    assert isinstance(failure, TransientFailure)
    assert failure.free
    assert isinstance(failure.ends_all, UnavailableError)


async def test_lone_surrogate_is_sent_as_a_question_mark() -> None:
    with MessagesServer() as server:
        await ask(server, ASKED.model_copy(update={"messages": (Message(role="user", text="a\ud800b"),)}))
    assert server.calls[0].body["messages"][0]["content"][0]["text"] == "a?b"


async def test_environment_overrides_neither_host_nor_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-other")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "other")
    with MessagesServer() as server:
        await ask(server)
    assert server.calls[0].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("url", ["", "claude.example", "ftp://claude.example", "https://user:pw@claude.example"])
def test_invalid_url_is_refused_without_echoing_its_password(url: str) -> None:
    with pytest.raises(UsageError) as raised:
        model(url)
    assert "pw@" not in str(raised.value)


def every_exception() -> list[type[Exception]]:
    """Return every public exception class of the SDK.

    A function, because importing the SDK takes 1.5 s of CPU, too much for test collection.
    """
    import anthropic

    classes = vars(anthropic).values()
    return [c for c in classes if inspect.isclass(c) and issubclass(c, Exception) and c is not anthropic.AnthropicError]


def make_error(kind: type[Exception]) -> Exception:
    import anthropic

    request = httpx2.Request("POST", "http://127.0.0.1/v1/messages", headers={"authorization": f"Bearer {KEY}"})
    if issubclass(kind, anthropic.APIStatusError):
        status = getattr(kind, "status_code", 500)
        return kind("no", response=httpx2.Response(status, request=request), body=None)
    if issubclass(kind, anthropic.APIResponseValidationError):
        return kind(httpx2.Response(200, request=request), None)
    if issubclass(kind, anthropic.APITimeoutError):
        return kind(request)
    if issubclass(kind, anthropic.APIConnectionError):
        return kind(request=request)
    if issubclass(kind, anthropic.APIError):
        return kind("no", request, body=None)
    return kind("no")


def test_every_sdk_exception_is_mapped_without_the_key() -> None:
    from evalscribe.llm.anthropic_errors import map_anthropic_error

    assert len(every_exception()) > 20
    for kind in every_exception():
        error = map_anthropic_error(make_error(kind), ASKED_OF)
        assert isinstance(error, CallFailed | EvalscribeError), kind
        assert KEY not in str(error), kind


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("3", 3.0), ("0.5", 0.5), ("-1", 0.0), ("", None), ("soon", None), ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0)],
)
def test_retry_after_parses_seconds_and_dates(value: str, seconds: float | None) -> None:
    assert retry_after(httpx2.Headers({"retry-after": value})) == seconds
