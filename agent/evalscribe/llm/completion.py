"""Build requests for the chat completions API, and parse its answers and streams.

A `Dialect` describes how the API of a service differs from that of other services.
"""

import json
from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field

from evalscribe.ids import Frozen
from evalscribe.llm.attempt import sendable
from evalscribe.llm.budget import Price
from evalscribe.model.chat import Effort, Message, Reply, Request, StopReason, Tool, ToolCall, ToolResult, Usage
from evalscribe.settings.access import GOOGLE, OPENAI, OPENROUTER, Provider

EFFORTS: tuple[Effort, ...] = ("minimal", "low", "medium", "high", "xhigh", "max")


class Dialect(Frozen):
    limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """Name of the parameter that limits the number of tokens of an answer."""
    strict: bool = False
    """True to send `strict` with the schemas of tools, so that the server enforces them. Some servers might reject this
    field."""
    most_effort: Effort = "high"
    extra: dict[str, Any] = Field(default_factory=dict)
    """Parameters that are sent with every call."""
    structured: dict[str, Any] = Field(default_factory=dict)
    """Parameters that are sent with calls for structured output."""
    check: str = "/models"
    """Path of a request that costs nothing. It is used to check the key."""
    context_tokens: int = 128_000
    """Context window in tokens that is assumed for models. Most models have at least this window. A longer prompt is
    answered with `context_exceeded`."""

    def effort(self, requested: Effort) -> Effort:
        """Return the requested effort, or the highest supported effort if the requested effort is higher."""
        return min(requested, self.most_effort, key=EFFORTS.index)


COMPATIBLE = Dialect(context_tokens=32_768)
"""Dialect of all other servers, such as Ollama, vLLM or llama.cpp. Its context window is small, because some servers
silently truncate a prompt that is too long."""
DIALECTS = {
    OPENAI.name: Dialect(limit="max_completion_tokens", strict=True, most_effort="max"),
    OPENROUTER.name: Dialect(
        strict=True,
        most_effort="xhigh",
        extra={"usage": {"include": True}},
        # Without this parameter, a call can be routed to a host that ignores the schema.
        structured={"provider": {"require_parameters": True}},
        check="/key",
    ),
    GOOGLE.name: Dialect(context_tokens=1_000_000),
}


def dialect_of(provider: Provider, url: str) -> Dialect:
    """Return the dialect for an address of a provider. The address can be that of a gateway or a proxy."""
    if provider.compatible and url != provider.url:
        return COMPATIBLE
    return DIALECTS[provider.name]


STOPS: dict[str, StopReason] = {
    "stop": "end",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
    "safety": "refusal",
    "recitation": "refusal",
    "prohibited_content": "refusal",
    "refusal": "refusal",
}
ECHOED = ("role", "content", "tool_calls", "refusal", "reasoning_details", "extra_content")
"""Fields of an assistant's turn that are sent back to the service. Some services need these fields, and no service
rejects them."""


def messages(request: Request) -> list[dict[str, Any]]:
    turns = [{"role": "system", "content": sendable(request.system)}] if request.system else []
    for message in request.messages:
        for turn in _turns(message):
            if turn["role"] == "user" and turns and turns[-1]["role"] == "user":
                # Chat templates of local models reject two consecutive turns with the same role.
                turns[-1] = {"role": "user", "content": f"{turns[-1]['content']}\n\n{turn['content']}"}
            else:
                turns.append(turn)
    return turns


def _turns(message: Message) -> Iterator[dict[str, Any]]:
    if message.role == "assistant":
        yield message.raw or {"role": "assistant", "content": sendable(message.text)}
        return
    yield from (_result(result) for result in message.tool_results)
    if message.text or not message.tool_results:
        yield {"role": "user", "content": sendable(message.text)}


def _result(result: ToolResult) -> dict[str, Any]:
    text = f"Error: {result.text}" if result.is_error else result.text
    return {"role": "tool", "tool_call_id": result.call_id, "content": sendable(text)}


def tool(offered: Tool, *, strict: bool) -> dict[str, Any]:
    function: dict[str, Any] = {
        "name": offered.name,
        "description": offered.description,
        "parameters": offered.input_schema,
    }
    # A service that enforces schemas rejects a schema that is not suitable for strict mode.
    if strict and is_strict(offered.input_schema):
        function["strict"] = True
    return {"type": "function", "function": function}


def response_format(schema: dict[str, Any]) -> dict[str, Any]:
    json_schema = {"name": "answer", "schema": schema, "strict": is_strict(schema)}
    return {"type": "json_schema", "json_schema": json_schema}


def is_strict(schema: object) -> bool:
    """Return whether a schema is suitable for strict mode.

    In strict mode, every object must forbid additional properties and require all its properties.
    """
    if isinstance(schema, list):
        return all(is_strict(item) for item in schema)
    if not isinstance(schema, dict):
        return True
    if schema.get("type") == "object":
        closed = schema.get("additionalProperties") is False
        if not closed or set(schema.get("properties", {})) != set(schema.get("required", [])):
            return False
    return all(is_strict(value) for value in schema.values())


def to_plain(answer: object) -> dict[str, Any]:
    """Convert an answer of the SDK to a dict.

    Raises `AttributeError` or `TypeError` if the answer is not an object but, for example, HTML.
    """
    if isinstance(answer, dict):
        return answer
    body = answer.to_dict(mode="json", warnings=False)  # type: ignore[attr-defined]
    if not isinstance(body, dict):
        raise TypeError("no object")
    return body


def error_inside(body: dict[str, Any]) -> Any:
    """Return the error that the body of an answer with status 200 contains; None if it contains no error."""
    if body.get("error"):
        return body["error"]
    choices = body.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return first.get("error") if isinstance(first, dict) else None


def reply_of(body: dict[str, Any], price: Price | None) -> Reply:
    """Convert the body of an answer to a `Reply`.

    Raises `AttributeError`, `KeyError`, `IndexError`, `TypeError` or `ValueError` if the body is malformed.
    """
    choice = body["choices"][0]
    message = _echoable(choice["message"])
    calls = tuple(_call(call) for call in message.get("tool_calls", ()))
    return Reply(
        text=text_of(message.get("content")) or message.get("refusal") or "",
        tool_calls=calls,
        stop=_stop(choice["finish_reason"], message),
        usage=usage_of(body, price),
        raw=message,
    )


def usage_of(body: dict[str, Any], price: Price | None) -> Usage:
    """Convert the usage that the service reports. Returns an empty `Usage` if the service reports no usage.

    Raises `TypeError` or `ValueError` if a number is invalid.
    """
    reported = body.get("usage")
    if not reported:
        return Usage()
    prompt, total = _count(reported, "prompt_tokens"), _count(reported, "total_tokens")
    details = reported.get("prompt_tokens_details") or {}
    usage = Usage(
        calls=1,
        input_tokens=prompt,
        # Some services count thinking tokens in the total, but not in the completion tokens.
        output_tokens=max(_count(reported, "completion_tokens"), total - prompt),
        cache_read_tokens=min(prompt, _count(details, "cached_tokens")),
        cache_write_tokens=min(prompt, _count(details, "cache_write_tokens")),
    )
    return usage.model_copy(update={"cost_usd": _cost(reported, usage, price)})


def _cost(reported: dict[str, Any], usage: Usage, price: Price | None) -> float:
    """Return the cost that the service billed.

    If the service does not report a cost, calculate it from the price in our price file.
    """
    billed = reported.get("cost")
    if not isinstance(billed, int | float) or billed < 0:
        return price.cost(usage) if price else 0.0
    # If the service uses the user's own key of the vendor, the vendor sends a separate bill. Its amount is added.
    upstream = (reported.get("cost_details") or {}).get("upstream_inference_cost") if reported.get("is_byok") else 0.0
    return float(billed) + float(upstream or 0.0)


def _count(reported: dict[str, Any], name: str) -> int:
    number = reported.get(name)
    if number is None:
        return 0
    if not isinstance(number, int) or number < 0:
        raise ValueError(name)
    return number


def _stop(reason: object, message: dict[str, Any]) -> StopReason:
    if not isinstance(reason, str):
        raise TypeError("no stop reason")
    if message.get("refusal"):
        return "refusal"
    # Some services append details, as in `content_filter: PROHIBITED_CONTENT`, or write `SAFETY` in capitals.
    stop = STOPS.get(reason.lower().partition(":")[0], "unknown")
    # Some services return tool calls with the finish reason `stop`.
    return "tool_use" if stop == "end" and message.get("tool_calls") else stop


def text_of(content: object) -> str:
    """Return the text in the content of a message. Some services send the content as a list of parts."""
    if isinstance(content, list):
        return "".join(part["text"] for part in content if part.get("type") == "text")
    return content if isinstance(content, str) else ""


def _call(call: dict[str, Any]) -> ToolCall:
    function = call["function"]
    return ToolCall(id=call["id"], name=function["name"], input=_fields(function.get("arguments")))


def _fields(arguments: object) -> dict[str, Any]:
    """Parse the arguments of a tool call.

    Returns an empty object if the arguments were cut off or are not an object.
    """
    try:
        fields = json.loads(arguments) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


def _echoable(message: dict[str, Any]) -> dict[str, Any]:
    """Prepare an assistant's turn for sending it back to the service."""
    echoed = {name: message[name] for name in ECHOED if message.get(name) is not None} | {"role": "assistant"}
    for number, call in enumerate(echoed.get("tool_calls") or (), 1):
        # Some services send calls without ids, but the result of a call must name its id.
        call["id"] = call.get("id") or f"call_{number}"
    if not echoed.get("tool_calls"):
        echoed.pop("tool_calls", None)
        echoed.setdefault("content", "")
    # JSON can contain lone surrogates as escapes, but they cannot be sent or stored.
    cleaned: dict[str, Any] = json.loads(sendable(json.dumps(echoed, ensure_ascii=False)))
    return cleaned


GROWN = ("text", "summary", "data")
"""Fields of a thought to which later chunks of the stream append text."""
LATEST = ("reasoning_details", "tool_calls", "content", "refusal")


class StreamError(Exception):
    """Raised if the service sent an error in place of a chunk of a stream."""

    def __init__(self, error: object) -> None:
        super().__init__("an error in place of a chunk")
        self.error = error


class StreamedCompletion:
    """A `StreamedBody` for chat completions.

    The text of a refusal is not forwarded while it is streamed, because a refusal becomes the answer only if
    there is no other text.
    """

    def __init__(self) -> None:
        self.is_complete = False
        self._content: list[str] = []
        self._refusal: list[str] = []
        self._calls: list[dict[str, Any]] = []
        self._arguments: list[list[str]] = []
        self._thoughts: list[dict[str, Any]] = []
        self._other_fields: dict[str, Any] = {}
        self._stop: Any = None
        self._usage: Any = None

    def take(self, event: dict[str, Any]) -> str:
        """Process one chunk of the stream and return the text in it.

        Raises `StreamError` if the service sent an error, and `AttributeError`, `KeyError` or `TypeError` if the event
        is not a chunk.
        """
        if (error := error_inside(event)) is not None:
            raise StreamError(error)
        # Some services report the usage with every chunk. Each report contains the totals so far.
        self._usage = event.get("usage") or self._usage
        choices = event.get("choices") or ()
        # The chunk that reports the usage has no choices.
        return "".join(self._choice(choice) for choice in choices[:1])

    def body(self) -> dict[str, Any]:
        """Return the assembled completion in the form in which a call without streaming returns it."""
        for call, arguments in zip(self._calls, self._arguments, strict=True):
            call["function"]["arguments"] = "".join(arguments)
            call.pop("index")
        message = {
            **self._other_fields,
            "content": "".join(self._content) if self._content else None,
            "refusal": "".join(self._refusal) or None,
            "tool_calls": self._calls or None,
            "reasoning_details": self._thoughts or None,
        }
        return {"choices": [{"message": message, "finish_reason": self._stop}], "usage": self._usage}

    def _choice(self, choice: dict[str, Any]) -> str:
        self._stop = choice.get("finish_reason") or self._stop
        self.is_complete = self._stop is not None
        # A server that does not stream sends a whole message.
        delta = (choice["delta"] or {}) if "delta" in choice else dict(choice["message"])
        for call in delta.get("tool_calls") or ():
            self._call(call)
        for thought in delta.get("reasoning_details") or ():
            self._think(thought)
        self._other_fields |= {name: value for name, value in delta.items() if value is not None and name not in LATEST}
        if delta.get("refusal"):
            self._refusal.append(delta["refusal"])
        if delta.get("content") is None:
            return ""
        text = text_of(delta["content"])
        # Parts are joined once, at the end, because appending to a long text takes quadratic time.
        self._content.append(text)
        return text

    def _call(self, delta: dict[str, Any]) -> None:
        index, function = delta.get("index"), delta.get("function") or {}
        number = self._number(index, delta.get("id"), function.get("name"))
        call = self._calls[number]
        call["id"] = call["id"] or delta.get("id")
        call["function"]["name"] = call["function"]["name"] or function.get("name")
        if extra := delta.get("extra_content"):
            call["extra_content"] = extra
        if arguments := function.get("arguments"):
            # Some servers send the arguments as an object instead of text.
            self._arguments[number].append(arguments if isinstance(arguments, str) else json.dumps(arguments))

    def _number(self, index: object, call_id: object, name: object) -> int:
        """Return the position in `self._calls` of the tool call that a delta extends or begins."""
        # The index is not enough: some services send 0 for every call, and some send none. Another id, or a name
        # without an index, therefore begins a new call.
        for number in reversed(range(len(self._calls))):
            call = self._calls[number]
            same = not call_id or not call["id"] or call["id"] == call_id
            if call["index"] == index and same and not (index is None and name):
                return number
        self._calls.append({"index": index, "id": None, "type": "function", "function": {"name": None}})
        self._arguments.append([])
        return len(self._calls) - 1

    def _think(self, thought: dict[str, Any]) -> None:
        # Thoughts must be complete, because a signature covers the whole thought.
        last = self._thoughts[-1] if self._thoughts else {}
        ids = {last.get("id"), thought.get("id")} - {None}
        if (
            thought.get("index") is None
            or len(ids) > 1
            or any(last.get(k) != thought.get(k) for k in ("index", "type"))
        ):
            self._thoughts.append(dict(thought))
            return
        for name, value in thought.items():
            if value is not None:
                last[name] = (last.get(name) or "") + value if name in GROWN else value
