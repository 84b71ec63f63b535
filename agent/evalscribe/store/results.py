"""Store result sets, which contain requests and their results. Also store batches, before and after they are sent."""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import RowMapping, Select, bindparam, delete, func, insert, or_, select, update

from evalscribe.errors import UnavailableError
from evalscribe.model.chat import BatchIntent, Reply, UnansweredQuestion
from evalscribe.model.result import Result, ResultCounts, ResultSet, Segment
from evalscribe.store import tables
from evalscribe.store.database import Database, open_database
from evalscribe.store.statements import insert_unless_exists, matching
from evalscribe.store.tables import batch_intents, batch_items

_SEGMENTS = TypeAdapter(tuple[Segment, ...])
_sets, _results = tables.result_sets, tables.results


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
_RESULT_BY_ID = matching(_results, "result_set_id", "id")
_ANSWERED = matching(_results, "key").where(_results.c.output.is_not(None)).order_by(_results.c.created_at).limit(1)
_CHANGED = ("key", "output", "error", "final", "input_tokens", "output_tokens", "cost_usd", "created_at")
_PUT = update(_results).where(_results.c.id == bindparam("of_id")).values({name: bindparam(name) for name in _CHANGED})
# An answer was paid for, so a later error does not replace it.
_PUT_ERROR = _PUT.where(_results.c.output.is_(None))


def open_result_sets(place: Path | str) -> "ResultSetStore":
    """Open the result sets in the store's database. Raises the same errors as `open_database`."""
    return ResultSetStore(open_database(place))


class ResultSetStore:
    """Result sets of all collections. A result that was paid for is never replaced by an error.

    Many processes may use the store at once.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, collection_id: str, name: str) -> ResultSet | None:
        """Find a result set by id or name.

        If the argument is the name of one set and the id of another, the name takes precedence.
        """
        rows = self._rows(_FIND, collection_id=collection_id, name=name)
        with self._database.readable():
            return _set(min(rows, key=lambda row: row["name"] != name)) if rows else None

    def sets(self, collection_id: str) -> tuple[tuple[ResultSet, ResultCounts], ...]:
        """Return all result sets of a collection with their counts, sorted by name."""
        rows = self._rows(_COUNTED, collection_id=collection_id)
        with self._database.readable():
            return tuple((_set(row), _counts(row)) for row in rows)

    def add(self, result_set: ResultSet, results: Sequence[Result]) -> None:
        """Add the result set if it does not exist, and append the results to it.

        If an error occurs, nothing is stored.
        """
        with self._database.writing() as connection:
            if (
                connection.execute(_FIND, {"collection_id": result_set.collection_id, "name": result_set.id}).first()
                is None
            ):
                connection.execute(insert(_sets), result_set.model_dump(mode="json"))
            if results:
                connection.execute(insert(_results), [result.model_dump(mode="json") for result in results])

    def put(self, result: Result) -> None:
        """Store the outcome of a request. An error never replaces an answer."""
        row = result.model_dump(mode="json", include=set(_CHANGED))
        self._database.execute(_PUT if result.output is not None else _PUT_ERROR, {**row, "of_id": result.id})

    def results(self, result_set_id: str) -> tuple[Result, ...]:
        """Return all results of a set, in the order of its requests."""
        with self._database.readable():
            return tuple(map(_result, self._rows(_OF_SET, result_set_id=result_set_id)))

    def result(self, result_set_id: str, result_id: str) -> Result | None:
        with self._database.readable():
            return next(map(_result, self._rows(_RESULT_BY_ID, result_set_id=result_set_id, id=result_id)), None)

    def answered(self, key: str) -> Result | None:
        """Return the oldest result that answers the question with this key."""
        with self._database.readable():
            return next(map(_result, self._rows(_ANSWERED, key=key)), None)

    @contextmanager
    def lock(self, result_set_id: str) -> Iterator[None]:
        """Lock a result set.

        The lock is released when the process ends. Raises `UnavailableError` if another process has locked the set.
        """
        with self._database.claimed(f"results-{result_set_id}") as acquired:
            if not acquired:
                raise UnavailableError(
                    "another process is already working on this result set.\nWait for it, or end it and try again."
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


_OUTCOME = TypeAdapter[Reply | UnansweredQuestion](Reply | UnansweredQuestion)
_TAKE_KEY = insert_unless_exists(batch_items)


def open_batches(place: Path | str) -> "BatchStore":
    """Open the batches of the store in a folder or on a server. Raises the same errors as `open_database`."""
    return BatchStore(open_database(place))


class BatchStore:
    """Batches and their answers. Each batch is stored as an intent before it is sent.

    Many processes may use the store at once.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def claim(self, intent_id: str) -> AbstractContextManager[bool]:
        """Try to claim an intent. Called before the intent is submitted or its batch is looked up.

        Yields False if another process has claimed the intent.
        """
        return self._database.claimed(f"batch-{intent_id}")

    def add(self, intent: BatchIntent) -> BatchIntent:
        """Store an intent without the keys that other intents already contain, and return the intent as stored.

        If no key remains, store nothing.
        """
        with self._database.writing() as connection:
            rows = [{"key": key, "intent_id": intent.id} for key in dict.fromkeys(intent.keys)]
            # Executed one by one, because only the row count of a single insert tells whether its key was new.
            new_keys = [row["key"] for row in rows if connection.execute(_TAKE_KEY, row).rowcount]
            if new_keys:
                row = {"id": intent.id, "created": intent.created.isoformat()}
                connection.execute(insert(batch_intents), row)
        return intent.model_copy(update={"keys": tuple(new_keys)})

    def of(self, key: str) -> BatchIntent | None:
        """Return the intent that contains the request with this key."""
        intent_id = select(batch_items.c.intent_id).where(batch_items.c.key == key).scalar_subquery()
        with self._database.transaction() as connection:
            row = connection.execute(select(batch_intents).where(batch_intents.c.id == intent_id)).mappings().first()
            if row is None:
                return None
            keys = connection.scalars(select(batch_items.c.key).where(batch_items.c.intent_id == row["id"])).all()
        created = datetime.fromisoformat(row["created"])
        return BatchIntent(id=row["id"], keys=tuple(keys), created=created, batch_id=row["batch_id"])

    def submitted(self, intent_id: str, batch_id: str) -> None:
        statement = update(batch_intents).where(batch_intents.c.id == intent_id)
        with self._database.transaction() as connection:
            connection.execute(statement.values(batch_id=batch_id))

    def drop(self, intent_id: str) -> None:
        """Delete an intent whose batch was not created or has expired, and its unanswered requests.

        Answers that were already stored are kept.
        """
        unanswered = (batch_items.c.intent_id == intent_id) & batch_items.c.body.is_(None)
        with self._database.writing() as connection:
            connection.execute(delete(batch_items).where(unanswered))
            connection.execute(delete(batch_intents).where(batch_intents.c.id == intent_id))

    def batch_ids(self) -> frozenset[str]:
        """Return the ids of all batches that belong to stored intents."""
        statement = select(batch_intents.c.batch_id).where(batch_intents.c.batch_id.is_not(None))
        with self._database.transaction() as connection:
            return frozenset(connection.scalars(statement).all())

    def settle(self, outcomes: Mapping[str, Reply | UnansweredQuestion]) -> None:
        """Store the outcomes of a batch's requests."""
        with self._database.writing() as connection:
            for key, outcome in outcomes.items():
                body = zlib.compress(_OUTCOME.dump_json(outcome))
                connection.execute(update(batch_items).where(batch_items.c.key == key).values(body=body))

    def outcome(self, key: str) -> Reply | UnansweredQuestion | None:
        row = self._database.row(batch_items, key=key)
        if row is None or row["body"] is None:
            return None
        return self._database.unpacked(row["body"], _OUTCOME, f"batch item {key}")

    def take(self, key: str) -> bool:
        """Mark a request's answer as taken.

        Returns False if the answer is missing or was already taken. The cost of an answer is counted only when the
        answer is taken for the first time.
        """
        # Checked and marked in one statement, so that of several processes only one counts the cost.
        statement = update(batch_items).where(
            batch_items.c.key == key, batch_items.c.body.is_not(None), ~batch_items.c.taken
        )
        with self._database.transaction() as connection:
            return connection.execute(statement.values(taken=True)).rowcount == 1

    def release(self, key: str) -> None:
        """Delete an answer that was taken, so that the request can be sent again.

        An answer that has not been taken is kept.
        """
        with self._database.transaction() as connection:
            connection.execute(delete(batch_items).where(batch_items.c.key == key, batch_items.c.taken))

    def close(self) -> None:
        self._database.close()
