"""Define agent runs, transcripts and messages.

Parse agent runs in the formats of other tools. Render transcripts as text, and parse such text.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Annotated, Any, Literal
from uuid import uuid4

from pydantic import BeforeValidator, ConfigDict, Field, JsonValue, ValidationError, field_validator, model_validator

from evalscribe.errors import DataError
from evalscribe.ids import Frozen, content_id
from evalscribe.json_data import clean_json

ROLES = ("system", "user", "assistant", "tool")
MAX_PART_TEXT = 200
"""Maximum number of characters of strings in message parts that are not text, such as the data of an image."""
_REASONING = ("reasoning", "thinking", "redacted_thinking")
_Parts = tuple[list[str], list[str], list[dict[str, Any]], list[Any]]


def normalise_role(message: Any) -> Any:
    """Change the role `developer` to `system`. Raises `ValueError` for any other unknown role."""
    if not isinstance(message, dict):
        return message
    role = message.get("role")
    if role == "developer":
        # `spoken by` is not a field of a message, so it is moved into `metadata` and keeps the original role.
        return {**message, "role": "system", "spoken by": role}
    if role not in ROLES:
        problem = f"unknown role {json.dumps(role, default=str)[:60]}" if "role" in message else "no role"
        raise ValueError(f"{problem}; known roles are {', '.join(ROLES)} and developer")
    return message


def move_unknown_fields(value: Mapping[str, Any], known_fields: frozenset[str]) -> dict[str, Any]:
    """Move unknown fields into `metadata`, and drop fields that are null.

    If `metadata` already has a key with the name of the field, the name gets a suffix.
    """
    if value.keys() <= known_fields and None not in value.values():
        return dict(value)
    present = {key: part for key, part in value.items() if part is not None}
    unknown = {key: part for key, part in present.items() if key not in known_fields}
    metadata = present.get("metadata", {})
    if not unknown or not isinstance(metadata, dict):
        return present
    renamed = {key if key not in metadata else f"{key} (field)": part for key, part in unknown.items()}
    return {**{key: part for key, part in present.items() if key in known_fields}, "metadata": {**metadata, **renamed}}


def normalise_agent_run(value: Mapping[str, Any]) -> dict[str, Any]:
    """Normalise an agent run.

    Messages outside a transcript are put into a new transcript. A mapping of transcripts is converted to a list.
    """
    fields = dict(value)
    if "transcripts" not in fields and "messages" in fields:
        fields["transcripts"] = [{"messages": fields.pop("messages")}]
    transcripts = fields.get("transcripts")
    if isinstance(transcripts, dict):
        fields["transcripts"] = [_with_name(name, transcript) for name, transcript in transcripts.items()]
    return fields


def _with_name(name: str, transcript: Any) -> Any:
    return {"name": name, **transcript} if isinstance(transcript, dict) else transcript


def normalise_tool_call(value: Mapping[str, Any]) -> dict[str, Any]:
    """Normalise a tool call.

    The field `function` of `value` can be an object that contains the name and the arguments. The arguments can be
    JSON text.
    """
    fields = dict(value)
    if isinstance(fields.get("function"), dict):
        function = dict(fields.pop("function"))
        fields = {**fields, "function": function.pop("name", None), **function}
    # The type `function` is the usual one and says nothing. Any other type is kept in `metadata`.
    if fields.get("type") == "function":
        del fields["type"]
    if isinstance(fields.get("arguments"), str):
        fields["arguments"] = _parse_arguments(fields["arguments"])
    return fields


def _parse_arguments(text: str) -> dict[str, Any]:
    try:
        arguments = json.loads(text or "{}")
    except (ValueError, RecursionError):
        # A model can write arguments that are not valid JSON. They are kept as text, so that a judge sees them.
        arguments = text
    return arguments if isinstance(arguments, dict) else {"arguments": arguments}


def normalise_tool_result(value: Mapping[str, Any]) -> dict[str, Any]:
    """Normalise a message with the result of a tool.

    The name of the tool is read from `function` or `name`, and the error is converted to text.
    """
    fields = dict(value)
    if "function" not in fields and isinstance(fields.get("name"), str):
        fields["function"] = fields.pop("name")
    error = fields.get("error")
    if isinstance(error, dict) and isinstance(error.get("message"), str) and error.keys() <= {"type", "message"}:
        fields["error"] = f"{error['type']}: {error['message']}" if error.get("type") else error["message"]
    elif error is not None and not isinstance(error, str):
        fields["error"] = json.dumps(error, ensure_ascii=False, default=str)
    return fields


def join_content(value: Mapping[str, Any], *, with_reasoning: bool) -> dict[str, Any]:
    """Join a message's content into one text.

    Parts that are not text are replaced by placeholders and moved into `metadata`. Reasoning is put into the field
    `reasoning` if `with_reasoning` is true; otherwise, it becomes part of the text.
    """
    fields = dict(value)
    if with_reasoning and isinstance(fields.get("reasoning_content"), str):
        fields.setdefault("reasoning", fields.pop("reasoning_content"))
    if not isinstance(fields.get("content"), list):
        return fields
    texts, reasoning, calls, other_parts = _parts(fields["content"])
    # Only messages of the assistant have a field for reasoning. In other messages, it is part of the text.
    fields["content"] = "\n".join(texts if with_reasoning else [*reasoning, *texts])
    if with_reasoning and reasoning:
        fields["reasoning"] = "\n".join([*filter(None, [fields.get("reasoning")]), *reasoning])
    tool_calls = fields.get("tool_calls") or []
    if calls and isinstance(tool_calls, list):
        fields["tool_calls"] = [*tool_calls, *calls]
    metadata = fields.get("metadata") or {}
    if other_parts and isinstance(metadata, dict):
        fields["metadata"] = {**metadata, "parts" if "parts" not in metadata else "parts (content)": other_parts}
    return fields


def _parts(content: list[Any]) -> _Parts:
    """Split the content of a message into texts, reasoning, tool calls, and all other parts.

    The other parts are shortened.
    """
    parts: _Parts = ([], [], [], [])
    texts, reasoning, calls, other_parts = parts
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else None
        if isinstance(part, str):
            texts.append(part)
        elif kind in ("text", "input_text", "output_text", None) and isinstance(_of(part, "text"), str):
            texts.append(part["text"])
        elif kind in _REASONING:
            reasoning.append(_reasoning(part))
        elif kind == "tool_use":
            calls.append({"id": part.get("id"), "function": part.get("name"), "arguments": part.get("input")})
        else:
            texts.append(_placeholder(part, kind))
            other_parts.append(_short(part))
    return parts


def _of(part: Any, key: str) -> Any:
    return part.get(key) if isinstance(part, dict) else None


def _reasoning(part: Mapping[str, Any]) -> str:
    hidden = part.get("redacted") or part["type"] == "redacted_thinking"
    # The other fields of hidden reasoning contain encrypted text.
    texts = [part.get("summary")] if hidden else [part.get(key) for key in ("reasoning", "thinking", "text", "summary")]
    return next((text for text in texts if isinstance(text, str) and text), "[reasoning withheld]")


def _placeholder(part: Any, kind: Any) -> str:
    """Return a placeholder, such as `[image]`, for a part that is not text.

    If the part is a tool's result, return the text of the result.
    """
    if kind == "tool_result":
        inner = part.get("content")
        return inner if isinstance(inner, str) else "\n".join(_parts(inner)[0]) if isinstance(inner, list) else ""
    name = kind if isinstance(kind, str) and kind else "part"
    return "[image]" if "image" in name else f"[{name[:40]}]"


def _short(part: Any) -> Any:
    """Shorten the long strings in a message part that is not text."""
    if isinstance(part, dict):
        return {key: _short(inner) for key, inner in part.items()}
    if isinstance(part, list):
        return [_short(inner) for inner in part]
    if isinstance(part, str) and len(part) > MAX_PART_TEXT:
        return f"{part[:40]}… ({len(part)} characters)"
    return part


def _new_id() -> str:
    return str(uuid4())


class _NormalisedModel(Frozen):
    """Base class of values that keep unknown fields in `metadata`, where judges can see them.

    A field that is null gets its default.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", coerce_numbers_to_str=True)

    metadata: dict[str, JsonValue] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _as_written(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return move_unknown_fields(cls._normalised(value), _names(cls))

    @classmethod
    def _normalised(cls, value: dict[str, Any]) -> dict[str, Any]:
        """Return a copy of `value` in evalscribe's own format."""
        return value


@cache
def _names(shape: type[_NormalisedModel]) -> frozenset[str]:
    """Return the names of the fields of a pydantic model.

    The result is cached, because every message needs these names and pydantic returns them slowly.
    """
    return frozenset(shape.model_fields)


class TranscriptToolCall(_NormalisedModel):
    """A tool call in an assistant's message."""

    id: str = ""
    function: str
    arguments: dict[str, JsonValue] = Field(default_factory=dict)

    @classmethod
    def _normalised(cls, value: dict[str, Any]) -> dict[str, Any]:
        return normalise_tool_call(value)


class _Message(_NormalisedModel):
    """Base class of messages, for all roles."""

    content: str = ""
    """Text of the message. If the content is a list of parts, they are joined. An image becomes `[image]`, and its
    shortened data is stored in `metadata["parts"]`."""
    id: str | None = None

    @classmethod
    def _normalised(cls, value: dict[str, Any]) -> dict[str, Any]:
        return join_content(value, with_reasoning=False)


class SystemMessage(_Message):
    role: Literal["system"] = "system"


class UserMessage(_Message):
    role: Literal["user"] = "user"


class AssistantMessage(_Message):
    role: Literal["assistant"] = "assistant"
    reasoning: str = ""
    """All reasoning in the message, in order."""
    model: str | None = None
    tool_calls: tuple[TranscriptToolCall, ...] = ()

    @classmethod
    def _normalised(cls, value: dict[str, Any]) -> dict[str, Any]:
        return join_content(value, with_reasoning=True)


class ToolMessage(_Message):
    role: Literal["tool"] = "tool"
    tool_call_id: str | None = None
    function: str | None = None
    error: str | None = None

    @classmethod
    def _normalised(cls, value: dict[str, Any]) -> dict[str, Any]:
        return normalise_tool_result(join_content(value, with_reasoning=False))


ChatMessage = Annotated[
    Annotated[SystemMessage | UserMessage | AssistantMessage | ToolMessage, Field(discriminator="role")],
    BeforeValidator(normalise_role),
]


class Transcript(_NormalisedModel):
    id: str = Field(default_factory=_new_id)
    name: str | None = None
    messages: tuple[ChatMessage, ...] = ()


class AgentRun(_NormalisedModel):
    """One eval with its transcripts. By convention, the eval's scores are in `metadata["scores"]`."""

    id: str = Field(default_factory=_new_id)
    name: str | None = None
    transcripts: tuple[Transcript, ...]
    """Transcripts of the agent run. There is at least one."""

    @field_validator("transcripts")
    @classmethod
    def _some(cls, transcripts: tuple[Transcript, ...]) -> tuple[Transcript, ...]:
        if not transcripts:
            raise ValueError("an agent run must have at least one transcript")
        return transcripts

    @classmethod
    def _normalised(cls, value: dict[str, Any]) -> dict[str, Any]:
        return normalise_agent_run(value)

    @property
    def digest(self) -> str:
        """Content id of everything that a judge can see.

        Ids of agent runs, transcripts and messages are not part of it.
        """
        messages: Any = {"__all__": {"id": True}}
        unseen: Any = {"id": True, "transcripts": {"__all__": {"id": True, "messages": messages}}}
        return content_id(self.model_dump(mode="json", exclude=unseen))


MAX_PROBLEMS = 3


def parse_agent_run(text: str | Mapping[str, Any], location: str) -> AgentRun:
    """Parse one agent run from a JSON object or its text.

    Secrets and characters that cannot be stored are replaced. Raises `DataError` with the place of the problem, such as
    `runs.json: transcripts[0].messages[2]: no role`.
    """
    value = _json(text, location) if isinstance(text, str) else text
    if not isinstance(value, Mapping):
        raise DataError(f"{location}: an agent run is a JSON object with transcripts, not {_kind(value)}")
    try:
        from evalscribe.redaction.redact import redact_json  # imported here because the import is slow

        return AgentRun.model_validate(redact_json(clean_json(dict(value))))
    except DataError as error:
        raise DataError(f"{location}: {error}") from None
    except ValidationError as error:
        raise DataError(f"{location}: {_problems_text(error)}") from None
    except RecursionError:
        raise DataError(f"{location}: is nested too deeply") from None


def parse_agent_runs(text: str, location: str) -> list[AgentRun]:
    """Parse all agent runs in a file.

    The file contains one JSON object, a list of objects, or one object per line. Raises `DataError` if the file is
    invalid.
    """
    # `json.loads` refuses a byte order mark.
    text = text.removeprefix("\ufeff")
    values = _values(text, location)
    if not values:
        raise DataError(f"{location}: contains no agent run")
    return [parse_agent_run(value, place) for place, value in values]


def _values(text: str, location: str) -> list[tuple[str, Any]]:
    """Return the JSON values in a file, each with its place for error messages."""
    # `splitlines` would also split at characters such as U+2028, which strings in JSON may contain.
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if len(lines) > 1 and _is_json_object(lines[0][1]):
        return [(f"{location}:{number}", _json(line, f"{location}:{number}")) for number, line in lines]
    value = _json(text, location) if lines else []
    return (
        [(f"{location}[{n}]", part) for n, part in enumerate(value)] if isinstance(value, list) else [(location, value)]
    )


def _is_json_object(line: str) -> bool:
    """Return whether a line is a complete JSON object.

    If the first line of a file is such an object, the file has one object per line.
    """
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _json(text: str, location: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(f"{location}: no JSON at line {error.lineno}, column {error.colno}: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{location}: no JSON that can be read: {error}"[:300]) from None


def _problems_text(error: ValidationError) -> str:
    problems = [f"{_path(problem['loc'])}: {_message(problem['msg'])}" for problem in error.errors(include_input=False)]
    more = f" (and {len(problems) - MAX_PROBLEMS} more)" if len(problems) > MAX_PROBLEMS else ""
    return "; ".join(problems[:MAX_PROBLEMS]) + more


def _message(message: str) -> str:
    return message.removeprefix("Value error, ")


def _path(location: tuple[int | str, ...]) -> str:
    """Format the place of a problem, such as `transcripts[0].messages[3].content`.

    The role that pydantic inserts into the place is left out.
    """
    path = ""
    for previous, part in zip(("", *location), location, strict=False):
        if isinstance(part, int):
            path += f"[{part}]"
        elif not (part in ROLES and isinstance(previous, int)):
            path += f".{part}" if path else part
    return path or "agent run"


def _kind(value: object) -> str:
    return {list: "a list", str: "a string", type(None): "null"}.get(type(value), "no object")


TurnKind = Literal["says", "thinks", "calls", "fails"]
TEXT, ARGUMENT, BLOCK = " " * 2, " " * 4, " " * 6
"""Indentation of three kinds of line: the text of a message, an argument of a call, and the lines of an argument that
has several lines."""
MAX_LINE = 200
"""Maximum number of characters of a line with a JSON value. If the value is longer, it is rendered with one member per
line."""
_PLAIN = re.compile(r"[\w.:/@-]+")
_TURN_KINDS = ("thinks", "calls", "fails")
_NAME = r'(?P<name>[\w.:/@-]+|".*")'
_HEADER = re.compile(
    # The number is limited to 9 digits, because `int` raises an error for more than 4,300 digits.
    rf"(?P<number>\d{{1,9}}) (?P<role>system|user|assistant|tool)(?: (?P<kind>{'|'.join(_TURN_KINDS)}))?(?: {_NAME})?"
)
_CALL = re.compile(f"(?P<kind>calls) {_NAME}")
_ARGUMENT = re.compile(r' {4}(?P<key>[\w.:/@-]+|"(?:\\.|[^"\\])*"):(?: (?P<value>.*))?')
_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|[\[\]{},]')


class TranscriptTurn(Frozen):
    """One turn in a transcript: a message, reasoning, a tool call or a tool result. Also used for an expected call."""

    number: int
    """Number of the message in the transcript, from 1. It is 0 for an expected call."""
    role: Literal["system", "user", "assistant", "tool"]
    kind: TurnKind = "says"
    name: str | None = None
    """Name of the tool that is called or that returned the result."""
    first: int
    """Number of the line with the turn's header, from 1."""
    last: int
    text: str = ""
    """Text of the turn without indentation. For a call, this is the rendered arguments."""
    arguments: dict[str, JsonValue] = Field(default_factory=dict)
    places: dict[str, int] = Field(default_factory=dict)
    """Number of the line on which each argument begins."""


def render_transcript(transcript: Transcript) -> str:
    """Render a transcript as text. Equal messages are rendered as equal text."""
    turns = (_turn(number, message) for number, message in enumerate(transcript.messages, 1))
    return "\n".join(line for lines in turns for line in lines)


def render_calls(calls: Iterable[TranscriptToolCall]) -> str:
    """Render tool calls, such as expected calls, in the form in which they appear in a transcript."""
    return "\n".join(
        line for call in calls for line in (f"calls {_name(call.function)}", *_argument_lines(call.arguments))
    )


def parse_transcript(text: str) -> tuple[TranscriptTurn, ...]:
    """Parse a text that `render_transcript` returned. In any other text, only lines that look like turns are parsed."""
    return tuple(_turns(text.split("\n"), _HEADER))


def parse_calls(text: str) -> tuple[TranscriptTurn, ...]:
    """Parse a text that `render_calls` returned. In any other text, only lines that look like calls are parsed."""
    return tuple(_turns(text.split("\n"), _CALL))


def _turn(number: int, message: ChatMessage) -> Iterator[str]:
    head = f"{number} {message.role}"
    if isinstance(message, AssistantMessage):
        yield from _message_lines(f"{head} thinks", message.reasoning) if message.reasoning else ()
        # A message without text and calls still gets a header, so that every message has a place.
        yield from _message_lines(head, message.content) if message.content or not message.tool_calls else ()
        for call in message.tool_calls:
            yield f"{head} calls {_name(call.function)}"
            yield from _argument_lines(call.arguments)
        return
    name = f" {_name(message.function)}" if isinstance(message, ToolMessage) and message.function else ""
    error = message.error if isinstance(message, ToolMessage) else None
    yield from _message_lines(head + name, message.content) if message.content or error is None else ()
    yield from _message_lines(f"{head} fails{name}", error) if error is not None else ()


def _message_lines(head: str, text: str) -> Iterator[str]:
    yield head
    if text:
        # The indentation keeps a text from forging a header, such as `9 assistant calls refund`.
        yield from (TEXT + line if line.strip() else "" for part in text.split("\n") for line in _members(part))


def _argument_lines(arguments: Mapping[str, JsonValue]) -> Iterator[str]:
    for key, value in arguments.items():
        if isinstance(value, str) and "\n" in value:
            yield f"{ARGUMENT}{_name(key)}:"
            yield from (BLOCK + line for line in value.split("\n"))
        else:
            yield f"{ARGUMENT}{_name(key)}: {json.dumps(value, ensure_ascii=False)}"


def _name(name: str) -> str:
    # Without quotes, a tool named `calls` would be read as the kind of the turn.
    return name if _PLAIN.fullmatch(name) and name not in _TURN_KINDS else json.dumps(name, ensure_ascii=False)


def _members(line: str) -> Iterator[str]:
    """Split a long JSON value into lines with one member each. Nothing is lost except whitespace at line ends."""
    if len(line) <= MAX_LINE or line[:1] not in "[{":
        yield line
        return
    depth, start = 0, 0
    for token in _TOKEN.finditer(line):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)
        if token[0] == "," and depth == 1:
            yield line[start : token.end()].strip()
            start = token.end()
    yield line[start:].strip()


def _turns(lines: list[str], header: re.Pattern[str]) -> Iterator[TranscriptTurn]:
    starts = [(index, match) for index, line in enumerate(lines) if (match := header.fullmatch(line))]
    ends = [*(index for index, _ in starts[1:]), len(lines)]
    for (index, match), end in zip(starts, ends, strict=False):
        yield _parse_turn(match.groupdict(), index, lines[index + 1 : end])


def _parse_turn(head: Mapping[str, str | None], index: int, below: list[str]) -> TranscriptTurn:
    called = head["kind"] == "calls"
    arguments, places = _parse_call(below, index + 2) if called else ({}, {})
    return TranscriptTurn.model_validate(
        {
            "number": int(head.get("number") or 0),
            "role": head.get("role") or "assistant",
            "kind": head["kind"] or "says",
            "name": _unquoted(head["name"]),
            "first": index + 1,
            "last": index + 1 + len(below),
            "text": "\n".join(line.removeprefix(TEXT) for line in below),
            "arguments": arguments,
            "places": places,
        }
    )


def _parse_call(lines: list[str], first: int) -> tuple[dict[str, JsonValue], dict[str, int]]:
    arguments: dict[str, JsonValue] = {}
    places: dict[str, int] = {}
    block: list[str] = []
    for number, line in enumerate(lines, first):
        if match := _ARGUMENT.fullmatch(line):
            key = _unquoted(match["key"]) or ""
            places[key] = number
            arguments[key] = _value(match["value"]) if match["value"] is not None else ""
            block = []
        elif places and line.startswith(BLOCK):
            block.append(line.removeprefix(BLOCK))
            arguments[key] = "\n".join(block)
    return arguments, places


def _value(text: str) -> JsonValue:
    try:
        value: JsonValue = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value


def _unquoted(name: str | None) -> str | None:
    value = _value(name) if name and name.startswith('"') else name
    return value if isinstance(value, str) else name
