"""The database as a SQLite file in a folder of the workspace's."""

import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection

from evalscribe.errors import AccessError, DataError, UnavailableError
from evalscribe.ids import path_part
from evalscribe.store import examine, failures, lock, room
from evalscribe.store.json_text import json_text

FILE = "store.db"
BUSY_S = 10
"""How long an operation waits for another process that writes."""


@dataclass(frozen=True)
class DatabaseFile:
    """An `evalscribe.store.database.Place`."""

    folder: Path

    @property
    def path(self) -> Path:
        return self.folder / FILE

    @property
    def shown(self) -> str:
        return str(self.path)

    def engine(self) -> Engine:
        _make(self.folder)
        url = URL.create("sqlite", database=str(self.path))
        engine = create_engine(url, connect_args={"timeout": BUSY_S}, json_serializer=json_text)
        event.listen(engine, "connect", _tune)
        return engine

    def version(self, engine: Engine) -> str:  # noqa: ARG002  a server is asked
        return f"SQLite {sqlite3.sqlite_version}"

    def explained(self) -> AbstractContextManager[None]:
        return failures.explained(self.path)

    def damaged(self, what: str) -> DataError:
        return failures.damaged(self.path, what)

    def foreign(self) -> DataError:
        return DataError(
            f"{self.path} is no store of evalscribe, and was left as it is.\nMove it away and start again."
        )

    @contextmanager
    def upgrading(self, engine: Engine) -> Iterator[Connection]:
        with lock.exclusive(self.path.with_suffix(".upgrade.lock")), engine.connect() as connection:
            # Only while there is no table yet.
            connection.exec_driver_sql("PRAGMA auto_vacuum=INCREMENTAL")
            connection.exec_driver_sql("PRAGMA journal_mode=WAL")
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            yield connection
            connection.commit()

    def begin_reading(self, connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN")

    def begin_writing(self, connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    def give_back(self, engine: Engine) -> int:
        return room.give_back(engine, self.path)

    def run_lock(self, run_id: str) -> AbstractContextManager[None]:
        return lock.run_lock(self.folder, run_id)

    def claimed(self, name: str) -> AbstractContextManager[bool]:
        return lock.claimed(self.folder / f"{path_part(name)}.lock")

    def problem(self) -> str | None:
        return examine.problem(self.path)

    def check(self) -> None:
        """The kernel takes no lock away from a process that lives; but what is written into a file that somebody
        removed is kept nowhere."""
        if not self.path.exists():
            raise UnavailableError(f"{self.path} was removed while it was worked with: nothing more can be kept.")


def _make(folder: Path) -> None:
    _refuse_link(folder)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in folder.iterdir():
        _refuse_link(path)
    if folder.stat().st_mode & 0o077:
        folder.chmod(0o700)
    if (folder / FILE).is_dir():
        raise DataError(f"{folder / FILE} is a folder, not a store.\nMove it away and start again.")
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n")


def _refuse_link(path: Path) -> None:
    """Whoever made the folder that we run in may have planted a link to what is not the store's to write."""
    if path.is_symlink():
        raise AccessError(f"{path} is a symbolic link, which may lead anywhere: the store is not used.\nRemove it.")


def _tune(connection: DBAPIConnection, _record: object) -> None:
    """In WAL mode NORMAL never damages the database; a power cut may cost the last moment, a kill costs nothing."""
    cursor = connection.cursor()
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.close()
