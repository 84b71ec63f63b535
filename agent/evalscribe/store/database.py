"""One SQLite file that many processes use at once. Every operation is one short transaction of its own."""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError
from sqlalchemy import URL, Connection, Engine, Executable, Table, create_engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection

from evalscribe.errors import AccessError, DataError
from evalscribe.store import tables
from evalscribe.store.failures import damaged, explained, unstorable
from evalscribe.store.schema import ensure
from evalscribe.store.statements import by_key

T = TypeVar("T")

FILE = "store.db"
BUSY_S = 10
"""How long an operation waits for another process that writes."""

_GET = {table.name: by_key(table) for table in tables.metadata.tables.values()}


def open_database(folder: Path) -> "Database":
    """The database in `folder`, which is made, private and out of git, when it is missing.

    Raises `AccessError` where nothing may be written or a symbolic link leads elsewhere, `UnavailableError` on a full
    disk, `DataError` for a database that is damaged, another program's, or newer than this evalscribe.
    """
    path = folder / FILE
    with explained(path):
        _make(folder)
        engine = _engine(path)
        try:
            ensure(engine, path)
        except BaseException:
            engine.dispose()
            raise
    return Database(engine, folder)


class Database:
    """Rows by their keys, and values packed into them."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self._engine = engine
        self.folder = folder

    @property
    def path(self) -> Path:
        return self.folder / FILE

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """What is written inside is written whole or not at all."""
        with explained(self.path), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction beside which nobody else writes: what it has read still holds when it writes."""
        with self.transaction() as connection:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            yield connection

    def row(self, table: Table, **key: object) -> Any:
        """The row with this primary key, or None."""
        with self.transaction() as connection:
            return connection.execute(_GET[table.name], key).mappings().one_or_none()

    def execute(self, statement: Executable, values: dict[str, Any]) -> None:
        with self.transaction() as connection:
            connection.execute(statement, values)

    def unpacked(self, body: bytes, shape: TypeAdapter[T], what: str) -> T:
        """The value that was packed. Raises `DataError`, which names `what`, for one that is none any more."""
        try:
            return shape.validate_json(self.unzip(body))
        except (ValidationError, DataError) as error:
            raise damaged(self.path, f"{what} cannot be read") from error

    def unzip(self, body: bytes) -> bytes:
        try:
            return zlib.decompress(body)
        except zlib.error as error:
            raise damaged(self.path, str(error)) from error

    def close(self) -> None:
        self._engine.dispose()


def pack(value: BaseModel) -> bytes:
    """Raises `DataError` for half a character, which JSON and Python can spell but no UTF-8 can hold."""
    try:
        return zlib.compress(value.model_dump_json().encode())
    except ValueError as error:  # pydantic's own kind of it cannot be named without its second package
        raise unstorable() from error


def _make(folder: Path) -> None:
    _refuse_link(folder)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in folder.iterdir():
        _refuse_link(path)
    if folder.stat().st_mode & 0o077:
        folder.chmod(0o700)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n")


def _refuse_link(path: Path) -> None:
    """Whoever made the folder that we run in may have planted a link to what is not the store's to write."""
    if path.is_symlink():
        raise AccessError(f"{path} is a symbolic link, which may lead anywhere: the store is not used.\nRemove it.")


def _engine(path: Path) -> Engine:
    engine = create_engine(URL.create("sqlite", database=str(path)), connect_args={"timeout": BUSY_S})
    event.listen(engine, "connect", _tune)
    return engine


def _tune(connection: DBAPIConnection, _record: object) -> None:
    """In WAL mode NORMAL never damages the database; a power cut may cost the last moment, a kill costs nothing."""
    cursor = connection.cursor()
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.close()
