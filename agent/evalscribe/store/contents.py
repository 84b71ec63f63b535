"""Store texts by content id, and the documents that refer to these texts. Delete rows that nothing refers to."""

import json
import zlib
from collections.abc import Iterable, Sequence
from functools import lru_cache, reduce
from hashlib import sha256
from operator import add
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    LargeBinary,
    Select,
    String,
    Table,
    and_,
    bindparam,
    cast,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
)

from evalscribe.errors import DataError
from evalscribe.model.evidence import Document
from evalscribe.model.record import SweptRows
from evalscribe.store import tables
from evalscribe.store.database import Database
from evalscribe.store.errors import unstorable
from evalscribe.store.statements import execute_many, insert_unless_exists
from evalscribe.store.tables import (
    collection_runs,
    documents,
    draft_items,
    evals,
    evidence,
    findings,
    judge_results,
    labels,
    proofs,
    reports,
    run_items,
    runs,
    scores,
    sightings,
    steps,
    texts,
    transcripts,
    version_items,
)

_INSERT_TEXT = insert_unless_exists(tables.texts)
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


class Texts:
    """Texts waiting to be stored. Each distinct text is compressed only once."""

    def __init__(self) -> None:
        self._bodies: dict[str, bytes] = {}

    def add(self, text: str) -> str:
        """Add a text and return its id. Raises `DataError` if the text contains an unpaired surrogate."""
        digest = digest_of(text)
        if digest not in self._bodies:
            self._bodies[digest] = _compress(text)
        return digest

    def put(self, connection: Connection) -> None:
        # The texts are sorted by key, so that concurrent writers of the same texts never deadlock.
        execute_many(
            connection,
            _INSERT_TEXT,
            [{"digest": digest, "body": self._bodies[digest]} for digest in sorted(self._bodies)],
        )


def digest_of(text: str) -> str:
    """Return the content id of a text. Raises `DataError` if the text contains an unpaired surrogate."""
    return _digest_of_short(text) if len(text) <= SHORT else _digest(text)


def json_of(value: object, description: str) -> str:
    """Render a value as JSON with sorted keys.

    Raises `DataError` if JSON or UTF-8 cannot represent the value. The message calls the value `description`.
    """
    try:
        text = _ENCODER.encode(value)
        # `ensure_ascii=False` leaves lone surrogates in the text, which UTF-8 cannot encode.
        text.encode()
    except UnicodeEncodeError:
        reason = "it contains an invalid character (a lone surrogate)"
    except ValueError:
        reason = "it contains a number that is not finite or has too many digits"
    except RecursionError:
        reason = "it is nested too deeply"
    else:
        return text
    raise DataError(f"{description} cannot be stored: {reason}")


def _digest(text: str) -> str:
    try:
        return f"sha256:{sha256(text.encode()).hexdigest()}"
    except UnicodeEncodeError as error:
        raise unstorable() from error


def _compress(text: str) -> bytes:
    return _compress_short(text) if len(text) <= SHORT else zlib.compress(text.encode())


SHORT = 4_000
"""Maximum number of characters of a text whose digest is cached. Short texts, such as tasks, often repeat."""
_digest_of_short = lru_cache(1_000)(_digest)
_compress_short = lru_cache(1_000)(lambda text: zlib.compress(text.encode()))


_INSERT = insert(documents)
_EVAL = (documents.c.run_id == bindparam("run_id"), documents.c.eval_id == bindparam("eval_id"))
_RECORDED, _GATHERED = documents.c.number >= 0, documents.c.number < 0


def _select_documents(*conditions: Any) -> Select[Any]:
    statement = select(documents.c.role, documents.c.path, texts.c.body).join(
        texts, texts.c.digest == documents.c.digest
    )
    return statement.where(*_EVAL, *conditions).order_by(documents.c.number)


_READ = {True: _select_documents(_RECORDED), False: _select_documents(_GATHERED)}
_CLEAR = {True: delete(documents).where(*_EVAL, _RECORDED), False: delete(documents).where(*_EVAL, _GATHERED)}


class PackedDocuments:
    """Documents of one or more evals, waiting to be stored. Each distinct text is compressed only once."""

    def __init__(self) -> None:
        self._rows: list[dict[str, Any]] = []
        self._texts = Texts()

    def add(self, run_id: str, eval_id: str, new_documents: Sequence[Document], *, first: int) -> None:
        """Add documents of an eval. The first document gets the number `first`."""
        key = {"run_id": run_id, "eval_id": eval_id}
        for number, document in enumerate(new_documents, first):
            digest = self._texts.add(document.text)
            columns = {"number": number, "role": document.role, "path": document.path, "digest": digest}
            self._rows.append({**key, **columns})

    def put(self, connection: Connection) -> None:
        self._texts.put(connection)
        execute_many(connection, _INSERT, self._rows)


def replace_gathered(connection: Connection, run_id: str, eval_id: str, gathered: Sequence[Document]) -> None:
    """Replace the documents that were gathered as an eval's evidence. Keep its imported documents."""
    packed = PackedDocuments()
    # Negative numbers keep gathered documents apart from imported ones, which are numbered from 0. Their order is kept.
    packed.add(run_id, eval_id, gathered, first=-len(gathered))
    connection.execute(_CLEAR[False], {"run_id": run_id, "eval_id": eval_id})
    packed.put(connection)


def delete_documents(connection: Connection, keys: Iterable[tuple[str, str]], *, recorded: bool) -> None:
    """Delete documents of the given evals: their imported documents if `recorded` is true, otherwise the documents
    gathered as their evidence."""
    if values := [{"run_id": run_id, "eval_id": eval_id} for run_id, eval_id in keys]:
        connection.execute(_CLEAR[recorded], values)


def load_documents(
    connection: Connection, database: Database, run_id: str, eval_id: str, *, recorded: bool
) -> tuple[Document, ...]:
    """Load an eval's imported documents if `recorded` is true, otherwise the documents gathered as its evidence.

    Raises `DataError` if a text is damaged.
    """
    rows = connection.execute(_READ[recorded], {"run_id": run_id, "eval_id": eval_id}).all()
    return tuple(
        Document.model_construct(role=row.role, path=row.path, text=database.unzip(row.body).decode()) for row in rows
    )


AT_ONCE = 500
"""Maximum number of rows deleted in one transaction."""
ROUND = 50_000
"""Maximum number of rows whose keys are in memory at once."""

_Condition = ColumnElement[bool]
_UnneededRows = tuple[str, Table, _Condition, tuple[str, ...]]
"""One kind of unneeded row: its name, its table, the condition that selects such rows, and the columns whose size is
reported."""


def sweep(database: Database, *, dry_run: bool) -> tuple[SweptRows, ...]:
    """Delete unneeded rows, or only count them if `dry_run` is true. Returns the counts by kind of row."""
    return tuple(
        _sweep_rows(database, unneeded_rows, dry_run=dry_run) for unneeded_rows in _unneeded_rows(dry_run=dry_run)
    )


def _unneeded_rows(*, dry_run: bool) -> tuple[_UnneededRows, ...]:
    """Return the kinds of unneeded rows in order of deletion.

    Deleting one kind can make rows of later kinds unneeded.
    """
    # A dry run deletes no runs, so rows of runs that would be deleted are excluded by the condition.
    kept_run_ids = select(runs.c.run_id).where(~_UNUSED) if dry_run else select(runs.c.run_id)

    def without_run(table: Table) -> _Condition:
        return table.c.run_id.not_in(kept_run_ids)

    def without_eval(table: Table) -> _Condition:
        has_eval = exists().where(evals.c.run_id == table.c.run_id, evals.c.eval_id == table.c.eval_id)
        return or_(without_run(table), ~has_eval)

    # Unneeded documents are deleted before texts, so every remaining document, even one added meanwhile, protects its
    # text.
    conditions = (documents.c.digest == texts.c.digest, *([~without_eval(documents)] if dry_run else []))
    is_referenced = exists().where(*conditions)
    return (
        ("runs", runs, _UNUSED, ("body",)),
        ("sightings", sightings, without_run(sightings), ("body",)),
        ("proofs", proofs, without_eval(proofs), ("body",)),
        ("evals", evals, without_run(evals), ("metadata_json", "reason")),
        ("steps", steps, without_run(steps), ("error",)),
        ("transcripts", transcripts, without_run(transcripts), ("messages", "metadata_json")),
        ("evidence", evidence, without_eval(evidence), ("body",)),
        ("documents", documents, without_eval(documents), ("path",)),
        ("texts", texts, and_(~is_referenced, ~_OF_EXPERIMENTS), ("body",)),
    )


def _of_run(table: Table) -> _Condition:
    return exists().where(table.c.run_id == runs.c.run_id)


_OF_EXPERIMENTS = or_(
    *(exists().where(table.c.digest == texts.c.digest) for table in (draft_items, version_items)),
    *(exists().where(run_items.c[name] == texts.c.digest) for name in ("output", "transcript", "state", "log")),
    *(exists().where(scores.c[name] == texts.c.digest) for name in ("input", "output", "evidence")),
)
"""Condition for texts of datasets, trials and scores. Such texts are kept even if no collection contains the trials
yet."""
_JUDGED = exists().where(evals.c.run_id == runs.c.run_id, judge_results.c.agent_run_id == evals.c.eval_id)
_UNUSED = and_(
    runs.c.recorded > 0,
    *(~_of_run(table) for table in (collection_runs, reports, findings, labels, evidence)),
    ~_JUDGED,
)
"""Condition for imported runs that are in no collection and were neither analysed, labelled nor judged."""


def _sweep_rows(database: Database, unneeded_rows: _UnneededRows, *, dry_run: bool) -> SweptRows:
    kind, table, unneeded, columns = unneeded_rows
    with database.transaction() as connection:
        rows, size = connection.execute(_count_statement(table, unneeded, columns)).one()
    # Short transactions let other processes write in between. A sweep that is killed continues when it is started
    # again.
    while not dry_run and _delete_round(database, table, unneeded) == ROUND:
        pass
    return SweptRows(kind=kind, rows=rows, bytes=int(size))


def _count_statement(table: Table, unneeded: _Condition, columns: tuple[str, ...]) -> Select[Any, Any]:
    sizes = (func.coalesce(func.length(_measurable(table.c[name])), 0) for name in columns)
    size = func.sum(reduce(add, sizes))
    statement: Select[Any, Any] = select(func.count(), func.coalesce(size, 0))
    return statement.select_from(table).where(unneeded)


def _measurable(column: Column[Any]) -> ColumnElement[Any]:
    # `length` does not accept JSON columns on Postgres.
    return column if isinstance(column.type, LargeBinary) else cast(column, String)


def _delete_round(database: Database, table: Table, unneeded: _Condition) -> int:
    """Delete at most `ROUND` unneeded rows and return their number."""
    keys = list(table.primary_key)
    with database.transaction() as connection:
        rows = connection.execute(select(*keys).where(unneeded).limit(ROUND)).mappings().all()
    # The condition is checked again on deletion, because another process can have started to use a row since its key
    # was read.
    statement = delete(table).where(*(key == bindparam(key.name) for key in keys), unneeded)
    for start in range(0, len(rows), AT_ONCE):
        with database.writing() as connection:
            connection.execute(statement, [dict(row) for row in rows[start : start + AT_ONCE]])
    return len(rows)
