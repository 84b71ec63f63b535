"""JSON values without their secrets."""

from functools import lru_cache

from evalscribe.json_clean import strings
from evalscribe.redaction.assigned import redact_header
from evalscribe.redaction.names import SHORT, is_secret, kind_of, may_name
from evalscribe.redaction.places import redact_cookie
from evalscribe.redaction.text import NONE, Hints, hints_in, redact

_redact_short = lru_cache(8192)(redact)
"""Names and roles come again and again."""


def redact_json(value: object, hints: Hints | None = None) -> object:
    """A JSON value with every string redacted, names included; a member's name counts as the name of its text.

    It is the same object where there is nothing to hide. `hints`: of all its strings, where they are known.
    """
    if hints is None:
        hints = hints_in("\n".join(strings(value)))
    return value if hints == NONE else _redacted(value, hints)


def _redacted(value: object, hints: Hints) -> object:
    if isinstance(value, str):
        return _text(value, hints)
    if isinstance(value, list):
        return [_redacted(item, hints) for item in value]
    if isinstance(value, dict):
        return _object(value, hints)
    return value


def _object(value: dict[object, object], hints: Hints) -> dict[str, object]:
    shown = {_text(str(name), hints): _member(str(name), item, hints) for name, item in value.items()}
    if isinstance(named := value.get("name", value.get("key")), str) and "value" in value:
        shown["value"] = _member(named, value["value"], hints)
    return shown


def _member(name: str, value: object, hints: Hints) -> object:
    """A list's texts have the name of the list."""
    if isinstance(value, list):
        return [_member(name, item, hints) for item in value]
    if not isinstance(value, str):
        return _redacted(value, hints)
    if may_name(name) and is_secret(name, value):
        return f"[redacted:{kind_of(name)}]"
    if len(name) <= SHORT:
        lowered = name.lower()
        if "cookie" in lowered:
            value = redact_cookie(value)
        elif lowered.endswith("authorization"):
            value = redact_header(value)
    return _text(value, hints)


def _text(text: str, hints: Hints) -> str:
    if not hints.passes:
        return text
    return _redact_short(text) if len(text) <= SHORT else redact(text, hints)
