"""Read SQLite databases of other tools without changing them. The databases can be damaged or hostile."""

import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from evalscribe.errors import AccessError, DataError
from evalscribe.sources.files import open_regular

MAX_VALUE_BYTES = 64 * 1024 * 1024
MAX_SECONDS = 30.0
"""Maximum number of seconds between two rows of a query.

A query on a hostile schema could otherwise run forever.
"""
SECONDS_PER_MEGABYTE = 1.0
"""Time limit for all queries together, in seconds per megabyte of the file. `MAX_SECONDS` is added to this limit."""
_INSTRUCTIONS = 10_000
"""Number of SQLite instructions between two checks of the time limit."""


class SqliteFile:
    """A database that is opened only for reading.

    `trusted_schema` stays on, because the indexes in promptfoo's databases use JSON functions, and these databases do
    not open otherwise. A schema can therefore call functions. These functions cannot reach anything outside the
    database, and this class limits their time and memory.
    """

    def __init__(self, path: Path) -> None:
        """Open the database. Raises `AccessError` if SQLite cannot open it, and the same errors as `open_regular`."""
        open_regular(path).close()
        self._path = path
        self._started = self._until = 0.0
        self._remaining_s = MAX_SECONDS + path.stat().st_size / 1_000_000 * SECONDS_PER_MEGABYTE
        # `immutable` keeps SQLite from writing files, such as a lock, next to the database. The option is not used if
        # there is a write-ahead log, because SQLite would then ignore the log.
        log = path.with_name(f"{path.name}-wal")
        mode = "mode=ro" if log.is_file() and log.stat().st_size else "mode=ro&immutable=1"
        try:
            self._connection = sqlite3.connect(f"file:{quote(str(path.absolute()))}?{mode}", uri=True)
        except sqlite3.Error as error:
            raise AccessError(f"{path} cannot be opened: {error}") from None
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
        # By default, `sqlite3` raises an error for text that is not valid UTF-8.
        self._connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        self._connection.set_progress_handler(lambda: time.monotonic() > self._until, _INSTRUCTIONS)
        # With this check, SQLite finds a damaged page when it reads the page, and not later.
        list(self.rows("PRAGMA cell_size_check = ON"))

    def columns(self, table: str) -> frozenset[str]:
        """Return the names of a table's columns; empty if there is no such table.

        Raises `DataError` if the database is damaged. Generated columns are left out. Views are also left out, even if
        the schema calls them tables, because a view can yield an endless number of rows.
        """
        # A hostile schema can call a view a table in `sqlite_master`, which older versions of SQLite must use.
        tables = "pragma_table_list" if sqlite3.sqlite_version_info >= (3, 37) else "sqlite_master"
        if not list(self.rows(f"SELECT 1 FROM {tables} WHERE type = 'table' AND name = ?", table)):  # noqa: S608
            return frozenset()
        return frozenset(str(name) for (name,) in self.rows("SELECT name FROM pragma_table_info(?)", table))

    def rows(self, query: str, *values: object) -> Iterator[tuple[object, ...]]:
        """Yield the rows of a query. Raises `DataError` if the database is damaged or too slow."""
        try:
            self._start()
            cursor = self._connection.execute(query, values)
            # Only SQLite's own time counts, not the time that the caller spends on a row.
            while (row := cursor.fetchone()) is not None:
                self._stop()
                yield row
                self._start()
            self._stop()
        except (sqlite3.Error, sqlite3.Warning, OverflowError) as error:
            raise DataError(f"{self._path} cannot be read: {error}") from None

    def _start(self) -> None:
        self._started = time.monotonic()
        self._until = self._started + min(MAX_SECONDS, self._remaining_s)

    def _stop(self) -> None:
        self._remaining_s -= time.monotonic() - self._started
        if self._remaining_s <= 0:
            raise DataError(f"{self._path} cannot be read: its queries take too long")

    def close(self) -> None:
        self._connection.close()
