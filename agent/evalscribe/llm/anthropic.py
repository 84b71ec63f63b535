"""Call Anthropic's Messages API. If the answer is streamed, assemble it."""

import json
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

from evalscribe.errors import EvalscribeError, UnavailableError
from evalscribe.llm.attempt import (
    CONNECT_S,
    CallTarget,
    PromptTooLong,
    TextForwarder,
    attempt,
    host_of,
    sendable,
    stream_text,
    without_key,
)
from evalscribe.llm.budget import Price
from evalscribe.model.chat import CallFailed, Message, Reply, Request, StopReason, ToolCall, Usage
from evalscribe.model.protocols import OnText
from evalscribe.settings.access import ANTHROPIC
from evalscribe.settings.http import explain_connection_errors, limit_answers, model_limits

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic, AsyncStream
    from anthropic.types import Message as Answer
    from anthropic.types import MessageParam, OutputConfigParam, RawMessageStreamEvent, TextBlockParam, ToolParam
    from anthropic.types.message_create_params import MessageCreateParamsNonStreaming, MessageCreateParamsStreaming


GROWN = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "input_json_delta": "partial_json",
}
"""For each type of delta in a stream, the field of the content block that the delta extends."""


class StreamedMessage:
    """A `StreamedBody` for the Messages API. Unknown event and delta types are ignored, as the vendor requires."""

    def __init__(self) -> None:
        self.is_complete = False
        self._message: dict[str, Any] = {}
        self.counted = False
        """True once the service has reported the final number of output tokens. The first event of a stream does not
        contain this number."""
        self._blocks: list[dict[str, Any]] = []
        self._grown: dict[tuple[int, str], list[str]] = {}

    def take(self, event: dict[str, Any]) -> str:
        """Process one event of the stream and return the text in it.

        Raises `KeyError`, `IndexError`, `TypeError` or `ValueError` if the event is malformed or out of order.
        """
        match event["type"]:
            case "message_start":
                self._start(event["message"])
            case "content_block_start":
                return self._begin(event["index"], dict(event["content_block"]))
            case "content_block_delta":
                return self._grow(event["index"], event["delta"])
            case "message_delta":
                self._end(event["delta"], event.get("usage") or {})
            case "message_stop":
                self.is_complete = bool(self._message)
            # A server that does not stream sends the whole message.
            case "message":
                self._start(event)
                self._blocks, self.is_complete, self.counted = event["content"], True, True
            case "error":
                raise ValueError("an error in place of an answer")
        return ""

    def body(self) -> dict[str, Any]:
        """Return the assembled message in the form in which a call without streaming returns it."""
        for (index, field), parts in self._grown.items():
            block, text = self._blocks[index], "".join(parts)
            if field == "partial_json":
                block["input"] = _input(text)
            else:
                block[field] = (block.get(field) or "") + text
        self._grown = {}
        return {**self._message, "content": self._blocks}

    def _start(self, message: dict[str, Any]) -> None:
        if self._message:
            raise ValueError("a second message")
        self._message = {**message, "usage": dict(message.get("usage") or {})}

    def _begin(self, index: int, block: dict[str, Any]) -> str:
        if index != len(self._blocks) or not self._message:
            raise ValueError("a block out of place")
        # A separator, because `reply_of` joins the text blocks of the whole message with a line break.
        has_text = any(earlier["type"] == "text" for earlier in self._blocks)
        self._blocks.append(block)
        if block["type"] != "text":
            return ""
        return ("\n" if has_text else "") + str(block["text"])

    def _grow(self, index: int, delta: dict[str, Any]) -> str:
        block = self._blocks[index]
        if delta["type"] == "citations_delta":
            block["citations"] = [*(block.get("citations") or ()), delta["citation"]]
            return ""
        field = GROWN.get(delta["type"])
        if field is None:
            return ""
        text = delta[field]
        if not isinstance(text, str):
            raise TypeError(field)
        # Parts are joined once, at the end. Appending each part to the text would take quadratic time for a long
        # answer.
        self._grown.setdefault((index, field), []).append(text)
        return text if field == "text" else ""

    def _end(self, delta: dict[str, Any], usage: dict[str, Any]) -> None:
        """Update the usage with the totals that the service has sent so far.

        A count that the service omits keeps its last value.
        """
        self._message.update(delta)
        # The first event also has a number of output tokens, but the answer has not been written at that point.
        self.counted = self.counted or usage.get("output_tokens") is not None
        self._message["usage"].update({name: count for name, count in usage.items() if count is not None})


def _input(text: str) -> Any:
    """Parse the JSON input of a tool call. If the JSON is incomplete, return its text unchanged."""
    if not text:
        return {}
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


CONTEXT_TOKENS = 1_000_000
"""Context window, in tokens, of all current Anthropic models."""
STOPS: dict[str, StopReason] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    "refusal": "refusal",
    "pause_turn": "pause",
    "model_context_window_exceeded": "context_exceeded",
}


class AnthropicModel:
    """A `Model` that makes one attempt per call. The models that wrap it add retries and budgets."""

    def __init__(
        self,
        name: str,
        key: str,
        base_url: str = ANTHROPIC.url,
        price: Price | None = None,
        timeout_s: float = 300.0,
    ) -> None:
        self.id = f"anthropic/{name}"
        self.context_tokens = CONTEXT_TOKENS
        self._name = name
        self._key = key
        self._base_url = base_url
        self.host = host_of(base_url, ANTHROPIC.url_name)
        self._price = price
        self._timeout_s = timeout_s
        self._client: AsyncAnthropic | None = None

    async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        """Send the request once.

        Raises `TransientFailure` or `CallFailed` if the problem affects only this call, and `EvalscribeError` if it
        affects all calls.
        """
        # The SDK is imported here, because importing it takes over a second of CPU time, and the limit of the call must
        # not include that.
        self.client()
        try:
            if on_text:
                return await self._stream_reply(request, TextForwarder(on_text))
            return self._reply(await attempt(self._create(request), self._timeout_s, self.failure))
        except PromptTooLong:
            return Reply(text="", stop="context_exceeded", usage=Usage())

    async def _stream_reply(self, request: Request, forwarder: TextForwarder) -> Reply:
        message = StreamedMessage()
        text_stream = stream_text(self._stream(request), message, self.host, self._timeout_s, self.failure)
        async with aclosing(text_stream) as texts:
            async for text in texts:
                forwarder.forward(text)
        reply = self._reply(message)
        forwarder.end(reply.text)
        return reply

    def forget(self, request: Request) -> None:
        """Do nothing, because no answers are cached."""

    async def check(self) -> None:
        """Check the host and the key with a request that costs nothing.

        Raises `EvalscribeError` if the host or the key does not work.
        """
        try:
            answer: object = await attempt(self.client().models.retrieve(self._name), self._timeout_s, self.failure)
        except CallFailed as failure:
            raise UnavailableError(str(failure)) from None
        if isinstance(answer, str):
            raise UnavailableError(f"{self.host} returned HTML instead of JSON")

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()

    async def _create(self, request: Request) -> "Answer":
        from anthropic import Timeout

        timeout = Timeout(self._timeout_s, connect=CONNECT_S)
        return await self.client().messages.create(**self.params(request), timeout=timeout)

    async def _stream(self, request: Request) -> "AsyncStream[RawMessageStreamEvent]":
        from anthropic import Timeout

        timeout = Timeout(self._timeout_s, connect=CONNECT_S)
        params = cast("MessageCreateParamsStreaming", {**self.params(request), "stream": True})
        return await self.client().messages.create(**params, timeout=timeout)

    def params(self, request: Request) -> "MessageCreateParamsNonStreaming":
        """Return the body of the request. A single call and a batch use the same body."""
        params: MessageCreateParamsNonStreaming = {
            "model": self._name,
            "max_tokens": request.max_tokens,
            "messages": [_message(message) for message in request.messages],
            # At the top level, this parameter marks the last block that can be cached, so that the next turn reads the
            # conversation from the cache.
            "cache_control": {"type": "ephemeral"},
        }
        if request.system:
            params["system"] = _system(request.system)
        if request.tools:
            params["tools"] = [_tool(tool.name, tool.description, tool.input_schema) for tool in request.tools]
            # Current models, such as Claude Opus 5.5, reject a request that forces a tool call with status 400.
            params["tool_choice"] = {"type": "auto"}
        if config := _output_config(request):
            params["output_config"] = config
        return params

    def failure(self, error: Exception) -> CallFailed | EvalscribeError:
        """Return the exception to raise in place of an SDK exception. The new exception does not contain the key."""
        from evalscribe.llm.anthropic_errors import map_anthropic_error

        return without_key(
            map_anthropic_error(error, CallTarget(provider=ANTHROPIC, model=self._name, host=self.host)), self._key
        )

    def client(self) -> "AsyncAnthropic":
        """Return the client of this process, created on the first call.

        All settings are passed explicitly, so that the SDK reads no settings from the environment.
        """
        from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient

        if self._client is None:
            with explain_connection_errors():
                # Redirects are not followed, because a redirect could send the evidence to a host that nobody chose.
                connections = DefaultAsyncHttpxClient(
                    follow_redirects=False, event_hooks={"response": [limit_answers(model_limits)]}
                )
            self._client = AsyncAnthropic(
                api_key=self._key,
                base_url=self._base_url,
                # Retries of the SDK would not be charged to the budget, and would follow `retry-after` without a limit.
                max_retries=0,
                open_telemetry=False,
                http_client=connections,
            )
        return self._client

    def _reply(self, answer: object) -> Reply:
        """Convert an answer to a `Reply`. Raises `CallFailed` if the answer is HTML, incomplete or malformed."""
        from anthropic.types import Message as Answer

        try:
            if isinstance(answer, StreamedMessage):
                return reply_of(Answer.construct(**answer.body()), self._price, counted=answer.counted)
            return reply_of(cast("Answer", answer), self._price)
        except (AttributeError, TypeError, ValueError, KeyError):
            raise CallFailed(f"{self.host} sent something that is not a message") from None


def reply_of(answer: "Answer", price: Price | None, *, counted: bool = True) -> Reply:
    """Convert a message to a `Reply`.

    `counted` is False if the message comes from a stream that did not report its usage. The usage of the reply is then
    empty.

    Raises `AttributeError`, `KeyError`, `TypeError` or `ValueError` if the answer is malformed.
    """
    blocks = _echoable([block.to_dict(mode="json", warnings=False) for block in answer.content])
    # The SDK returns a message without a stop reason if the connection breaks in a stream, and if it receives other
    # JSON.
    if answer.stop_reason is None:
        raise ValueError("no stop reason")
    return Reply(
        text="\n".join(str(block["text"]) for block in blocks if block["type"] == "text"),
        tool_calls=tuple(_call(block) for block in blocks if block["type"] == "tool_use"),
        stop=STOPS.get(answer.stop_reason, "unknown"),
        usage=_usage(answer, price) if counted else Usage(),
        raw=blocks,
    )


def _usage(answer: "Answer", price: Price | None) -> Usage:
    """Convert the usage that Anthropic reports. Unlike Anthropic, `Usage` counts cached tokens as input tokens."""
    read = answer.usage.cache_read_input_tokens or 0
    written = answer.usage.cache_creation_input_tokens or 0
    usage = Usage(
        calls=1,
        input_tokens=answer.usage.input_tokens + read + written,
        output_tokens=answer.usage.output_tokens,
        cache_read_tokens=read,
        cache_write_tokens=written,
    )
    return usage.model_copy(update={"cost_usd": price.cost(usage)}) if price else usage


def _call(block: dict[str, Any]) -> ToolCall:
    # If the input of the call was cut off, it is still text. The call then gets an empty input.
    fields = block["input"] if isinstance(block["input"], dict) else {}
    return ToolCall(id=block["id"], name=block["name"], input=fields)


def _system(text: str) -> "list[TextBlockParam]":
    """Return the system prompt as a block with a cache entry of its own.

    All conversations with the same tools and instructions share this cache entry.
    """
    return [{"type": "text", "text": sendable(text), "cache_control": {"type": "ephemeral"}}]


def _message(message: Message) -> "MessageParam":
    if message.role == "assistant":
        # The content is sent back unchanged, because the signatures of thinking blocks are bound to it.
        return {"role": "assistant", "content": message.raw or sendable(message.text)}
    results: list[Any] = [
        {
            "type": "tool_result",
            "tool_use_id": result.call_id,
            "content": sendable(result.text),
            "is_error": result.is_error,
        }
        for result in message.tool_results
    ]
    text: list[Any] = [{"type": "text", "text": sendable(message.text)}] if message.text else []
    return {"role": "user", "content": results + text}


def _output_config(request: Request) -> "OutputConfigParam":
    config: OutputConfigParam = {}
    if request.effort:
        # The vendor's lowest effort is `low`.
        config["effort"] = "low" if request.effort == "minimal" else request.effort
    if request.answer_schema is not None:
        config["format"] = {"type": "json_schema", "schema": request.answer_schema}
    return config


def _tool(name: str, description: str, schema: dict[str, Any]) -> "ToolParam":
    return {"name": name, "description": description, "input_schema": schema, "strict": True}


def _echoable(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Remove lone surrogates from the content of a message."""
    # JSON can contain lone surrogates as escapes, but they cannot be sent or stored.
    cleaned: list[dict[str, Any]] = json.loads(sendable(json.dumps(blocks, ensure_ascii=False)))
    return cleaned
