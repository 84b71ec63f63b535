"""Texts of documents by their content, and the rows that refer to them."""

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, Select, bindparam, delete, insert, select

from evalscribe.model.evidence import Document
from evalscribe.store.database import Database
from evalscribe.store.statements import execute_many
from evalscribe.store.tables.runs import documents, texts
from evalscribe.store.texts import Texts

_INSERT = insert(documents)
_EVAL = (documents.c.run_id == bindparam("run_id"), documents.c.eval_id == bindparam("eval_id"))
_RECORDED, _GATHERED = documents.c.number >= 0, documents.c.number < 0


def _of(*which: Any) -> Select[Any]:
    found = select(documents.c.role, documents.c.path, texts.c.body).join(texts, texts.c.digest == documents.c.digest)
    return found.where(*_EVAL, *which).order_by(documents.c.number)


_READ = {True: _of(_RECORDED), False: _of(_GATHERED)}
_CLEAR = {True: delete(documents).where(*_EVAL, _RECORDED), False: delete(documents).where(*_EVAL, _GATHERED)}


class Kept:
    """Documents of one eval or of many, ready to be stored: each text packed once."""

    def __init__(self) -> None:
        self._rows: list[dict[str, Any]] = []
        self._texts = Texts()

    def add(self, run_id: str, eval_id: str, given: Sequence[Document], *, first: int) -> None:
        """`first` is the number of the first of them."""
        key = {"run_id": run_id, "eval_id": eval_id}
        for number, document in enumerate(given, first):
            digest = self._texts.add(document.text)
            named = {"number": number, "role": document.role, "path": document.path, "digest": digest}
            self._rows.append({**key, **named})

    def put(self, connection: Connection) -> None:
        self._texts.put(connection)
        execute_many(connection, _INSERT, self._rows)


def replace_gathered(connection: Connection, run_id: str, eval_id: str, given: Sequence[Document]) -> None:
    """The documents of an eval's evidence, in place of those it had; what was imported with it stays."""
    kept = Kept()
    kept.add(run_id, eval_id, given, first=-len(given))
    connection.execute(_CLEAR[False], {"run_id": run_id, "eval_id": eval_id})
    kept.put(connection)


def clear(connection: Connection, keys: Iterable[tuple[str, str]], *, recorded: bool) -> None:
    """Forget what was imported with these evals, or what was gathered as their evidence."""
    if values := [{"run_id": run_id, "eval_id": eval_id} for run_id, eval_id in keys]:
        connection.execute(_CLEAR[recorded], values)


def read(
    connection: Connection, database: Database, run_id: str, eval_id: str, *, recorded: bool
) -> tuple[Document, ...]:
    """Raises `DataError` for a damaged text."""
    rows = connection.execute(_READ[recorded], {"run_id": run_id, "eval_id": eval_id}).all()
    return tuple(
        Document.model_construct(role=row.role, path=row.path, text=database.unzip(row.body).decode()) for row in rows
    )
