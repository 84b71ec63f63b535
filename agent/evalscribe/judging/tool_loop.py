"""Define tools for a model, and run a conversation in which the model uses them, within limits."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from evalscribe.ids import Frozen
from evalscribe.model.chat import CallFailed, Message, Reply, Request, Tool, ToolCall, ToolResult, Usage
from evalscribe.model.protocols import Estimate, Model, OnText

LONGEST_RESULT = 24_000
"""Maximum characters of one tool result."""
SCHEMA_KEYS = ("type", "enum", "description")
# Providers do not enforce such limits in a strict schema, so the description states them.
CONSTRAINT_WORDS = {
    "minimum": "at least",
    "maximum": "at most",
    "maxLength": "characters at most",
    "minItems": "items at least",
    "maxItems": "items at most",
}


class ToolFields(BaseModel):
    """Base class for the arguments of a tool.

    The docstring of a subclass describes the tool to the model. Docstring, field names and descriptions are part of the
    prompt, and the keys of stored verdicts depend on the prompt. After a change, no stored verdict is reused.
    """

    model_config = ConfigDict(extra="forbid")


def tool_of(name: str, fields: type[BaseModel]) -> Tool:
    return Tool(name=name, description=(fields.__doc__ or name).strip(), input_schema=strict_schema(fields))


def describe_misuse(error: ValidationError) -> str:
    """Describe to the model what is wrong with the arguments of its tool call."""
    return "; ".join(f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in error.errors()[:10])


def limit_lines(lines: Iterable[str]) -> str:
    """Return the lines that fit in one tool result, with a note if some did not fit."""
    fitting_lines: list[str] = []
    room = LONGEST_RESULT
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            return "\n".join([*fitting_lines, "[cut here; ask for less at once]"])
        fitting_lines.append(line)
    return "\n".join(fitting_lines)


def strict_schema(model: type[BaseModel]) -> dict[str, Any]:
    schema = model.model_json_schema()
    strict = _strict(schema, schema.get("$defs", {}))
    # The description of the tool already contains this text.
    strict.pop("description", None)
    return strict


def _strict(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        definition = definitions[schema["$ref"].rpartition("/")[2]]
        # The description of a field takes precedence over that of its definition.
        schema = {**definition, **schema}
    strict = {key: schema[key] for key in SCHEMA_KEYS if key in schema}
    constraints = "; ".join(f"{words} {schema[key]}" for key, words in CONSTRAINT_WORDS.items() if key in schema)
    if constraints:
        strict["description"] = f"{strict.get('description', '')} ({constraints})".strip()
    if schema["type"] == "object":
        fields = {name: _strict(field, definitions) for name, field in schema.get("properties", {}).items()}
        strict |= {"properties": fields, "required": list(fields), "additionalProperties": False}
    if schema["type"] == "array":
        strict["items"] = _strict(schema["items"], definitions)
    return strict


T = TypeVar("T")
MOST_CALLS = 8
"""Maximum number of tool calls that are answered per reply."""


class TurnBounds(Frozen):
    turns: int = 12
    tokens: int = 400_000
    """Maximum input and output tokens of all turns together, as the provider counts them."""
    answer_tokens: int = 8_000
    """Maximum tokens of a single answer, including thinking."""


class Turns:
    """Asks a model for the turns of one conversation within limits, and counts their usage."""

    def __init__(self, model: Model, bounds: TurnBounds, last_message: str) -> None:
        """Initialise the conversation. `last_message` is appended to the request of the last turn."""
        self.usage = Usage()
        self.last = False
        """True if the current turn is the conversation's last."""
        self._model = model
        self._bounds = bounds
        self._last_message = last_message
        self._requests: list[Request] = []
        self._longest_input = 0

    async def ask(self, request: Request, on_text: OnText | None = None) -> Reply:
        """Ask for the next turn and return the model's answer.

        Raises `CallFailed` after counting the usage of the failed call.
        """
        self.last = len(self._requests) + 1 >= self._bounds.turns or self._short_of_tokens()
        self._requests.append(_append_text(request, self._last_message) if self.last else request)
        try:
            reply = await self._model.complete(self._requests[-1], on_text)
        except CallFailed as error:
            self.usage += error.usage
            raise
        self.usage += reply.usage
        self._longest_input = max(self._longest_input, reply.usage.input_tokens)
        return reply

    def forget(self) -> None:
        """Delete the answers of this conversation from the cache, because the conversation had no result."""
        for request in self._requests:
            self._model.forget(request)

    @property
    def taken(self) -> str:
        """Number of turns and tokens so far, as text: `3 turns and 12,345 tokens`."""
        return f"{len(self._requests)} turns and {self._total_tokens():,} tokens"

    def _total_tokens(self) -> int:
        return self.usage.input_tokens + self.usage.output_tokens

    def _short_of_tokens(self) -> bool:
        """Return whether one more turn might exceed the token limit. All earlier turns are sent again in every turn."""
        return self._total_tokens() + 2 * self._longest_input + self._bounds.answer_tokens > self._bounds.tokens


def estimate_conversation(
    first: int, cost: Callable[[Usage], float] | None, *, turns: int, reading: int, answer: int
) -> Estimate:
    """Estimate the tokens and the cost of a conversation of `turns` turns.

    The first turn has `first` input tokens, each further turn adds `reading` input tokens, and each answer has `answer`
    tokens. Each turn reads the earlier turns from the provider's cache. `cost` returns the price of one call in US
    dollars.
    """
    calls = [
        Usage(
            calls=1,
            input_tokens=first + turn * reading,
            output_tokens=answer,
            cache_read_tokens=(first + (turn - 1) * reading) if turn else 0,
            cache_write_tokens=reading if turn else first,
        )
        for turn in range(turns)
    ]
    return Estimate(
        input_tokens=sum(usage.input_tokens for usage in calls),
        output_tokens=sum(usage.output_tokens for usage in calls),
        cost_usd=sum(map(cost, calls)) if cost else None,
    )


def reply_messages(reply: Reply) -> list[Message]:
    """Return an answer as messages of the conversation. An empty answer gives no messages."""
    if not (reply.raw or reply.text):
        return []
    # The provider's own blocks are sent back unchanged, because altered thinking blocks are rejected.
    return [Message(role="assistant", text="" if reply.raw else reply.text, raw=reply.raw)]


def answer_calls(reply: Reply, answer: Callable[[ToolCall], ToolResult | T]) -> Message | T:
    """Answer all tool calls of a reply and return the results as one message.

    Calls beyond the first `MOST_CALLS` are answered with an error. If `answer` returns a value that is not a
    `ToolResult`, return this value immediately.
    """
    results: list[ToolResult] = []
    for n, call in enumerate(reply.tool_calls):
        # Providers require a result for every tool call, so further calls are refused, not ignored.
        result = answer(call) if n < MOST_CALLS else _refuse_call(call)
        if not isinstance(result, ToolResult):
            return result
        results.append(result)
    return Message(role="user", tool_results=tuple(results))


def _refuse_call(call: ToolCall) -> ToolResult:
    return ToolResult(call_id=call.id, text=f"At most {MOST_CALLS} calls at once.", is_error=True)


def _append_text(request: Request, addition: str) -> Request:
    *earlier, newest = request.messages
    # After a pause, the newest message is the model's own.
    if newest.role != "user":
        return request
    text = "\n\n".join(filter(None, (newest.text, addition)))
    return request.model_copy(update={"messages": (*earlier, newest.model_copy(update={"text": text}))})
