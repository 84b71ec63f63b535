"""Items as JSON lines: what an export writes an upload reads. Template and parser side by side."""

import json
from collections.abc import Mapping
from typing import NamedTuple

from pydantic import JsonValue, ValidationError

from evalscribe import prose
from evalscribe.dataset import Item
from evalscribe.errors import DataError
from evalscribe.json_clean import strings
from evalscribe.redaction import Hints, hints_in, redact, redact_json

FIELDS = tuple(Item.model_fields)
_NAMES = ("key", "split", "cluster")
_MAY_BE_NULL = ("input", "expected_output")
_MAY_BE_EMPTY = ("metadata", "events")
_KINDS = {"dict_type": "no object", "tuple_type": "no list"}
_HIDDEN = "[redacted:"


class ReadItem(NamedTuple):
    """An item as it may be kept."""

    item: Item
    hidden: int
    """How many secrets were taken out of it."""


def parsed(value: object, source: Mapping[str, JsonValue]) -> ReadItem:
    """One decoded line, redacted. Without a `key` it gets one made of its content, without a `source` this one.

    Raises `DataError` saying what is wrong with it, without its place.
    """
    if not isinstance(value, dict):
        raise DataError("no JSON object, so no item")
    if unknown := next((name for name in value if name not in FIELDS), None):
        raise DataError(f"`{prose.cut(prose.one_line(unknown), 80)}` is unknown; there is: {', '.join(FIELDS)}")
    kept, hidden = _safe({name: part for name, part in value.items() if part is not None or name in _MAY_BE_NULL})
    try:
        item = Item.model_validate({"key": "", "source": dict(source), **kept})
    except ValidationError as error:
        raise DataError(_told(error)) from None
    if "key" not in kept:
        item = item.model_copy(update={"key": made_key(item)})
    return ReadItem(item, hidden)


def made_key(item: Item) -> str:
    """16 hex digits that name what is asked and expected."""
    return item.likeness.removeprefix("sha256:")[:16]


def written(item: Item) -> str:
    """One line without its end; `parsed` of it is the same item, whatever source it is told."""
    left_out = {name for name in FIELDS if getattr(item, name) is None and name != "input"}
    left_out |= {name for name in _MAY_BE_EMPTY if not getattr(item, name)}
    told = item.model_dump(mode="json", exclude=left_out)
    return json.dumps(told, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _safe(value: Mapping[str, object]) -> tuple[dict[str, object], int]:
    """Without secrets. The item's own names are no names of secrets: a `key` may look as random as it likes."""
    texts = strings(value)
    whole = "\n".join(texts)
    if not _is_text(whole):
        raise DataError("holds half of a surrogate pair, which is no character")
    hints = hints_in(whole)
    kept = {name: _part(name, part, hints) for name, part in value.items()}
    return kept, 0 if kept == value else _marks(strings(kept)) - _marks(texts)


def _part(name: str, part: object, hints: Hints) -> object:
    if name not in _NAMES:
        return redact_json(part, hints)
    text = str(part) if isinstance(part, int) and not isinstance(part, bool) else part
    if not isinstance(text, str):
        raise DataError(f"`{name}` is no text")
    if text != prose.name(text):
        raise DataError(f"`{name}` is no name: one line of 1 to {prose.NAME_LIMIT} characters")
    return redact(text, hints)


def _is_text(whole: str) -> bool:
    try:
        whole.encode()
    except UnicodeEncodeError:
        return False
    return True


def _marks(texts: list[str]) -> int:
    return sum(text.count(_HIDDEN) for text in texts)


def _told(error: ValidationError) -> str:
    """The first problem, without the input."""
    problem = error.errors(include_input=False, include_url=False)[0]
    place = ".".join(map(str, problem["loc"]))
    if problem["type"] == "missing":
        return f"`{place}` is missing"
    return f"`{place}` is {_KINDS.get(problem['type']) or 'wrong: ' + problem['msg'].lower()}"
