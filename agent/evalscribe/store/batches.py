"""Batches that were sent or are about to be, over SQLAlchemy Core."""

import zlib
from collections.abc import Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path

from pydantic import TypeAdapter
from sqlalchemy import delete, insert, select, update

from evalscribe.model.chat import Reply
from evalscribe.model.storage import BatchIntent, UnansweredQuestion
from evalscribe.store.database import Database, open_database
from evalscribe.store.statements import unless_there
from evalscribe.store.tables.said import batch_intents, batch_items

_OUTCOME = TypeAdapter[Reply | UnansweredQuestion](Reply | UnansweredQuestion)
_TAKE_KEY = unless_there(batch_items)


def open_intents(place: Path | str) -> "SqlIntents":
    """The intents of the store in a folder or on a server. Raises as `open_database` does."""
    return SqlIntents(open_database(place))


class SqlIntents:
    """An `evalscribe.model.storage.BatchStore`; usable by many processes at once."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def claim(self, intent_id: str) -> AbstractContextManager[bool]:
        return self._database.claimed(f"batch-{intent_id}")

    def add(self, intent: BatchIntent) -> BatchIntent:
        with self._database.writing() as connection:
            rows = [{"key": key, "intent_id": intent.id} for key in dict.fromkeys(intent.keys)]
            taken = [row["key"] for row in rows if connection.execute(_TAKE_KEY, row).rowcount]
            if taken:
                row = {"id": intent.id, "created": intent.created.isoformat()}
                connection.execute(insert(batch_intents), row)
        return intent.model_copy(update={"keys": tuple(taken)})

    def of(self, key: str) -> BatchIntent | None:
        found = select(batch_items.c.intent_id).where(batch_items.c.key == key).scalar_subquery()
        with self._database.transaction() as connection:
            row = connection.execute(select(batch_intents).where(batch_intents.c.id == found)).mappings().first()
            if row is None:
                return None
            keys = connection.scalars(select(batch_items.c.key).where(batch_items.c.intent_id == row["id"])).all()
        created = datetime.fromisoformat(row["created"])
        return BatchIntent(id=row["id"], keys=tuple(keys), created=created, batch_id=row["batch_id"])

    def submitted(self, intent_id: str, batch_id: str) -> None:
        row = update(batch_intents).where(batch_intents.c.id == intent_id)
        with self._database.transaction() as connection:
            connection.execute(row.values(batch_id=batch_id))

    def drop(self, intent_id: str) -> None:
        unanswered = (batch_items.c.intent_id == intent_id) & batch_items.c.body.is_(None)
        with self._database.writing() as connection:
            connection.execute(delete(batch_items).where(unanswered))
            connection.execute(delete(batch_intents).where(batch_intents.c.id == intent_id))

    def batch_ids(self) -> frozenset[str]:
        known = select(batch_intents.c.batch_id).where(batch_intents.c.batch_id.is_not(None))
        with self._database.transaction() as connection:
            return frozenset(connection.scalars(known).all())

    def settle(self, outcomes: Mapping[str, Reply | UnansweredQuestion]) -> None:
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
        row = update(batch_items).where(batch_items.c.key == key, batch_items.c.body.is_not(None), ~batch_items.c.taken)
        with self._database.transaction() as connection:
            return connection.execute(row.values(taken=True)).rowcount == 1

    def release(self, key: str) -> None:
        with self._database.transaction() as connection:
            connection.execute(delete(batch_items).where(batch_items.c.key == key, batch_items.c.taken))

    def close(self) -> None:
        self._database.close()
