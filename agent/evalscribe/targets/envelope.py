"""What a target gave, as an answer: one rule for Python, HTTP and commands.

A JSON object with `output` and no keys but `messages state usage model error` is an envelope: `output` is the answer,
the rest tells how it came about. Everything else is the answer itself. So an answer that looks like an envelope has to
stand in one: `{"output": {"output": 1}}`. With an `error` that is not null, the try failed for that reason.

- `messages`: a list of messages with `role` and `content`, and calls of tools, as agent runs have them
- `state`: an object of named snapshots
- `usage`: `input_tokens`, `output_tokens`, `calls`, `cache_read_tokens`, `cache_write_tokens`, `cost_usd`
- `model`: text
"""

import json
from collections.abc import Mapping
from typing import Any

from pydantic import JsonValue, ValidationError

from evalscribe.errors import DataError
from evalscribe.json_data import StrictJson, clean_json, clean_text
from evalscribe.model.chat import Usage
from evalscribe.model.target import TargetFailure, TargetReply
from evalscribe.model.transcript import Transcript, parse_agent_run
from evalscribe.redaction.redact import redact, redact_json
from evalscribe.text import cut, one_line

KEYS = frozenset({"output", "messages", "state", "usage", "model", "error"})
LONGEST_REASON = 500
MOST_USED = 10**12
"""Of each in `usage`, for one try: sums of them stay numbers that every reader of JSON and every database knows."""


def reply(value: object, *, log: str = "", duration_ms: float = 0.0) -> TargetReply | TargetFailure:
    """Of a JSON value, without what is secret. An envelope that cannot be read is a failed try."""
    try:
        return _reply(redact_json(clean_json(value)), log, duration_ms)
    except DataError as error:
        return failed(f"its reply cannot be read: {error}", log=log, duration_ms=duration_ms)


def failed(reason: str, *, log: str = "", duration_ms: float = 0.0) -> TargetFailure:
    """Without what is secret."""
    return TargetFailure(reason=_line(reason), log=clean_text(redact(log)), duration_ms=duration_ms)


def late(timeout_s: float, log: str = "") -> TargetFailure:
    told = f"no answer within {timeout_s:g} s"
    return TargetFailure(kind="timeout", reason=told, log=clean_text(redact(log)), duration_ms=timeout_s * 1000)


def json_or_text(text: str) -> object:
    """The JSON value that a text is; else the text, without the line end that commands put after it."""
    try:
        return StrictJson().decode(text)
    except DataError:
        return text.removesuffix("\n").removesuffix("\r")


def _reply(value: Any, log: str, duration_ms: float) -> TargetReply | TargetFailure:
    told: dict[str, Any] = {"log": clean_text(redact(log)), "duration_ms": duration_ms}
    if not _is_envelope(value):
        return TargetReply(output=value, **told)
    seen = {"transcript": _transcript(value), "usage": _usage(value.get("usage"))}
    if value.get("error") is not None:
        return TargetFailure(reason=_line(_words(value["error"])), **seen, **told)
    model = value.get("model")
    if model is not None and not isinstance(model, str):
        raise DataError("`model` is no text")
    return TargetReply(output=value["output"], state=_state(value.get("state")), model=model, **seen, **told)


def _is_envelope(value: object) -> bool:
    return isinstance(value, dict) and "output" in value and value.keys() <= KEYS


def _transcript(value: Mapping[str, Any]) -> Transcript | None:
    messages = value.get("messages")
    if messages is None:
        return None
    if not isinstance(messages, list):
        raise DataError("`messages` is no list")
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
        raise DataError("`state` is no object of named snapshots")
    return value


def _words(error: object) -> str:
    return error if isinstance(error, str) else json.dumps(error, ensure_ascii=False)


def _line(text: str) -> str:
    return cut(one_line(redact(clean_text(text))), LONGEST_REASON) or "it failed without a reason"
