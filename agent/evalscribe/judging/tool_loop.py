"""Define tools for a model, and run a conversation with a model and its tools within limits."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from evalscribe.ids import Frozen
from evalscribe.model.chat import CallFailed, Message, Reply, Request, Tool, ToolCall, ToolResult, Usage
from evalscribe.model.protocols import Estimate, Model, OnText

LONGEST_RESULT = 24_000
"""Characters of one tool result."""
SCHEMA_KEYS = ("type", "enum", "description")
CONSTRAINT_WORDS = {
    "minimum": "at least",
    "maximum": "at most",
    "maxLength": "characters at most",
    "minItems": "items at least",
    "maxItems": "items at most",
}


class ToolFields(BaseModel):
    """What one tool is called with.

    The docstring of a subclass tells the model what the tool does. Docstring, field names and descriptions are part of
    the prompt and so of the keys of stored verdicts: whoever edits them has every model asked again.
    """

    model_config = ConfigDict(extra="forbid")


def tool_of(name: str, fields: type[BaseModel]) -> Tool:
    return Tool(name=name, description=(fields.__doc__ or name).strip(), input_schema=strict_schema(fields))


def describe_misuse(error: ValidationError) -> str:
    """What is wrong with a call, for the model."""
    return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()[:10])


def limit_lines(lines: Iterable[str]) -> str:
    """Lines up to the longest result, and a word where there are more."""
    kept: list[str] = []
    room = LONGEST_RESULT
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            return "\n".join([*kept, "[cut here; ask for less at once]"])
        kept.append(line)
    return "\n".join(kept)


def strict_schema(model: type[BaseModel]) -> dict[str, Any]:
    whole = model.model_json_schema()
    strict = _strict(whole, whole.get("$defs", {}))
    # The tool's own description says it already.
    strict.pop("description", None)
    return strict


def _strict(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        named = definitions[schema["$ref"].rpartition("/")[2]]
        schema = {**named, **schema}
    strict = {key: schema[key] for key in SCHEMA_KEYS if key in schema}
    told = "; ".join(f"{words} {schema[key]}" for key, words in CONSTRAINT_WORDS.items() if key in schema)
    if told:
        strict["description"] = f"{strict.get('description', '')} ({told})".strip()
    if schema["type"] == "object":
        fields = {name: _strict(field, definitions) for name, field in schema.get("properties", {}).items()}
        strict |= {"properties": fields, "required": list(fields), "additionalProperties": False}
    if schema["type"] == "array":
        strict["items"] = _strict(schema["items"], definitions)
    return strict


T = TypeVar("T")
MOST_CALLS = 8
"""Tool calls of one answer that are served."""


class TurnBounds(Frozen):
    turns: int = 12
    tokens: int = 400_000
    """Input and output of all turns together, as the model counts them."""
    answer_tokens: int = 8_000
    """Longest single answer, thinking included."""


class Turns:
    """Who is asked, how often, and what it took; used for one conversation."""

    def __init__(self, model: Model, bounds: TurnBounds, last_words: str) -> None:
        """`last_words` are added to the request of the last turn."""
        self.usage = Usage()
        self.last = False
        """Whether the turn that was taken is the last one."""
        self._model = model
        self._bounds = bounds
        self._last_words = last_words
        self._asked: list[Request] = []
        self._longest_input = 0

    async def ask(self, request: Request, on_text: OnText | None = None) -> Reply:
        """The answer of the next turn. Raises `CallFailed`, its usage being counted."""
        self.last = len(self._asked) + 1 >= self._bounds.turns or self._short_of_tokens()
        self._asked.append(_with_words(request, self._last_words) if self.last else request)
        try:
            reply = await self._model.complete(self._asked[-1], on_text)
        except CallFailed as error:
            self.usage += error.usage
            raise
        self.usage += reply.usage
        self._longest_input = max(self._longest_input, reply.usage.input_tokens)
        return reply

    def forget(self) -> None:
        """What was answered led nowhere: who asks the same again is to be answered anew."""
        for request in self._asked:
            self._model.forget(request)

    @property
    def taken(self) -> str:
        """`3 turns and 12,345 tokens`."""
        return f"{len(self._asked)} turns and {self._spent():,} tokens"

    def _spent(self) -> int:
        return self.usage.input_tokens + self.usage.output_tokens

    def _short_of_tokens(self) -> bool:
        """Whether a turn after this one might go over the bound: each turn asks all of the one before again."""
        return self._spent() + 2 * self._longest_input + self._bounds.answer_tokens > self._bounds.tokens


def estimate_conversation(
    first: int, cost: Callable[[Usage], float] | None, *, turns: int, reading: int, answer: int
) -> Estimate:
    """What a conversation may take that begins with `first` tokens and reads `reading` more before each further turn.

    Every turn reads those before it from the provider's cache. `cost` prices one call in dollars.
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


def echo(reply: Reply) -> list[Message]:
    """An answer as the conversation keeps it; nothing for an empty one."""
    if not (reply.raw or reply.text):
        return []
    return [Message(role="assistant", text="" if reply.raw else reply.text, raw=reply.raw)]


def answer_calls(reply: Reply, answer: Callable[[ToolCall], ToolResult | T]) -> Message | T:
    """The results of an answer's tool calls as one turn, or the first that is no result: it ends the conversation."""
    results: list[ToolResult] = []
    for n, call in enumerate(reply.tool_calls):
        result = answer(call) if n < MOST_CALLS else _too_many(call)
        if not isinstance(result, ToolResult):
            return result
        results.append(result)
    return Message(role="user", tool_results=tuple(results))


def _too_many(call: ToolCall) -> ToolResult:
    return ToolResult(call_id=call.id, text=f"At most {MOST_CALLS} calls at once.", is_error=True)


def _with_words(request: Request, words: str) -> Request:
    *before, newest = request.messages
    if newest.role != "user":
        return request
    said = "\n\n".join(filter(None, (newest.text, words)))
    return request.model_copy(update={"messages": (*before, newest.model_copy(update={"text": said}))})
