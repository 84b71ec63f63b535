"""Parts of records out of what somebody else wrote."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import cast

from pydantic import JsonValue, TypeAdapter, ValidationError

from evalscribe import prose
from evalscribe.agent_run import ChatMessage, Transcript
from evalscribe.errors import DataError
from evalscribe.ids import content_id, path_part
from evalscribe.json_clean import DEEPEST, clean_text
from evalscribe.redaction import redact, redact_member
from evalscribe.sources.imports.left_out import LeftOut

SHORT = 80
"""Characters of a name that an id keeps as they are."""
_MESSAGE: TypeAdapter[ChatMessage] = TypeAdapter(ChatMessage)


def safe(value: object, left: int = DEEPEST) -> JsonValue:
    """A JSON value that can be kept: `clean` and `redact_json` in one go, for they take most of an import's time.

    Raises `DataError` for what is nested too deeply.
    """
    if not left:
        raise DataError("JSON nested too deeply")
    if isinstance(value, str):
        return _short(value) if len(value) <= SHORT else redact(clean_text(value))
    if isinstance(value, dict):
        return {_short(str(name)): _member(str(name), item, left - 1) for name, item in value.items()}
    if isinstance(value, list):
        return [safe(item, left - 1) for item in value]
    return cast(JsonValue, value)


def _member(name: str, value: object, left: int) -> JsonValue:
    return redact_member(name, clean_text(value)) if isinstance(value, str) else safe(value, left)


@lru_cache(8192)
def _short(text: str) -> str:
    return redact(clean_text(text))


def line(text: object) -> str:
    """A name: one line of bounded length that is not empty; long ones that start alike stay different."""
    return prose.name(str(text))


def eval_id(run_id: str, name: str, trial: int) -> str:
    """The id of an eval of a file whose own ids hold only inside it."""
    part = path_part(name)
    if part != name or len(part) > SHORT:
        part = f"{part[:SHORT]}-{content_id(name).removeprefix('sha256:')[:8]}"
    return f"{run_id}-{part}-{trial}"


def number(value: object) -> float | None:
    """A score as a number: what is none is missing. True is 1."""
    return float(value) if isinstance(value, int | float) else None


def transcript(
    id: str, messages: Iterable[object], left_out: LeftOut, place: str, name: str | None = None
) -> Transcript:
    """Cleaned messages as a transcript; one that is no message is left out, and told."""
    read = [message for one in messages if (message := _message(one, left_out, place)) is not None]
    return Transcript.model_construct(id=id, name=name, messages=tuple(read), metadata={})


def _message(value: object, left_out: LeftOut, place: str) -> ChatMessage | None:
    try:
        return _MESSAGE.validate_python(value)
    except (ValidationError, RecursionError):
        known = value.get("role") if isinstance(value, Mapping) else None
        left_out.add(f"a message that cannot be read (role {known!r})"[:100], place)
        return None
