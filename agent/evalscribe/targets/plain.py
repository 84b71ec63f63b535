"""What a user's function gives, as JSON text. Standard library only: it runs beside the user's code."""

import json
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import fields, is_dataclass
from types import GeneratorType

LARGEST = 16 * 1024 * 1024
"""Bytes of one answer."""
MOST_PIECES = 100_000
"""What a generator may give; it may have no end."""


class NoJson(Exception):
    """A value that JSON has no form for, or that is too large; says which."""


def encoded(value: object) -> str:
    """ASCII JSON on one line: pydantic models, dataclasses, tuples and generators included. Raises `NoJson`."""
    try:
        text = json.dumps(value, default=_plain, allow_nan=False)
    except (TypeError, ValueError) as error:
        words = "a number that is NaN or infinite" if str(error).startswith("Out of range") else str(error)
        raise NoJson(f"what it gives is no JSON: {words}") from None
    except RecursionError:
        raise NoJson("what it gives is nested too deeply") from None
    if len(text) > LARGEST:
        raise NoJson(f"what it gives has {len(text) / 1e6:.1f} MB as JSON; at most {LARGEST / 1e6:.1f} MB are kept")
    return text


def streamed(pieces: Iterable[object]) -> object:
    """All that a generator gives: one text where each piece is text, else a list. Raises `NoJson`."""
    found: list[object] = []
    for piece in pieces:
        _add(found, piece)
    return _joined(found)


async def streamed_async(pieces: AsyncIterator[object]) -> object:
    """As `streamed`."""
    found: list[object] = []
    async for piece in pieces:
        _add(found, piece)
    return _joined(found)


def _add(found: list[object], piece: object) -> None:
    found.append(piece)
    if len(found) > MOST_PIECES:
        raise NoJson(f"what it gives has no end: more than {MOST_PIECES:,} pieces")


def _joined(found: list[object]) -> object:
    texts = [piece for piece in found if isinstance(piece, str)]
    return "".join(texts) if found and len(texts) == len(found) else found


def _plain(value: object) -> object:
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return dump(mode="json")
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, GeneratorType):
        return streamed(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a `{type(value).__module__}.{type(value).__qualname__}`".replace("builtins.", ""))
