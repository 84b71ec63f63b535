"""Read sessions of Codex from files named `rollout-….jsonl`."""

import json
from collections.abc import Iterator, Mapping
from pathlib import PurePath, PureWindowsPath

from evalscribe.errors import DataError
from evalscribe.model.evidence import Document
from evalscribe.sources.recognition import Format
from evalscribe.sources.records import (
    MAX_SESSION_CHARACTERS,
    EvalReader,
    SourceEval,
    SourceRun,
    dicts,
    object_of,
    text_of,
)
from evalscribe.sources.streams import JsonLine, json_lines

NAME = "codex"
_CONTEXT = ("<environment_context>", "# AGENTS.md", "<user_instructions>", "<permissions instructions>")
"""Beginnings of the user messages that Codex itself inserts."""
_LINE_TYPES = ("event_msg", "session_meta", "turn_context", "response_item", "compacted")


class CodexReader(EvalReader):
    """Reads a session of Codex. The eval has the status `incomplete`, because a session has no verdict.

    The file contains every message and command twice. Only the lines of type `response_item` are used for messages and
    commands.
    """

    format = NAME

    def evals(self) -> Iterator[SourceEval]:
        session = _Session()
        size = 0
        stopped = None
        try:
            with self._open(self._path) as reading:
                for line in json_lines(reading):
                    size += line.characters
                    self._line(session, line, size)
        except DataError as error:
            stopped = error
        if session.messages:
            yield session.eval(self._path.stem)
        if stopped:
            raise stopped

    def _line(self, session: "_Session", json_line: JsonLine, size: int) -> None:
        line, place = json_line.value, f"line {json_line.number}"
        if line is None:
            self._omit_line(json_line, place)
        elif line.get("type") not in _LINE_TYPES:
            self._omit(f"a line of type `{text_of(line.get('type'))[:40] or 'unknown'}`", place)
        elif size > MAX_SESSION_CHARACTERS and line.get("type") == "response_item":
            self._omit("a message of a session that is too long", place)
        else:
            unknown = session.take(text_of(line["type"]), object_of(line.get("payload")))
            session.at(text_of(line.get("timestamp")) or None)
            if unknown:
                self._omit(f"an item of type `{unknown[:40]}`", place)


class _Session:
    def __init__(self) -> None:
        self.meta: Mapping[str, object] = {}
        self.model: str | None = None
        self.messages: list[dict[str, object]] = []
        self.usage: Mapping[str, object] = {}
        self.began: str | None = None
        self.ended: str | None = None
        self._function_names: dict[str, str] = {}
        self._thought: list[str] = []

    def at(self, time: str | None) -> None:
        """Record the time of a line, if the line has one."""
        self.began = self.began or time
        self.ended = time or self.ended

    def take(self, kind: str, payload: Mapping[str, object]) -> str | None:
        """Process a line of the session. Returns the type of the line's item if the type is unknown, else None."""
        item = text_of(payload.get("type"))
        if kind == "session_meta":
            # The base instructions become a message instead.
            self.meta = self.meta or {key: payload.get(key) for key in payload if key != "base_instructions"}
            self._say("system", text_of(object_of(payload.get("base_instructions")).get("text")))
        elif kind == "turn_context":
            self.model = self.model or text_of(payload.get("model")) or None
        elif kind == "compacted":
            self._say("system", text_of(payload.get("message")) or "The conversation was compacted.")
        elif kind == "event_msg" and item == "token_count":
            # The counts are running totals, so the last line replaces the ones before it.
            self.usage = object_of(object_of(payload.get("info")).get("total_token_usage")) or self.usage
        elif kind == "response_item":
            return self._item(item, payload)
        return None

    def _item(self, item: str, payload: Mapping[str, object]) -> str | None:
        call = text_of(payload.get("call_id")) or text_of(payload.get("id"))
        if item == "message":
            self._say(text_of(payload.get("role")) or "user", payload.get("content"))
        elif item == "reasoning":
            self._thought += [text for part in dicts(payload.get("summary")) if (text := text_of(part.get("text")))]
        elif item in ("function_call", "custom_tool_call", "local_shell_call", "web_search_call"):
            raw_arguments = payload.get("arguments", payload.get("input", payload.get("action")))
            name = text_of(payload.get("name")) or item.removesuffix("_call")
            self._function_names[call] = name
            arguments = raw_arguments if isinstance(raw_arguments, dict | str) else {}
            # The input of a custom tool is free text and not JSON.
            if item == "custom_tool_call" and isinstance(raw_arguments, str):
                arguments = {"input": raw_arguments}
            self._call({"id": call, "function": name, "arguments": arguments})
        elif item in ("function_call_output", "custom_tool_call_output"):
            self.messages.append(
                {
                    "role": "tool",
                    "tool_call_id": call,
                    "function": self._function_names.get(call),
                    "content": _output(payload.get("output")),
                }
            )
        else:
            return item or "unknown"
        return None

    def _say(self, role: str, content: object) -> None:
        if content:
            message: dict[str, object] = {"role": role, "content": content}
            self.messages.append(self._thinking(message) if role == "assistant" else message)

    def _call(self, call: dict[str, object]) -> None:
        """Add a tool call to the conversation.

        If the last message is from the model and no reasoning followed, the call is added to this message. Otherwise,
        the call is added to a new message.
        """
        last = self.messages[-1] if self.messages else {}
        calls = last.get("tool_calls")
        if last.get("role") == "assistant" and not self._thought:
            last["tool_calls"] = [*(calls if isinstance(calls, list) else []), call]
        else:
            self.messages.append(self._thinking({"role": "assistant", "content": "", "tool_calls": [call]}))

    def _thinking(self, message: dict[str, object]) -> dict[str, object]:
        thought, self._thought = "\n".join(self._thought), []
        return {**message, "reasoning": thought, "model": self.model}

    def eval(self, name: str) -> SourceEval:
        cwd = text_of(self.meta.get("cwd"))
        project = (PureWindowsPath(cwd) if "\\" in cwd else PurePath(cwd)).name
        user_texts = (_content_text(message.get("content")) for message in self.messages if message["role"] == "user")
        return SourceEval(
            run=SourceRun(
                provider=text_of(self.meta.get("model_provider")) or None,
                model=self.model,
                experiment=project or "default",
            ),
            name=text_of(self.meta.get("id")) or name,
            status="incomplete",
            reason="a session has no verdict",
            place=name,
            documents=(
                Document(
                    role="task", path="task", text=next((t for t in user_texts if not t.startswith(_CONTEXT)), "")
                ),
            ),
            conversations=[(None, self.messages)],
            metadata={"session": self.meta, "token_usage": self.usage},
            started_at=self.began,
            ended_at=self.ended,
            input_tokens=self.usage.get("input_tokens"),
            output_tokens=self.usage.get("output_tokens"),
        )


def _content_text(content: object) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(text_of(part.get("text")) for part in dicts(content))


def _output(value: object) -> object:
    """Return the text of a tool's result. Results of custom tools are JSON with the text under the key `output`."""
    if isinstance(value, str) and value.startswith('{"output"'):
        try:
            return text_of(object_of(json.loads(value)).get("output")) or value
        except (ValueError, RecursionError):
            return value
    if isinstance(value, dict):
        return value.get("content") if isinstance(value.get("content"), str | list) else json.dumps(value)
    return value if isinstance(value, str | list) else ""


def _recognise(line: Mapping[str, object] | None) -> str | None:
    if line is None or not line.keys() >= {"timestamp", "type", "payload"} or line["type"] not in _LINE_TYPES:
        return None
    return "its lines have `timestamp`, `type` and `payload`"


FORMATS = (
    Format(
        name=NAME,
        title="Codex sessions",
        open=CodexReader,
        recognise=lambda start, _: _recognise(start.line),
        an_eval="the session",
        passed="never: a session has no verdict",
        versions="0.125.0",
        names=("timestamp", "type", "payload"),
        fields={
            "response_item": "messages, calls of tools and their results",
            "event_msg": "left out: it repeats the messages; the last `token_count` gives the tokens",
            "session_meta": "provider, name, experiment of the run (the folder's name)",
            "turn_context.model": "model of the run",
            "compacted": "a system message",
        },
    ),
)
