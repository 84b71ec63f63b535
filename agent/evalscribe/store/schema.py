"""Brings a database to the newest revision; alembic is imported only when there is something to do."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from sqlalchemy import Connection, Engine, inspect, select

from evalscribe.errors import DataError
from evalscribe.store.tables.base import HEAD, revisions
from evalscribe.store.tables.said import verdicts

MIGRATIONS = Path(__file__).parent / "migrations"
_OURS = frozenset((revisions.name, verdicts.name))
"""Tables of every revision: other programs name their revisions in a table of the same name."""


class Upgraded(Protocol):
    """A database that is made or upgraded by one process at a time."""

    @property
    def shown(self) -> str: ...
    def foreign(self) -> DataError: ...
    def damaged(self, what: str) -> DataError: ...
    def upgrading(self, engine: Engine) -> AbstractContextManager[Connection]:
        """A transaction, after those of other processes that make or upgrade it."""


def ensure(place: Upgraded, engine: Engine) -> None:
    """Raises `DataError` for a database that is another program's or a newer evalscribe's: it is left as it is."""
    if revision(engine) == HEAD:
        return
    with engine.connect() as connection:
        _refuse_foreign(place, connection)
        _refuse_unnumbered(place, connection)
    with place.upgrading(engine) as connection:
        _upgrade(connection, place)


def revision(engine: Engine) -> str | None:
    """Of the database as it is."""
    with engine.connect() as connection:
        if not inspect(connection).has_table(revisions.name):
            return None
        return connection.scalar(select(revisions.c.version_num))


def _refuse_foreign(place: Upgraded, connection: Connection) -> None:
    tables = inspect(connection).get_table_names()
    if tables and not _OURS.issubset(tables):
        raise place.foreign()


def _refuse_unnumbered(place: Upgraded, connection: Connection) -> None:
    """Refuse a store without a revision: alembic would create all tables again beside the existing ones."""
    if not inspect(connection).has_table(revisions.name):
        return
    numbers = connection.scalars(select(revisions.c.version_num)).all()
    if len(numbers) != 1 or not isinstance(numbers[0], str) or not numbers[0].strip():
        what = (
            "is empty" if not numbers else "has no readable revision" if len(numbers) == 1 else "has several revisions"
        )
        raise place.damaged(f"its version table {revisions.name} {what}, so its form is not known")


def _upgrade(connection: Connection, place: Upgraded) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise DataError(
            f"the store {place.shown} was written by a newer evalscribe ({error}).\n"
            "Upgrade evalscribe, or work in another folder; nothing in the store was changed."
        ) from error
