"""Parts of records out of what somebody else wrote."""

from collections.abc import Iterable, Mapping
from typing import cast

from pydantic import JsonValue, TypeAdapter, ValidationError

from evalscribe import prose
from evalscribe.agent_run import ChatMessage, Transcript
from evalscribe.ids import content_id, path_part
from evalscribe.json_clean import clean, is_clean, strings
from evalscribe.redaction import hints_in, redact_json
from evalscribe.sources.imports.left_out import LeftOut

SHORT = 80
"""Characters of a name that an id keeps as they are."""
_MESSAGE: TypeAdapter[ChatMessage] = TypeAdapter(ChatMessage)


def safe(value: object) -> JsonValue:
    """A JSON value that can be kept: `clean` and `redact_json` with one look at its strings, for most have nothing to
    hide. Raises `DataError` for what is nested too deeply."""
    whole = "\n".join(strings(value))
    kept = value if is_clean(whole) else clean(value)
    return cast(JsonValue, redact_json(kept, hints_in(whole)))


def safe_text(text: str) -> str:
    """`safe` of a text that stands alone, such as a name."""
    return cast(str, safe(text))


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
