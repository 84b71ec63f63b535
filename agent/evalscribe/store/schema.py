"""Brings a database to the newest revision; alembic is imported only when there is something to do."""

from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, select

from evalscribe.errors import DataError
from evalscribe.store.lock import exclusive
from evalscribe.store.tables import HEAD, revisions

MIGRATIONS = Path(__file__).parent / "migrations"


def ensure(engine: Engine, path: Path) -> None:
    """Raises `DataError` for a database that is another program's or a newer evalscribe's: it is left as it is."""
    if _revision(engine) == HEAD:
        return
    with exclusive(path.with_suffix(".upgrade.lock")), engine.connect() as connection:
        _refuse_foreign(connection, path)
        connection.exec_driver_sql("PRAGMA journal_mode=WAL")
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        _upgrade(connection, path)
        connection.commit()


def _revision(engine: Engine) -> str | None:
    with engine.connect() as connection:
        if not inspect(connection).has_table(revisions.name):
            return None
        return connection.scalar(select(revisions.c.version_num))


def _refuse_foreign(connection: Connection, path: Path) -> None:
    tables = inspect(connection).get_table_names()
    connection.rollback()
    if tables and revisions.name not in tables:
        raise DataError(f"{path} is no store of evalscribe, and was left as it is.\nMove it away and start again.")


def _upgrade(connection: Connection, path: Path) -> None:
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
            f"the store {path} was written by a newer evalscribe ({error}).\n"
            "Upgrade evalscribe, or work in another folder; nothing in the store was changed."
        ) from error
