"""Result sets and their results, over SQLAlchemy Core."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import RowMapping, Select, bindparam, func, insert, or_, select, update

from evalscribe.errors import UnavailableError
from evalscribe.model.result import Result, ResultCounts, ResultSet, Segment
from evalscribe.store.database import Database, open_database
from evalscribe.store.statements import matching
from evalscribe.store.tables import said

_SEGMENTS = TypeAdapter(tuple[Segment, ...])
_sets, _results = said.result_sets, said.results


_FIND = (
    select(_sets)
    .where(_sets.c.collection_id == bindparam("collection_id"))
    .where(or_(_sets.c.id == bindparam("name"), _sets.c.name == bindparam("name")))
)
_COUNTED = (
    select(
        _sets,
        func.count(_results.c.id).label("n"),
        func.count(_results.c.output).label("n_answered"),
        func.count(_results.c.error).label("n_errors"),
    )
    .outerjoin(_results, _results.c.result_set_id == _sets.c.id)
    .where(_sets.c.collection_id == bindparam("collection_id"))
    .group_by(*_sets.columns)
    .order_by(_sets.c.name)
)
_OF_SET = matching(_results, "result_set_id").order_by(_results.c.number)
_ONE = matching(_results, "result_set_id", "id")
_ANSWERED = matching(_results, "key").where(_results.c.output.is_not(None)).order_by(_results.c.created_at).limit(1)
_CHANGED = ("key", "output", "error", "final", "input_tokens", "output_tokens", "cost_usd", "created_at")
_PUT = update(_results).where(_results.c.id == bindparam("of_id")).values({name: bindparam(name) for name in _CHANGED})
_PUT_ERROR = _PUT.where(_results.c.output.is_(None))


def open_result_sets(place: Path | str) -> "SqlResultSets":
    """In the same database as the store. Raises as `open_database` does."""
    return SqlResultSets(open_database(place))


class SqlResultSets:
    """An `evalscribe.model.collection_storage.ResultSetStore`; usable by many processes at once."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, collection_id: str, name: str) -> ResultSet | None:
        """A name comes before an id."""
        rows = self._rows(_FIND, collection_id=collection_id, name=name)
        with self._database.readable():
            return _set(min(rows, key=lambda row: row["name"] != name)) if rows else None

    def sets(self, collection_id: str) -> tuple[tuple[ResultSet, ResultCounts], ...]:
        rows = self._rows(_COUNTED, collection_id=collection_id)
        with self._database.readable():
            return tuple((_set(row), _counts(row)) for row in rows)

    def add(self, made: ResultSet, results: Sequence[Result]) -> None:
        with self._database.writing() as connection:
            if connection.execute(_FIND, {"collection_id": made.collection_id, "name": made.id}).first() is None:
                connection.execute(insert(_sets), made.model_dump(mode="json"))
            if results:
                connection.execute(insert(_results), [one.model_dump(mode="json") for one in results])

    def put(self, result: Result) -> None:
        row = result.model_dump(mode="json", include=set(_CHANGED))
        self._database.execute(_PUT if result.output is not None else _PUT_ERROR, {**row, "of_id": result.id})

    def results(self, result_set_id: str) -> tuple[Result, ...]:
        with self._database.readable():
            return tuple(map(_result, self._rows(_OF_SET, result_set_id=result_set_id)))

    def result(self, result_set_id: str, result_id: str) -> Result | None:
        with self._database.readable():
            return next(map(_result, self._rows(_ONE, result_set_id=result_set_id, id=result_id)), None)

    def answered(self, key: str) -> Result | None:
        with self._database.readable():
            return next(map(_result, self._rows(_ANSWERED, key=key)), None)

    @contextmanager
    def lock(self, result_set_id: str) -> Iterator[None]:
        with self._database.claimed(f"results-{result_set_id}") as mine:
            if not mine:
                raise UnavailableError(
                    "another process is asking for this result set already.\nWait for it, or end it and start again."
                )
            yield

    def close(self) -> None:
        self._database.close()

    def _rows(self, statement: Select[Any], **values: object) -> Sequence[RowMapping]:
        with self._database.reading() as connection:
            return connection.execute(statement, values).mappings().all()


def _set(row: RowMapping) -> ResultSet:
    return ResultSet(**{name: row[name] for name in ResultSet.model_fields})


def _counts(row: RowMapping) -> ResultCounts:
    return ResultCounts(requests=row["n"], results=row["n_answered"], errors=row["n_errors"])


def _result(row: RowMapping) -> Result:
    fields = {name: row[name] for name in Result.model_fields if name != "prompt"}
    return Result(**fields, prompt=_SEGMENTS.validate_python(row["prompt"]))
