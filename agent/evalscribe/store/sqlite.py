"""Open, check and shrink the SQLite file of a workspace."""

import json
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pydantic import ValidationError
from sqlalchemy import (
    JSON,
    URL,
    Boolean,
    Column,
    Connection,
    Engine,
    Float,
    Integer,
    LargeBinary,
    Table,
    create_engine,
    event,
)
from sqlalchemy.engine.interfaces import DBAPIConnection

from evalscribe.errors import AccessError, DataError, UnavailableError
from evalscribe.ids import path_part
from evalscribe.model.run import Eval, Step
from evalscribe.store import errors, lock, tables
from evalscribe.store.statements import json_text

PAGES = 2_000
"""Maximum number of pages released at once. The number is small so that other processes do not have to wait long."""
INCREMENTAL = 2
"""Value of `auto_vacuum` in a file that can be shrunk page by page."""


def give_back(engine: Engine, path: Path) -> int:
    """Shrink the file and return the number of bytes released; 0 if another process uses the file.

    Unused space that was not released stays in the file, and SQLite uses this space again.
    """
    size_before = _size(path)
    raw = engine.raw_connection()
    try:
        cursor = raw.cursor()
        _shrink(cursor)
        # Changes reach the file only at a checkpoint. Until then, the file keeps its size.
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    except sqlite3.OperationalError as error:
        # Another process uses the file. It reuses the free space, so nothing is lost.
        if not str(getattr(error, "sqlite_errorname", "")).startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            raise
    finally:
        raw.close()
    return max(0, size_before - _size(path))


def _shrink(cursor: Any) -> None:
    if _number(cursor, "auto_vacuum") != INCREMENTAL:
        # An older evalscribe created the file. Once the file has been fully rewritten, it can be shrunk page by page.
        cursor.execute("PRAGMA auto_vacuum=INCREMENTAL")
        cursor.execute("VACUUM")
    while free := _number(cursor, "freelist_count"):
        cursor.execute(f"PRAGMA incremental_vacuum({PAGES})").fetchall()
        # Another process can add free pages as fast as they are released, so the loop ends without progress.
        if _number(cursor, "freelist_count") >= free:
            return


def _number(cursor: Any, pragma: str) -> int:
    return int(cursor.execute(f"PRAGMA {pragma}").fetchone()[0])


def _size(path: Path) -> int:
    """Return the size of the file and its write-ahead log."""
    files = (path, path.with_name(f"{path.name}-wal"))
    return sum(file.stat().st_size for file in files if file.exists())


_TEMPORARY_ERRORS = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_IOERR", "SQLITE_CANTOPEN", "SQLITE_NOMEM")


def find_damage(path: Path) -> str | None:
    """Describe the first problem in the file.

    Returns None if there is no problem, or if the file cannot be read at the moment.
    """
    if not path.is_file():
        return None
    try:
        # Opened read-only and without SQLAlchemy, because the search for damage must neither change the file nor fail
        # on the damaged values.
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as connection:
            connection.row_factory = sqlite3.Row
            return next(
                (problem for table in tables.metadata.sorted_tables for problem in _problems(connection, table)), None
            )
    except sqlite3.Error as error:
        # A file that is locked or cannot be opened now is not damaged.
        return None if (getattr(error, "sqlite_errorname", None) or "").startswith(_TEMPORARY_ERRORS) else str(error)


def _problems(connection: sqlite3.Connection, table: Table) -> Iterator[str]:
    names = [row["name"] for row in connection.execute(f'PRAGMA table_info("{table.name}")')]
    if missing := [column.name for column in table.c if column.name not in names]:
        yield f"the table {table.name} has no {', '.join(missing)}"
        return
    for number, row in enumerate(connection.execute(f'SELECT * FROM "{table.name}"'), 1):  # noqa: S608 (ours)
        for column in table.c:
            if problem := _value_problem(column, row[column.name]):
                yield f"{table.name}.{column.name} of row {number} {problem}"
        if problem := _row_problem(table, row):
            yield f"row {number} of {table.name} {problem}"


def _value_problem(column: Column[Any], value: Any) -> str:
    if value is None:
        return "" if column.nullable else "is empty"
    kind = column.type
    if isinstance(kind, LargeBinary):
        return "" if _is_compressed(value) else "cannot be unpacked"
    if isinstance(kind, JSON):
        return "" if _is_json(value) else "is not JSON"
    if isinstance(kind, Boolean):
        return "" if value in (0, 1) else "is not a boolean"
    if isinstance(kind, Integer):
        return "" if isinstance(value, int) else "is not an integer"
    if isinstance(kind, Float):
        return "" if isinstance(value, int | float) else "is not a number"
    return "" if isinstance(value, str) else "is not text"


def _is_compressed(value: Any) -> bool:
    try:
        zlib.decompress(value)
    except (zlib.error, TypeError):
        return False
    return True


def _is_json(value: Any) -> bool:
    try:
        json.loads(value)
    except (ValueError, TypeError, RecursionError):
        return False
    return isinstance(value, str)


def _row_problem(table: Table, row: sqlite3.Row) -> str:
    """Describe a problem in a row; an empty string if there is no problem.

    Only tables whose rows are not validated on reading are checked. Those tables are the ones with many rows.
    """
    try:
        if table is tables.evals:
            Eval(id=row["eval_id"], **{name: row[name] for name in Eval.model_fields if name != "id"})
        elif table is tables.steps:
            Step(**{name: row[name] for name in Step.model_fields})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        return f"cannot be read ({'.'.join(map(str, first['loc']))}: {first['msg']})"
    for name, kind in _SHAPES.get(table.name, {}).items():
        if not isinstance(json.loads(row[name]), kind):
            return f"cannot be read ({name} has another shape)"
    return ""


_SHAPES: dict[str, dict[str, type]] = {
    tables.evals.name: {"metadata_json": dict, "missing": list},
    tables.transcripts.name: {"metadata_json": dict, "messages": list},
    tables.scores.name: {"metadata_json": dict},
    tables.findings.name: {"finding_json": dict},
    tables.labels.name: {"label_json": dict},
}
"""Types that the values of JSON columns must have, for columns that are not validated when they are read."""


FILE = "store.db"
BUSY_S = 60
"""Maximum seconds that an operation waits for other writers.

SQLite keeps no queue: a waiting writer tries again every 0.1 seconds, and others can get ahead of it. With four writers
per file on a very busy machine, about one write in 250 waited for more than 10 seconds.
"""


@dataclass(frozen=True)
class DatabaseFile:
    """An `evalscribe.store.database.DatabasePlace` for a SQLite file."""

    folder: Path

    @property
    def path(self) -> Path:
        return self.folder / FILE

    @property
    def shown(self) -> str:
        return str(self.path)

    def engine(self) -> Engine:
        _make_folder(self.folder)
        url = URL.create("sqlite", database=str(self.path))
        # JSON columns are rendered by `json_text`, so that the text is the same on both engines.
        engine = create_engine(url, connect_args={"timeout": BUSY_S}, json_serializer=json_text)
        event.listen(engine, "connect", _tune)
        return engine

    def version(self, engine: Engine) -> str:  # noqa: ARG002  used only for servers
        return f"SQLite {sqlite3.sqlite_version}"

    def explained(self) -> AbstractContextManager[None]:
        return errors.translate_errors(self.path)

    def damaged(self, problem: str) -> DataError:
        return errors.damaged(self.path, problem)

    def foreign(self) -> DataError:
        return DataError(
            f"{self.path} is not a store of evalscribe and was not changed.\nMove it away and start again."
        )

    @contextmanager
    def upgrading(self, engine: Engine) -> Iterator[Connection]:
        # Another process can create or upgrade the file at the same time. SQLite cannot change `journal_mode` inside a
        # transaction, so its own lock comes too late.
        with lock.exclusive(self.path.with_suffix(".upgrade.lock")), engine.connect() as connection:
            # `auto_vacuum` only has an effect if it is set before the first table is created.
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
        return give_back(engine, self.path)

    def run_lock(self, run_id: str) -> AbstractContextManager[None]:
        return lock.run_lock(self.folder, run_id)

    def run_holder(self, engine: Engine, run_id: str) -> str | None:  # noqa: ARG002
        return lock.run_holder(self.folder, run_id)

    def claimed(self, name: str) -> AbstractContextManager[bool]:
        return lock.claimed(self.folder / f"{path_part(name)}.lock")

    def problem(self) -> str | None:
        return find_damage(self.path)

    def check(self) -> None:
        """Raise `UnavailableError` if the database file was removed, because further writes would be lost."""
        # Locks need no check, because the kernel does not take a lock away from a live process.
        if not self.path.exists():
            raise UnavailableError(f"{self.path} was removed while in use: nothing more can be stored.")


def _make_folder(folder: Path) -> None:
    _refuse_link(folder)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in folder.iterdir():
        # A link in place of the database, its log or a lock file would also make us write to another file.
        _refuse_link(path)
    # The store contains evidence, which other users of the machine must not read. `mkdir` leaves the mode of an
    # existing folder.
    if folder.stat().st_mode & 0o077:
        folder.chmod(0o700)
    if (folder / FILE).is_dir():
        raise DataError(f"{folder / FILE} is a folder, not a store.\nMove it away and start again.")
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n")


def _refuse_link(path: Path) -> None:
    """Raise `AccessError` if the path is a symbolic link.

    Someone might have planted the link to make us write to another file.
    """
    if path.is_symlink():
        raise AccessError(
            f"{path} is a symbolic link, which may point anywhere, so the store is not used.\nRemove the link."
        )


def _tune(connection: DBAPIConnection, _record: object) -> None:
    # With `synchronous=NORMAL` in WAL mode, a power cut can lose the last writes, but killing the process loses
    # nothing. Neither of them damages the database.
    cursor = connection.cursor()
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.close()
