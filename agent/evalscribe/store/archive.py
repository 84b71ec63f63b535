"""Whole runs in collections, over SQLAlchemy Core."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Row, Select, bindparam, delete, select

from evalscribe.model.evidence import Document, FailureFingerprint
from evalscribe.model.record import GradedEval, Record
from evalscribe.model.run import EvalStatus, Run
from evalscribe.model.storage import AddedCounts, SweptRows
from evalscribe.store import documents, record_rows, run_rows
from evalscribe.store.adding import Addition
from evalscribe.store.database import Database, open_database
from evalscribe.store.shelf import require
from evalscribe.store.sql import SqlStore
from evalscribe.store.sweeping import sweep
from evalscribe.store.tables.runs import collection_runs, evals, transcripts
from evalscribe.store.tables.runs import runs as runs_table

AT_ONCE = 100
"""Records that are read in one go."""

_IN = collection_runs.c.collection_id == bindparam("collection_id")
_RUNS = (
    select(runs_table)
    .join(collection_runs, collection_runs.c.run_id == runs_table.c.run_id)
    .where(_IN)
    .order_by(collection_runs.c.number)
)
_RUN = select(runs_table).where(runs_table.c.run_id == bindparam("run_id"))
_LEAVE = delete(collection_runs).where(_IN, collection_runs.c.run_id == bindparam("run_id"))
_ITS_RUNS = select(collection_runs.c.run_id).where(_IN)
_OF_RUN = evals.c.run_id == bindparam("run_id")
_LONG = ("metadata_json", "missing")
_GRADED: Select[Any] = (
    select(*(c for c in evals.c if c.name not in _LONG), evals.c.metadata_json["scores"].label("scores"))
    .where(_OF_RUN)
    .order_by(evals.c.number, evals.c.eval_id)
)
_WHOLE = select(evals).where(evals.c.digest.is_not(None))
_NEXT = _WHOLE.where(_OF_RUN, evals.c.number > bindparam("after")).order_by(evals.c.number).limit(AT_ONCE)
_EVAL = _WHOLE.where(evals.c.eval_id == bindparam("eval_id")).order_by(evals.c.run_id).limit(1)
_EVAL_OF_RUN = _WHOLE.where(_OF_RUN, evals.c.eval_id == bindparam("eval_id"))
_TRANSCRIPT = (
    select(transcripts)
    .where(transcripts.c.id == bindparam("id"))
    .order_by(transcripts.c.run_id, transcripts.c.eval_id, transcripts.c.number)
    .limit(1)
)


def open_archive(place: Path | str) -> "SqlArchive":
    """The archive of the store at `place`. Raises as `open_database` does."""
    return SqlArchive(open_database(place))


class SqlArchive:
    """An `evalscribe.model.storage.EvalStore`; usable by many processes at once."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, collection_id: str, runs: Sequence[Run], records: Sequence[Record]) -> AddedCounts:
        return Addition(self._database, collection_id, runs, records).made()

    def runs(self, collection_id: str) -> tuple[Run, ...]:
        with self._database.transaction() as connection:
            require(connection, collection_id)
            rows = connection.execute(_RUNS, {"collection_id": collection_id}).all()
            return tuple(run_rows.without_failures(self._database, row) for row in rows)

    def run(self, run_id: str) -> Run | None:
        with self._database.reading() as connection:
            row = connection.execute(_RUN, {"run_id": run_id}).one_or_none()
            return None if row is None else run_rows.without_failures(self._database, row)

    def graded(self, run_id: str) -> tuple[GradedEval, ...]:
        with self._database.transaction() as connection:
            rows = connection.execute(_GRADED, {"run_id": run_id}).all()
        listed = any(row.digest is None for row in rows)
        seen = {one.eval_id: one for one in SqlStore(self._database).sightings(run_id)} if listed else {}
        return tuple(_graded(row, seen.get(row.eval_id)) for row in rows)

    def record(self, eval_id: str, collection_id: str | None = None, *, run_id: str | None = None) -> Record | None:
        statement = _within(_EVAL if run_id is None else _EVAL_OF_RUN, evals.c.run_id, collection_id)
        which = {"eval_id": eval_id, "collection_id": collection_id, "run_id": run_id}
        with self._database.reading() as connection:
            rows = connection.execute(statement, which).all()
            return next(iter(record_rows.read(connection, self._database, rows)), None)

    def records(self, run_id: str, status: EvalStatus | None = None) -> Iterator[Record]:
        """Those that are imported meanwhile may be among them."""
        statement = _NEXT if status is None else _NEXT.where(evals.c.status == status)
        after, more = -1, True
        while more:
            with self._database.reading() as connection:
                rows = connection.execute(statement, {"run_id": run_id, "after": after}).all()
                found = record_rows.read(connection, self._database, rows)
            yield from found
            more = len(rows) == AT_ONCE
            after = rows[-1].number if rows else after

    def transcript(self, transcript_id: str, collection_id: str | None = None) -> Record | None:
        statement = _within(_TRANSCRIPT, transcripts.c.run_id, collection_id)
        with self._database.reading() as connection:
            values = {"id": transcript_id, "collection_id": collection_id}
            found = connection.execute(statement, values).one_or_none()
            if found is None:
                return None
            key = {"run_id": found.run_id, "eval_id": found.eval_id}
            rows = connection.execute(_EVAL_OF_RUN, key).all()
            record = next(iter(record_rows.read(connection, self._database, rows)), None)
        if record is None:  # Its eval is being forgotten.
            return None
        return record.model_copy(update={"transcripts": (record_rows.transcript_in(found),)})

    def documents(self, run_id: str, eval_id: str) -> tuple[Document, ...]:
        with self._database.reading() as connection:
            whole = connection.execute(_EVAL_OF_RUN, {"run_id": run_id, "eval_id": eval_id}).first()
            found = documents.read(connection, self._database, run_id, eval_id, recorded=whole is not None)
        return tuple(document for document in found if document.role != "transcript")

    def remove(self, collection_id: str, run_id: str) -> None:
        with self._database.writing() as connection:
            require(connection, collection_id)
            connection.execute(_LEAVE, {"collection_id": collection_id, "run_id": run_id})

    def sweep(self, *, dry_run: bool) -> tuple[SweptRows, ...]:
        return sweep(self._database, dry_run=dry_run)

    def give_back(self) -> int:
        return self._database.give_back()

    def close(self) -> None:
        self._database.close()


def _within(statement: Select[Any], run_id: Any, collection_id: str | None) -> Select[Any]:
    """Only rows of the collection's runs."""
    return statement if collection_id is None else statement.where(run_id.in_(_ITS_RUNS))


def _graded(row: Row[Any], seen: FailureFingerprint | None) -> GradedEval:
    """Of a failure that was only listed, task and grader are known from its evidence."""
    listed = row.digest is None
    return GradedEval(
        run_id=row.run_id,
        eval=run_rows.eval_in(row),
        scores=_numbers(row.scores),
        task=(seen and seen.task) if listed else row.task_digest,
        grader=(seen and seen.grader) if listed else row.grader_digest,
    )


def _numbers(scores: object) -> dict[str, float]:
    named = scores.items() if isinstance(scores, dict) else ()
    return {name: value for name, value in named if isinstance(value, int | float)}
