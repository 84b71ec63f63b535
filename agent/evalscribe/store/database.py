"""Open and upgrade one database that many processes use at once."""

import json
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError
from sqlalchemy import Connection, Engine, Executable, Table, event, inspect, select

from evalscribe.errors import DataError, RubricError, UsageError
from evalscribe.store import tables
from evalscribe.store.errors import unstorable
from evalscribe.store.sqlite import DatabaseFile
from evalscribe.store.statements import by_key
from evalscribe.store.tables import HEAD, revisions, verdicts

MIGRATIONS = Path(__file__).parent / "migrations"
_STORE_TABLES = frozenset((revisions.name, verdicts.name))
"""Tables that every revision of the store has. A database with only alembic's table can belong to another program."""


class DatabasePlace(Protocol):
    """Location of a database, with the operations that depend on its engine."""

    @property
    def shown(self) -> str:
        """Name of the database in messages, without a password."""

    def engine(self) -> Engine: ...
    def version(self, engine: Engine) -> str:
        """Return the name and version of the database engine."""

    def explained(self) -> AbstractContextManager[None]:
        """Translate database errors in the `with` block into an `EvalscribeError`."""

    def damaged(self, problem: str) -> DataError: ...
    def foreign(self) -> DataError:
        """Return the error for the case that the database belongs to another program."""

    def upgrading(self, engine: Engine) -> AbstractContextManager[Connection]:
        """Wait for exclusive access, then open a transaction in which the database can be created or upgraded."""

    def begin_reading(self, connection: Connection) -> None:
        """Begin a read transaction that does not see later writes of other processes."""

    def begin_writing(self, connection: Connection) -> None:
        """Begin a write transaction. Only one write transaction can be open at a time."""

    def give_back(self, engine: Engine) -> int:
        """Give unused space back to the disk if no other process uses the database. Return the bytes given back."""

    def run_lock(self, run_id: str) -> AbstractContextManager[None]:
        """Lock a run.

        The lock is released when the process ends. Raises `UnavailableError`, naming the holder, if the run is already
        locked.
        """

    def run_holder(self, engine: Engine, run_id: str) -> str | None:
        """Describe the process that has locked a run; None if the run is not locked. Takes no lock itself."""

    def claimed(self, name: str) -> AbstractContextManager[bool]:
        """Try to claim a name, and yield whether this succeeded. The claim is released when the process ends."""

    def problem(self) -> str | None:
        """Read the whole database, and describe the first problem found; None if there is no problem."""

    def check(self) -> None:
        """Raise `UnavailableError` if the database was removed or another process took over a lock of this process."""


def upgrade(place: DatabasePlace, engine: Engine) -> None:
    """Upgrade a database to the newest revision.

    Raises `DataError` and changes nothing if another program or a newer evalscribe created the database.
    """
    if revision(engine) == HEAD:
        return
    # Checked before the database is locked and changed. alembic would create its tables in the database of another
    # program.
    with engine.connect() as connection:
        _refuse_foreign(place, connection)
        _refuse_unnumbered(place, connection)
    with place.upgrading(engine) as connection:
        _upgrade(connection, place)


def revision(engine: Engine) -> str | None:
    """Return the current revision of the database."""
    with engine.connect() as connection:
        if not inspect(connection).has_table(revisions.name):
            return None
        return connection.scalar(select(revisions.c.version_num))


def _refuse_foreign(place: DatabasePlace, connection: Connection) -> None:
    tables = inspect(connection).get_table_names()
    if tables and not _STORE_TABLES.issubset(tables):
        raise place.foreign()


def _refuse_unnumbered(place: DatabasePlace, connection: Connection) -> None:
    """Raise `DataError` if the store's revision is unknown, because alembic would run all migrations again."""
    if not inspect(connection).has_table(revisions.name):
        return
    numbers = connection.scalars(select(revisions.c.version_num)).all()
    if len(numbers) != 1 or not isinstance(numbers[0], str) or not numbers[0].strip():
        problem = (
            "is empty" if not numbers else "has no readable revision" if len(numbers) == 1 else "has several revisions"
        )
        raise place.damaged(f"its version table {revisions.name} {problem}, so its revision is unknown")


def _upgrade(connection: Connection, place: DatabasePlace) -> None:
    # alembic is imported only for an upgrade. A store at the newest revision opens without it.
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    # A percent sign in the path is doubled, because alembic reads options with interpolation.
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise DataError(
            f"the store {place.shown} was written by a newer evalscribe ({error}).\n"
            "Upgrade evalscribe, or use another folder; nothing in the store was changed."
        ) from error


T = TypeVar("T")

_GET = {table.name: by_key(table) for table in tables.metadata.tables.values()}


_opened: dict[DatabasePlace, None] = {}
"""Stores that this process has opened. The store that was opened last comes last."""


def open_database(place: Path | str) -> "Database":
    """Open the database in a folder or at a postgresql:// URL.

    A missing folder is created. Other users cannot read it, and git ignores it.

    Raises:
        AccessError: The folder or database may not be written.
        UnavailableError: The disk is full, or no server answers.
        DataError: The database is damaged, belongs to another program, or was written by a newer evalscribe.
    """
    target = _place(place)
    with target.explained():
        engine = target.engine()
        # NUL is replaced on both engines, and also in the values of searches, so that a search for the original text
        # finds the stored text.
        event.listen(engine, "before_cursor_execute", _replace_nul, retval=True)
        try:
            upgrade(target, engine)
        except BaseException:
            # Also after Ctrl-C, because an open connection would keep its locks.
            engine.dispose()
            raise
    # Removed and added again, so that the store that was opened last comes last.
    _opened.pop(target, None)
    _opened[target] = None
    return Database(target, engine)


def damage() -> DataError | None:
    """Return the error for a damaged store; None if no opened store is damaged.

    Called after an unexpected exception, to distinguish damage from a bug. Checks every store that this process has
    opened, the most recent first, because a server process can open several stores.
    """
    problems = ((place, place.problem()) for place in reversed(_opened))
    return next((place.damaged(problem) for place, problem in problems if problem), None)


class Database:
    """An open database: transactions, rows by primary key, packed values and locks."""

    def __init__(self, place: DatabasePlace, engine: Engine) -> None:
        self.place = place
        self._engine = engine

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Open a transaction. Either all of its changes are written or none."""
        with self.place.explained(), self.readable(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a transaction that sees the database in its state at the transaction's first statement.

        Raises `UnavailableError` if the database was removed or another process took over a lock of this process.
        """
        with self.place.explained(), self.readable(), self._engine.connect() as connection:
            # Write transactions do not check the locks, because the data that they write might have been paid for.
            self.place.check()
            self.place.begin_reading(connection)
            yield connection

    @contextmanager
    def readable(self) -> Iterator[None]:
        """Raise `DataError` if the `with` block cannot convert a row because the row is damaged.

        Rows can be damaged because SQLite lets any program put any value into any column.
        """
        try:
            yield
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            location = ".".join(map(str, (error.title, *first["loc"])))
            raise self.place.damaged(f"a row cannot be read ({location}: {first['msg']})") from error
        except (RubricError, json.JSONDecodeError, UnicodeDecodeError) as error:
            raise self.place.damaged(f"a row cannot be read ({error})") from error

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Open an exclusive write transaction.

        No other process can change the data between the reads and the writes of this transaction.
        """
        with self.transaction() as connection:
            self.place.begin_writing(connection)
            yield connection

    def row(self, table: Table, **key: object) -> Any:
        """Return the row with the given primary key, or None."""
        with self.transaction() as connection:
            self.place.check()
            return connection.execute(_GET[table.name], key).mappings().one_or_none()

    def execute(self, statement: Executable, values: dict[str, Any]) -> None:
        with self.transaction() as connection:
            connection.execute(statement, values)

    def unpacked(self, body: bytes, shape: TypeAdapter[T], description: str) -> T:
        """Unpack a stored value. Raises `DataError` if the value is damaged. `description` names the value."""
        try:
            return shape.validate_json(self.unzip(body))
        except (ValidationError, DataError) as error:
            raise self.place.damaged(f"{description} cannot be read") from error

    def unzip(self, body: bytes) -> bytes:
        try:
            return zlib.decompress(body)
        except (zlib.error, TypeError) as error:
            raise self.place.damaged(f"a row cannot be read ({error})") from error

    @contextmanager
    def run_lock(self, run_id: str) -> Iterator[None]:
        """Lock a run for this process.

        Raises `UnavailableError`, with the holder and the time of locking, if another process has locked the run.
        """
        with ExitStack() as stack:
            # Only taking the lock is translated. An error of the caller inside the `with` block is not an error of the
            # store.
            with self.place.explained():
                stack.enter_context(self.place.run_lock(run_id))
            yield

    def run_holder(self, run_id: str) -> str | None:
        """Describe the process that has locked a run; None if the run is not locked."""
        with self.place.explained():
            return self.place.run_holder(self._engine, run_id)

    @contextmanager
    def claimed(self, name: str) -> Iterator[bool]:
        """Try to claim a name, and yield whether this succeeded."""
        with ExitStack() as stack:
            with self.place.explained():
                acquired = stack.enter_context(self.place.claimed(name))
            yield acquired

    def describe(self) -> str:
        """Describe this database for the output of `evalscribe doctor`."""
        return f"{self.place.shown} can be written: {self.place.version(self._engine)}, revision {tables.HEAD}"

    def give_back(self) -> int:
        """Give unused space back to the disk if no other process uses the database. Return the bytes given back."""
        with self.place.explained():
            return self.place.give_back(self._engine)

    def close(self) -> None:
        self._engine.dispose()


def pack(value: BaseModel) -> bytes:
    """Render a value as JSON and compress it.

    Raises `DataError` for an unpaired surrogate. JSON and Python allow unpaired surrogates, but UTF-8 does not.
    """
    try:
        return zlib.compress(value.model_dump_json().encode())
    except ValueError as error:  # naming pydantic's own exception would need an import of pydantic_core
        raise unstorable() from error


def _place(place: Path | str) -> DatabasePlace:
    if isinstance(place, Path):
        return DatabaseFile(place)
    try:
        from evalscribe.store.postgres import server_at
    except ImportError as error:
        raise UsageError("a store on a server needs psycopg: pip install 'evalscribe[postgres]'") from error
    return server_at(place)


def _replace_nul(
    _connection: object, _cursor: object, statement: str, parameters: Any, _context: object, many: bool
) -> tuple[str, Any]:
    """Replace NUL characters in all parameters of a statement, because texts in Postgres cannot contain NUL."""
    return statement, [_clean_row(row) for row in parameters] if many else _clean_row(parameters)


def _clean_row(row: Any) -> Any:
    # Most rows contain no NUL and are passed on without a copy.
    for value in row.values() if isinstance(row, dict) else row:
        if isinstance(value, str) and "\x00" in value:
            break
    else:
        return row
    if isinstance(row, dict):
        return {name: _clean_value(value) for name, value in row.items()}
    return tuple(_clean_value(value) for value in row)


def _clean_value(value: Any) -> Any:
    return value.replace("\x00", "\ufffd") if isinstance(value, str) else value
