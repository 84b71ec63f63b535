"""Texts by their content id, each stored once."""

import json
import zlib
from functools import lru_cache
from hashlib import sha256

from sqlalchemy import Connection

from evalscribe.errors import DataError
from evalscribe.store.failures import unstorable
from evalscribe.store.statements import execute_many, unless_there
from evalscribe.store.tables import runs

_KEEP = unless_there(runs.texts)
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


class Texts:
    """Texts on their way into the store: each packed once."""

    def __init__(self) -> None:
        self._bodies: dict[str, bytes] = {}

    def add(self, text: str) -> str:
        """The id by which it is found. Raises `DataError` for half a character."""
        digest = digest_of(text)
        if digest not in self._bodies:
            self._bodies[digest] = _packed(text)
        return digest

    def put(self, connection: Connection) -> None:
        # In order of their keys: two that write the same texts at once never wait for each other.
        execute_many(
            connection, _KEEP, [{"digest": digest, "body": self._bodies[digest]} for digest in sorted(self._bodies)]
        )


def digest_of(text: str) -> str:
    """Content id of a text. Raises `DataError` for half a character."""
    return _digest_of_short(text) if len(text) <= SHORT else _digest(text)


def json_of(value: object, what: str) -> str:
    """The text of a JSON value, its names in their order.

    Raises `DataError`, which names `what`, for what JSON or UTF-8 has no words for.
    """
    try:
        text = _ENCODER.encode(value)
        text.encode()
    except UnicodeEncodeError:
        reason = "a text in it holds half a character (a lone surrogate)"
    except ValueError:
        reason = "a number in it is not finite, or of more digits than can be read"
    except RecursionError:
        reason = "it is nested too deeply"
    else:
        return text
    raise DataError(f"{what} cannot be stored: {reason}")


def _digest(text: str) -> str:
    try:
        return f"sha256:{sha256(text.encode()).hexdigest()}"
    except UnicodeEncodeError as error:
        raise unstorable() from error


def _packed(text: str) -> bytes:
    return _packed_short(text) if len(text) <= SHORT else zlib.compress(text.encode())


SHORT = 4_000
"""Characters of a text that may well come again: the task of many trials."""
_digest_of_short = lru_cache(1_000)(_digest)
_packed_short = lru_cache(1_000)(lambda text: zlib.compress(text.encode()))
