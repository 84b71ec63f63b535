"""Store texts by their content id, and the documents of evals that refer to them."""

import json
import zlib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any

from sqlalchemy import Connection, Select, bindparam, delete, insert, select

from evalscribe.errors import DataError
from evalscribe.model.evidence import Document
from evalscribe.store import tables
from evalscribe.store.database import Database
from evalscribe.store.errors import unstorable
from evalscribe.store.statements import execute_many, unless_there
from evalscribe.store.tables import documents, texts

_KEEP = unless_there(tables.texts)
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


class Texts:
    """Texts to be stored, each packed once."""

    def __init__(self) -> None:
        self._bodies: dict[str, bytes] = {}

    def add(self, text: str) -> str:
        """Add a text and return its id. Raises `DataError` for an unpaired surrogate."""
        digest = digest_of(text)
        if digest not in self._bodies:
            self._bodies[digest] = _packed(text)
        return digest

    def put(self, connection: Connection) -> None:
        # In order of keys, so that concurrent writers of the same texts never deadlock.
        execute_many(
            connection, _KEEP, [{"digest": digest, "body": self._bodies[digest]} for digest in sorted(self._bodies)]
        )


def digest_of(text: str) -> str:
    """Return the content id of a text. Raises `DataError` for an unpaired surrogate."""
    return _digest_of_short(text) if len(text) <= SHORT else _digest(text)


def json_of(value: object, what: str) -> str:
    """Render a value as JSON with sorted keys.

    Raises `DataError`, naming `what`, if JSON or UTF-8 cannot represent it.
    """
    try:
        text = _ENCODER.encode(value)
        text.encode()
    except UnicodeEncodeError:
        reason = "it contains an invalid character (a lone surrogate)"
    except ValueError:
        reason = "it contains a number that is not finite or has too many digits"
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
"""Maximum characters of a text that is likely to repeat: the task of many trials."""
_digest_of_short = lru_cache(1_000)(_digest)
_packed_short = lru_cache(1_000)(lambda text: zlib.compress(text.encode()))


_INSERT = insert(documents)
_EVAL = (documents.c.run_id == bindparam("run_id"), documents.c.eval_id == bindparam("eval_id"))
_RECORDED, _GATHERED = documents.c.number >= 0, documents.c.number < 0


def _of(*which: Any) -> Select[Any]:
    found = select(documents.c.role, documents.c.path, texts.c.body).join(texts, texts.c.digest == documents.c.digest)
    return found.where(*_EVAL, *which).order_by(documents.c.number)


_READ = {True: _of(_RECORDED), False: _of(_GATHERED)}
_CLEAR = {True: delete(documents).where(*_EVAL, _RECORDED), False: delete(documents).where(*_EVAL, _GATHERED)}


class PackedDocuments:
    """Documents of one or more evals to be stored, with each text packed once."""

    def __init__(self) -> None:
        self._rows: list[dict[str, Any]] = []
        self._texts = Texts()

    def add(self, run_id: str, eval_id: str, given: Sequence[Document], *, first: int) -> None:
        """Add documents, numbered from `first`."""
        key = {"run_id": run_id, "eval_id": eval_id}
        for number, document in enumerate(given, first):
            digest = self._texts.add(document.text)
            named = {"number": number, "role": document.role, "path": document.path, "digest": digest}
            self._rows.append({**key, **named})

    def put(self, connection: Connection) -> None:
        self._texts.put(connection)
        execute_many(connection, _INSERT, self._rows)


def replace_gathered(connection: Connection, run_id: str, eval_id: str, given: Sequence[Document]) -> None:
    """Replace the gathered documents of an eval's evidence. Imported ones stay."""
    kept = PackedDocuments()
    kept.add(run_id, eval_id, given, first=-len(given))
    connection.execute(_CLEAR[False], {"run_id": run_id, "eval_id": eval_id})
    kept.put(connection)


def delete_documents(connection: Connection, keys: Iterable[tuple[str, str]], *, recorded: bool) -> None:
    """Delete the documents imported with these evals, or those gathered as their evidence."""
    if values := [{"run_id": run_id, "eval_id": eval_id} for run_id, eval_id in keys]:
        connection.execute(_CLEAR[recorded], values)


def load_documents(
    connection: Connection, database: Database, run_id: str, eval_id: str, *, recorded: bool
) -> tuple[Document, ...]:
    """Load documents. Raises `DataError` for a damaged text."""
    rows = connection.execute(_READ[recorded], {"run_id": run_id, "eval_id": eval_id}).all()
    return tuple(
        Document.model_construct(role=row.role, path=row.path, text=database.unzip(row.body).decode()) for row in rows
    )
