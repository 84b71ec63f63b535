"""What a target gave, as it may be kept: without secrets, and only what JSON can hold."""

import json
from typing import cast

from pydantic import JsonValue

from evalscribe.agent_run import Transcript
from evalscribe.errors import DataError
from evalscribe.json_clean import clean, clean_text
from evalscribe.prose import one_line
from evalscribe.redaction import redact, redact_json
from evalscribe.target import TargetFailed, TargetReply


def received(given: TargetReply | TargetFailed) -> TargetReply | TargetFailed:
    """The same in a form that can be stored; an answer that cannot is a failed try."""
    try:
        return _failed(given) if isinstance(given, TargetFailed) else _answered(given)
    except DataError as error:
        return TargetFailed(
            reason=f"its answer cannot be kept: {error}", log=_text(given.log), usage=given.usage,
            duration_ms=given.duration_ms,
        )  # fmt: skip


def _answered(reply: TargetReply) -> TargetReply:
    kept = {
        "output": _json(reply.output),
        "transcript": _transcript(reply.transcript),
        "state": _json(reply.state),
        "model": reply.model and one_line(reply.model),
        "log": _text(reply.log),
    }
    return reply.model_copy(update=kept)


def _failed(failed: TargetFailed) -> TargetFailed:
    kept = {
        "reason": one_line(_text(failed.reason)) or "no reason given",
        "transcript": _transcript(failed.transcript),
        "log": _text(failed.log),
    }
    return failed.model_copy(update=kept)


def _transcript(told: Transcript | None) -> Transcript | None:
    if told is None:
        return None
    raw = told.model_dump(mode="json")
    kept = _json(raw)
    return told if kept is raw else Transcript.model_validate(kept)


def _json(value: JsonValue) -> JsonValue:
    """Raises `DataError` for what is nested too deeply and for numbers that JSON does not have."""
    kept = cast(JsonValue, redact_json(clean(value)))
    try:
        json.dumps(kept, allow_nan=False)
    except ValueError:
        raise DataError("it holds NaN or Infinity, which JSON does not have") from None
    return kept


def _text(text: str) -> str:
    return redact(clean_text(text)) if text else text
