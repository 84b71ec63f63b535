"""JSON values without their secrets."""

from functools import lru_cache

from evalscribe.json_clean import strings
from evalscribe.redaction.hints import NONE, Hints, hints_in
from evalscribe.redaction.names import SHORT, is_secret, kind_of, may_name
from evalscribe.redaction.text import redact

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
        return {_text(str(name), hints): _member(str(name), item, hints) for name, item in value.items()}
    return value


def _member(name: str, value: object, hints: Hints) -> object:
    """A list's texts have the name of the list."""
    if isinstance(value, list):
        return [_member(name, item, hints) for item in value]
    if not isinstance(value, str):
        return _redacted(value, hints)
    if may_name(name) and is_secret(name, value):
        return f"[redacted:{kind_of(name)}]"
    return _text(value, hints)


def _text(text: str, hints: Hints) -> str:
    return _redact_short(text) if len(text) <= SHORT else redact(text, hints)
