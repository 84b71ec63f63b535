"""Render transcripts as lines of text and parse those lines."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from pydantic import Field, JsonValue

from evalscribe.ids import Frozen
from evalscribe.model.transcript import AssistantMessage, ChatMessage, ToolMessage, Transcript, TranscriptToolCall

TurnKind = Literal["says", "thinks", "calls", "fails"]
SAID, ARGUMENT, BLOCK = " " * 2, " " * 4, " " * 6
"""What a line begins with: of a message, of a call's argument, of an argument's text that has several lines."""
MAX_LINE = 200
"""Characters of a line from which a JSON value is shown with one member a line."""
_PLAIN = re.compile(r"[\w.:/@-]+")
_OURS = ("thinks", "calls", "fails")
_NAME = r'(?P<name>[\w.:/@-]+|".*")'
_HEADER = re.compile(
    rf"(?P<number>\d{{1,9}}) (?P<role>system|user|assistant|tool)(?: (?P<kind>{'|'.join(_OURS)}))?(?: {_NAME})?"
)
_CALL = re.compile(f"(?P<kind>calls) {_NAME}")
_ARGUMENT = re.compile(r' {4}(?P<key>[\w.:/@-]+|"(?:\\.|[^"\\])*"):(?: (?P<value>.*))?')
_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|[\[\]{},]')


class TranscriptTurn(Frozen):
    """One thing that was said, thought, called or given back; of an expected call `number` is 0."""

    number: int
    """Of the message, from 1."""
    role: Literal["system", "user", "assistant", "tool"]
    kind: TurnKind = "says"
    name: str | None = None
    """The tool that is called or answers."""
    first: int
    """Line of the header, from 1."""
    last: int
    text: str = ""
    """What was said, without the indentation; of a call its arguments as they stand there."""
    arguments: dict[str, JsonValue] = Field(default_factory=dict)
    places: dict[str, int] = Field(default_factory=dict)
    """The line of each argument."""


def render_transcript(transcript: Transcript) -> str:
    """The whole transcript: the same text for the same messages."""
    turns = (_turn(number, message) for number, message in enumerate(transcript.messages, 1))
    return "\n".join(line for lines in turns for line in lines)


def render_calls(calls: Iterable[TranscriptToolCall]) -> str:
    """Calls that nobody made yet, such as those that were expected, as they would stand in a transcript."""
    return "\n".join(line for call in calls for line in (f"calls {_name(call.function)}", *_arguments(call.arguments)))


def parse_transcript(text: str) -> tuple[TranscriptTurn, ...]:
    """The turns of a text that `render_transcript` made; of any other text what can be understood."""
    return tuple(_turns(text.split("\n"), _HEADER))


def parse_calls(text: str) -> tuple[TranscriptTurn, ...]:
    """The calls of a text that `render_calls` made; of any other text what can be understood."""
    return tuple(_turns(text.split("\n"), _CALL))


def _turn(number: int, message: ChatMessage) -> Iterator[str]:
    head = f"{number} {message.role}"
    if isinstance(message, AssistantMessage):
        yield from _spoken(f"{head} thinks", message.reasoning) if message.reasoning else ()
        yield from _spoken(head, message.content) if message.content or not message.tool_calls else ()
        for call in message.tool_calls:
            yield f"{head} calls {_name(call.function)}"
            yield from _arguments(call.arguments)
        return
    name = f" {_name(message.function)}" if isinstance(message, ToolMessage) and message.function else ""
    error = message.error if isinstance(message, ToolMessage) else None
    yield from _spoken(head + name, message.content) if message.content or error is None else ()
    yield from _spoken(f"{head} fails{name}", error) if error is not None else ()


def _spoken(head: str, text: str) -> Iterator[str]:
    yield head
    if text:
        yield from (SAID + line if line.strip() else "" for part in text.split("\n") for line in _members(part))


def _arguments(arguments: Mapping[str, JsonValue]) -> Iterator[str]:
    for key, value in arguments.items():
        if isinstance(value, str) and "\n" in value:
            yield f"{ARGUMENT}{_name(key)}:"
            yield from (BLOCK + line for line in value.split("\n"))
        else:
            yield f"{ARGUMENT}{_name(key)}: {json.dumps(value, ensure_ascii=False)}"


def _name(name: str) -> str:
    return name if _PLAIN.fullmatch(name) and name not in _OURS else json.dumps(name, ensure_ascii=False)


def _members(line: str) -> Iterator[str]:
    """A long JSON value on one line with a member a line; no character of it is changed."""
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
    starts = [(at, match) for at, line in enumerate(lines) if (match := header.fullmatch(line))]
    ends = [*(at for at, _ in starts[1:]), len(lines)]
    for (at, match), end in zip(starts, ends, strict=False):
        yield _understood(match.groupdict(), at, lines[at + 1 : end])


def _understood(said: Mapping[str, str | None], at: int, below: list[str]) -> TranscriptTurn:
    called = said["kind"] == "calls"
    arguments, places = _read(below, at + 2) if called else ({}, {})
    return TranscriptTurn.model_validate(
        {
            "number": int(said.get("number") or 0),
            "role": said.get("role") or "assistant",
            "kind": said["kind"] or "says",
            "name": _unquoted(said["name"]),
            "first": at + 1,
            "last": at + 1 + len(below),
            "text": "\n".join(line.removeprefix(SAID) for line in below),
            "arguments": arguments,
            "places": places,
        }
    )


def _read(lines: list[str], first: int) -> tuple[dict[str, JsonValue], dict[str, int]]:
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
        read: JsonValue = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return read


def _unquoted(name: str | None) -> str | None:
    read = _value(name) if name and name.startswith('"') else name
    return read if isinstance(read, str) else name
