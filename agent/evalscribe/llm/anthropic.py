"""One attempt at one answer from Anthropic's Messages API."""

import json
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

from evalscribe.chat import CallFailed, Message, Reply, Request, Stop, ToolCall, Usage
from evalscribe.errors import EvalscribeError, UnavailableError
from evalscribe.llm.attempt import CONNECT_S, attempt, host_of, sendable, without_key
from evalscribe.llm.message_stream import WrittenMessage
from evalscribe.llm.prices import Price
from evalscribe.llm.streaming import Hearing, pieces
from evalscribe.ports import OnText
from evalscribe.settings.connections import as_environment_says
from evalscribe.settings.providers import ANTHROPIC

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic, AsyncStream
    from anthropic.types import Message as Answer
    from anthropic.types import MessageParam, OutputConfigParam, RawMessageStreamEvent, TextBlockParam, ToolParam
    from anthropic.types.message_create_params import MessageCreateParamsNonStreaming, MessageCreateParamsStreaming

CONTEXT_TOKENS = 1_000_000
"""Of every current model of the vendor."""
STOPS: dict[str, Stop] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    "refusal": "refusal",
    "pause_turn": "pause",
    "model_context_window_exceeded": "context_exceeded",
}


class AnthropicModel:
    """A `ports.Model` that tries once: repeating and budgets are for the models that wrap it."""

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
        """Raises `Transient` for what may pass, `CallFailed` for this call, `EvalscribeError` for all."""
        from evalscribe.llm.failures import TooLong

        try:
            if on_text:
                return await self._heard(request, Hearing(on_text))
            return self._reply(await attempt(self._create(request), self._timeout_s, self.failure))
        except TooLong:
            return Reply(text="", stop="context_exceeded", usage=Usage())

    async def _heard(self, request: Request, hearing: Hearing) -> Reply:
        written = WrittenMessage()
        received = pieces(self._stream(request), written, self.host, self._timeout_s, self.failure)
        async with aclosing(received) as texts:
            async for text in texts:
                hearing.say(text)
        reply = self._reply(written)
        hearing.end(reply.text)
        return reply

    def forget(self, request: Request) -> None:
        """Every call is answered anew."""

    async def check(self) -> None:
        """Ask for something that costs nothing. Raises `EvalscribeError` where the host or the key is no good."""
        try:
            answer: object = await attempt(self.client().models.retrieve(self._name), self._timeout_s, self.failure)
        except CallFailed as failure:
            raise UnavailableError(str(failure)) from None
        if isinstance(answer, str):
            raise UnavailableError(f"{self.host} sent a page where an answer belongs")

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
        """The body of the call, on its own or in a batch."""
        params: MessageCreateParamsNonStreaming = {
            "model": self._name,
            "max_tokens": request.max_tokens,
            "messages": [_message(message) for message in request.messages],
            "cache_control": {"type": "ephemeral"},
        }
        if request.system:
            params["system"] = _system(request.system)
        if request.tools:
            params["tools"] = [_tool(tool.name, tool.description, tool.input_schema) for tool in request.tools]
            params["tool_choice"] = {"type": "auto"}
        if config := _output_config(request):
            params["output_config"] = config
        return params

    def failure(self, error: Exception) -> CallFailed | EvalscribeError:
        """What an exception of the SDK means, without the key."""
        from evalscribe.llm.anthropic_errors import mapped
        from evalscribe.llm.failures import Asked

        return without_key(mapped(error, Asked(provider=ANTHROPIC, model=self._name, host=self.host)), self._key)

    def client(self) -> "AsyncAnthropic":
        """The one client of this process, made on the first call; explicit about all that it would else look up."""
        from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient

        from evalscribe.http_limits import limit_answers, model_limits

        if self._client is None:
            with as_environment_says():
                # A redirect would carry the evidence to a host that nobody chose.
                connections = DefaultAsyncHttpxClient(
                    follow_redirects=False, event_hooks={"response": [limit_answers(model_limits)]}
                )
            self._client = AsyncAnthropic(
                api_key=self._key,
                base_url=self._base_url,
                max_retries=0,
                open_telemetry=False,
                http_client=connections,
            )
        return self._client

    def _reply(self, answer: object) -> Reply:
        """Our words for the answer. Raises `CallFailed` where it is a page, half a body or of another shape."""
        from anthropic.types import Message as Answer

        try:
            if isinstance(answer, WrittenMessage):
                return reply_of(Answer.construct(**answer.body()), self._price, counted=answer.counted)
            return reply_of(cast("Answer", answer), self._price)
        except (AttributeError, TypeError, ValueError, KeyError):
            raise CallFailed(f"{self.host} sent something that is not a message") from None


def reply_of(answer: "Answer", price: Price | None, *, counted: bool = True) -> Reply:
    """No call in its usage where it was not `counted`: a stream ended without telling it.

    Raises `AttributeError`, `KeyError`, `TypeError` or `ValueError` where the answer has another shape.
    """
    blocks = _echoable([block.to_dict(mode="json", warnings=False) for block in answer.content])
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
    """Anthropic's input tokens leave out what went through the cache; ours are whole."""
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
    # Half an object comes as text where the answer was cut off; then no field of it is there.
    fields = block["input"] if isinstance(block["input"], dict) else {}
    return ToolCall(id=block["id"], name=block["name"], input=fields)


def _system(text: str) -> "list[TextBlockParam]":
    """With a cache entry of its own, which every conversation with the same tools and instructions shares."""
    return [{"type": "text", "text": sendable(text), "cache_control": {"type": "ephemeral"}}]


def _message(message: Message) -> "MessageParam":
    if message.role == "assistant":
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
        # The vendor's scale begins at low.
        config["effort"] = "low" if request.effort == "minimal" else request.effort
    if request.answer_schema is not None:
        config["format"] = {"type": "json_schema", "schema": request.answer_schema}
    return config


def _tool(name: str, description: str, schema: dict[str, Any]) -> "ToolParam":
    return {"name": name, "description": description, "input_schema": schema, "strict": True}


def _echoable(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same content, without lone surrogates: JSON can spell them, but they can neither be sent nor stored."""
    cleaned: list[dict[str, Any]] = json.loads(sendable(json.dumps(blocks, ensure_ascii=False)))
    return cleaned
