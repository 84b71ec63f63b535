"""Command and prompt targets, and the parsing of replies."""

import asyncio
import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from shutil import which
from time import perf_counter
from typing import Any

from pydantic import JsonValue, ValidationError

from evalscribe.errors import DataError, UsageError
from evalscribe.experiments.processes import ProcessGroup, end_marked, new_mark, signal_name, user_environment
from evalscribe.ids import canonical_json
from evalscribe.json_data import StrictJson, clean_json, clean_text
from evalscribe.model.chat import CallFailed, Message, Reply, Request, Usage
from evalscribe.model.output_schema import provider_schema
from evalscribe.model.protocols import Model
from evalscribe.model.target import (
    TargetCall,
    TargetFailure,
    TargetMessage,
    TargetPromptVersion,
    TargetReply,
    UnknownVariable,
    fill_template,
)
from evalscribe.model.transcript import (
    AssistantMessage,
    ChatMessage,
    SystemMessage,
    Transcript,
    UserMessage,
    parse_agent_run,
)
from evalscribe.redaction.redact import redact, redact_json
from evalscribe.text import cut, one_line

KEYS = frozenset({"output", "messages", "state", "usage", "model", "error"})
LONGEST_REASON = 500
MOST_USED = 10**12
"""Maximum value of each number in a trial's `usage`. With this limit, JSON readers and databases can represent the
sums over many trials."""


def parse_reply(value: object, *, log: str = "", duration_ms: float = 0.0) -> TargetReply | TargetFailure:
    """Parse a target's reply and redact secrets in it. If the value is not a valid reply, return a failure."""
    try:
        return _reply(redact_json(clean_json(value)), log, duration_ms)
    except DataError as error:
        return failed_reply(f"its reply cannot be read: {error}", log=log, duration_ms=duration_ms)


def failed_reply(reason: str, *, log: str = "", duration_ms: float = 0.0) -> TargetFailure:
    """Build the failure of a target. Secrets in the reason and the log are redacted."""
    return TargetFailure(reason=_reason_line(reason), log=clean_text(redact(log)), duration_ms=duration_ms)


def timeout_reply(timeout_s: float, log: str = "") -> TargetFailure:
    reason = f"no answer within {timeout_s:g} s"
    return TargetFailure(kind="timeout", reason=reason, log=clean_text(redact(log)), duration_ms=timeout_s * 1000)


def parse_output(text: str) -> object:
    """Parse text as JSON. Text that is not JSON is returned unchanged, except that a final line end is removed."""
    try:
        # Readers disagree on text such as `NaN`, `1e999` or `{"a": 1, "a": 2}`, so it is not treated as JSON.
        return StrictJson().decode(text)
    except DataError:
        return text.removesuffix("\n").removesuffix("\r")


def _reply(value: Any, log: str, duration_ms: float) -> TargetReply | TargetFailure:
    common: dict[str, Any] = {"log": clean_text(redact(log)), "duration_ms": duration_ms}
    if not _is_envelope(value):
        return TargetReply(output=value, **common)
    recorded = {"transcript": _transcript(value), "usage": _usage(value.get("usage"))}
    if value.get("error") is not None:
        return TargetFailure(reason=_reason_line(_error_text(value["error"])), **recorded, **common)
    model = value.get("model")
    if model is not None and not isinstance(model, str):
        raise DataError("`model` is not text")
    return TargetReply(output=value["output"], state=_state(value.get("state")), model=model, **recorded, **common)


def _is_envelope(value: object) -> bool:
    # An object with any other key is an answer, not an envelope. So is `{"error": "none found"}`, which has no output.
    return isinstance(value, dict) and "output" in value and value.keys() <= KEYS


def _transcript(value: Mapping[str, Any]) -> Transcript | None:
    messages = value.get("messages")
    if messages is None:
        return None
    if not isinstance(messages, list):
        raise DataError("`messages` is not a list")
    return parse_agent_run({"messages": messages}, "messages").transcripts[0]


def _usage(value: object) -> Usage | None:
    if value is None:
        return None
    try:
        usage = Usage.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        raise DataError(f"`{'.'.join(map(str, ('usage', *first['loc'])))}`: {first['msg']}") from None
    for name, amount in usage:
        if not 0 <= amount <= MOST_USED:
            raise DataError(f"`usage.{name}` is not between 0 and {MOST_USED:,}")
    return usage


def _state(value: object) -> dict[str, JsonValue]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise DataError("`state` is not an object of named snapshots")
    return value


def _error_text(error: object) -> str:
    return error if isinstance(error, str) else json.dumps(error, ensure_ascii=False)


def _reason_line(text: str) -> str:
    return cut(one_line(redact(clean_text(text))), LONGEST_REASON) or "it failed without a reason"


LARGEST = 16 * 1024 * 1024
"""Maximum size of an output, in bytes."""


class CommandTarget:
    """`Target` that runs a command line. Each trial runs in its own process group."""

    def __init__(self, line: str, folder: Path) -> None:
        """Parse the command line. Raises `UsageError` if the command's program is not found."""
        words = split_command(line)
        program = find_program(words, folder)
        self._command = (program, *words[1:])
        self._line = line
        self._folder = folder
        self._mark = new_mark()
        self._running: set[ProcessGroup] = set()

    async def answer(self, call: TargetCall) -> TargetReply | TargetFailure:
        """Run the command. Raises `UsageError` if the command cannot be started."""
        start_time = perf_counter()
        group = await self._start(call)
        try:
            async with asyncio.timeout(call.timeout_s):
                code = await group.wait_for_exit(LARGEST)
        except TimeoutError:
            return timeout_reply(call.timeout_s, group.err.text)
        finally:
            self._running.discard(group)
            await group.end()
        return _command_reply(group, code, (perf_counter() - start_time) * 1000)

    async def close(self) -> None:
        await asyncio.gather(*(group.end() for group in tuple(self._running)))
        # Daemons have left their process group, and their parents have ended.
        await end_marked(self._mark)

    async def _start(self, call: TargetCall) -> ProcessGroup:
        stdin_data = canonical_json(call.input).encode("utf-8", "replace")
        try:
            group = await ProcessGroup.start(
                self._command,
                self._folder,
                stdin_data=stdin_data,
                env={**user_environment(self._mark), **_variables(call)},
            )
        except OSError as error:
            raise UsageError(f"cmd:{self._line} cannot be started: {error.strerror or error}") from None
        self._running.add(group)
        return group


def split_command(line: str) -> tuple[str, ...]:
    """Split a command line into words like a shell. Raises `UsageError` if the line is invalid or empty."""
    try:
        words = tuple(shlex.split(line))
    except ValueError as error:
        raise UsageError(f"cmd:{line} is not a command line: {error}") from None
    if not words:
        raise UsageError("cmd: must be followed by a command")
    return words


def find_program(words: Sequence[str], folder: Path) -> str:
    """Find a command's program on PATH, or in the folder if the program's name has a slash.

    Raises `UsageError` if there is no such program.
    """
    name = words[0]
    path = which(str(folder / name)) if "/" in name else which(name)
    if path is None:
        location = f"in {folder}" if "/" in name else "on PATH"
        raise UsageError(f"cmd:{' '.join(words)}: no executable {name!r} {location}")
    return path


def _command_reply(group: ProcessGroup, code: int | None, duration_ms: float) -> TargetReply | TargetFailure:
    log = group.err.text
    if code is None:
        return failed_reply(f"it wrote more than {LARGEST / 1e6:.1f} MB", log=log, duration_ms=duration_ms)
    if code:
        last_line = next((line for line in reversed(log.splitlines()) if line.strip()), "")
        outcome = f"exit code {code}" if code > 0 else f"ended by {signal_name(-code)}"
        return failed_reply(f"{outcome}: {last_line}" if last_line else outcome, log=log, duration_ms=duration_ms)
    return parse_reply(parse_output(group.out.text), log=log, duration_ms=duration_ms)


def _variables(call: TargetCall) -> Mapping[str, str]:
    """Return the environment variables that describe the call.

    Characters that an environment variable cannot contain are removed or replaced.
    """
    variables = {
        "EVALSCRIBE_IDEMPOTENCY_KEY": call.idempotency_key,
        "EVALSCRIBE_RUN_ID": call.run_id,
        "EVALSCRIBE_ITEM_KEY": call.item_key,
        "EVALSCRIBE_REPETITION": str(call.repetition),
    }
    return {name: value.replace("\0", "").encode("utf-8", "replace").decode() for name, value in variables.items()}


_NO_ANSWER = {
    "max_tokens": "the answer was cut off at {max_tokens} tokens (max_tokens)",
    "refusal": "the model refused to answer",
    "context_exceeded": "prompt and answer exceed the model's context",
    "tool_use": "the model called a tool, although it has none",
}


class PromptModelTarget:
    """`Target` that asks a model with one version of a prompt. Closing the target does not close the model.

    The output is the answer's text. If the text is a JSON object or array, the output is the parsed value. With an
    `output_schema`, the text must be JSON, and the output is always the parsed value.
    """

    def __init__(self, prompt: TargetPromptVersion, model: Model) -> None:
        self._prompt = prompt
        self._model = model

    async def answer(self, call: TargetCall) -> TargetReply | TargetFailure:
        """Ask the model. Raises `EvalscribeError` for errors that affect all calls."""
        start_time = perf_counter()
        try:
            messages = tuple(
                message.model_copy(update={"content": fill_template(message.content, call.input)})
                for message in self._prompt.messages
            )
            reply = await self._model.complete(self._request(messages, call.repetition))
        except UnknownVariable as error:
            return TargetFailure(reason=str(error))
        except CallFailed as error:
            return TargetFailure(reason=redact(error.reason), usage=error.usage, duration_ms=_elapsed_ms(start_time))
        return self._to_reply(messages, reply, _elapsed_ms(start_time))

    async def close(self) -> None:
        return None

    def _request(self, messages: Sequence[TargetMessage], repetition: int) -> Request:
        schema = self._prompt.output_schema
        return Request(
            system="\n\n".join(message.content for message in messages if message.role == "system"),
            messages=tuple(
                Message(role=message.role, text=message.content) for message in messages if message.role != "system"
            ),
            max_tokens=self._prompt.max_tokens,
            effort=self._prompt.effort,
            answer_schema=provider_schema(schema) if schema else None,
            # Each repetition needs its own answer, not the stored answer of the first.
            rollout=repetition - 1,
        )

    def _to_reply(
        self, messages: Sequence[TargetMessage], reply: Reply, duration_ms: float
    ) -> TargetReply | TargetFailure:
        text = redact(clean_text(reply.text))
        recorded: dict[str, Any] = {
            "transcript": Transcript(messages=(*map(_chat_message, messages), AssistantMessage(content=text))),
            "usage": reply.usage,
            "duration_ms": duration_ms,
        }
        if reply.stop in _NO_ANSWER:
            reason = _NO_ANSWER[reply.stop].format(max_tokens=self._prompt.max_tokens)
            return TargetFailure(reason=reason, log=text, **recorded)
        try:
            output = _output(text, always=self._prompt.output_schema is not None)
        except DataError as error:
            return TargetFailure(
                reason=f"the answer must match the prompt's output_schema: {error}", log=text, **recorded
            )
        return TargetReply(output=output, model=self._prompt.model, **recorded)


def _output(text: str, *, always: bool) -> JsonValue:
    """Parse the answer's text.

    With `always`, return the parsed value. Raises `DataError` if the text is not JSON. Without `always`, parse only a
    JSON object or array, and return any other text unchanged.
    """
    try:
        value: Any = StrictJson().decode(text)
    except DataError:
        if always:
            raise
        return text
    # Without a schema, an answer such as `42` or `"x"` is meant as text.
    return value if always or isinstance(value, dict | list) else text


def _chat_message(message: TargetMessage) -> ChatMessage:
    content = redact(clean_text(message.content))
    match message.role:
        case "system":
            return SystemMessage(content=content)
        case "user":
            return UserMessage(content=content)
        case "assistant":
            return AssistantMessage(content=content)


def _elapsed_ms(start_time: float) -> float:
    return (perf_counter() - start_time) * 1000
