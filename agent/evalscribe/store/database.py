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
_OURS = frozenset((revisions.name, verdicts.name))
"""Tables of every revision: other programs name their revisions in a table of the same name."""


class Upgradable(Protocol):
    """A database that is made or upgraded by one process at a time."""

    @property
    def shown(self) -> str: ...
    def foreign(self) -> DataError: ...
    def damaged(self, what: str) -> DataError: ...
    def upgrading(self, engine: Engine) -> AbstractContextManager[Connection]:
        """A transaction, after those of other processes that make or upgrade it."""


def upgrade(place: Upgradable, engine: Engine) -> None:
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


def _refuse_foreign(place: Upgradable, connection: Connection) -> None:
    tables = inspect(connection).get_table_names()
    if tables and not _OURS.issubset(tables):
        raise place.foreign()


def _refuse_unnumbered(place: Upgradable, connection: Connection) -> None:
    """Refuse a store without a revision: alembic would create all tables again beside the existing ones."""
    if not inspect(connection).has_table(revisions.name):
        return
    numbers = connection.scalars(select(revisions.c.version_num)).all()
    if len(numbers) != 1 or not isinstance(numbers[0], str) or not numbers[0].strip():
        what = (
            "is empty" if not numbers else "has no readable revision" if len(numbers) == 1 else "has several revisions"
        )
        raise place.damaged(f"its version table {revisions.name} {what}, so its form is not known")


def _upgrade(connection: Connection, place: Upgradable) -> None:
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


T = TypeVar("T")

_GET = {table.name: by_key(table) for table in tables.metadata.tables.values()}


class DatabasePlace(Protocol):
    """Where a database is, and what only its engine can do."""

    @property
    def shown(self) -> str:
        """What messages call it; never with a password."""

    def engine(self) -> Engine: ...
    def version(self, engine: Engine) -> str:
        """Of the program that keeps it, with its name."""

    def explained(self) -> AbstractContextManager[None]:
        """What goes wrong inside becomes an `EvalscribeError`."""

    def damaged(self, what: str) -> DataError: ...
    def foreign(self) -> DataError:
        """The database is another program's."""

    def upgrading(self, engine: Engine) -> AbstractContextManager[Connection]:
        """A transaction of the only process that makes or upgrades the database; waited for."""

    def begin_reading(self, connection: Connection) -> None:
        """What others write meanwhile is not seen."""

    def begin_writing(self, connection: Connection) -> None:
        """Of transactions that begin so there is one at a time."""

    def give_back(self, engine: Engine) -> int:
        """Give unused room back to the disk, as far as nobody else is at work; bytes."""

    def run_lock(self, run_id: str) -> AbstractContextManager[None]:
        """Dies with its process. Raises `UnavailableError` naming the holder."""

    def claimed(self, name: str) -> AbstractContextManager[bool]:
        """Whether nobody else had it; dies with its process."""

    def problem(self) -> str | None:
        """Read the whole database and describe the first problem; None if there is none."""

    def check(self) -> None:
        """Raises `UnavailableError` where another process has by now what this place was locked for."""


_opened: dict[DatabasePlace, None] = {}
"""Stores that this process has opened, the latest last."""


def open_database(place: Path | str) -> "Database":
    """The database in a folder, which is made, private and out of git, when it is missing; or at a postgresql:// URL.

    Raises `AccessError` where nothing may be written, `UnavailableError` on a full disk or without a server,
    `DataError` for a database that is damaged, another program's, or newer than this evalscribe.
    """
    found = _place(place)
    with found.explained():
        engine = found.engine()
        event.listen(engine, "before_cursor_execute", _without_nul, retval=True)
        try:
            upgrade(found, engine)
        except BaseException:
            engine.dispose()
            raise
    _opened.pop(found, None)
    _opened[found] = None
    return Database(found, engine)


def damage() -> DataError | None:
    """Return the damage of a store that this process has opened, to tell damage from a bug; None if there is none.

    The store that was opened last is examined first: a process that serves many calls may have opened others before.
    """
    found = ((place, place.problem()) for place in reversed(_opened))
    return next((place.damaged(problem) for place, problem in found if problem), None)


class Database:
    """Rows by their keys, and values packed into them."""

    def __init__(self, place: DatabasePlace, engine: Engine) -> None:
        self.place = place
        self._engine = engine

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """What is written inside is written whole or not at all."""
        with self.place.explained(), self.readable(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction whose statements all see the database as it is at the first of them.

        Whoever reads goes on with its work: here it hears that another process has its lock. Writing is never
        refused for that, since what is written may have been paid for.
        """
        with self.place.explained(), self.readable(), self._engine.connect() as connection:
            self.place.check()
            self.place.begin_reading(connection)
            yield connection

    @contextmanager
    def readable(self) -> Iterator[None]:
        """Context for turning rows into values. Raises `DataError` for a row that evalscribe cannot have written.

        SQLite lets any program put any value into any column.
        """
        try:
            yield
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, (error.title, *first["loc"])))
            raise self.place.damaged(f"a row cannot be read ({where}: {first['msg']})") from error
        except (RubricError, json.JSONDecodeError, UnicodeDecodeError) as error:
            raise self.place.damaged(f"a row cannot be read ({error})") from error

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction beside which there is no other of its kind: what it has read still holds when it writes."""
        with self.transaction() as connection:
            self.place.begin_writing(connection)
            yield connection

    def row(self, table: Table, **key: object) -> Any:
        """The row with this primary key, or None."""
        with self.transaction() as connection:
            self.place.check()
            return connection.execute(_GET[table.name], key).mappings().one_or_none()

    def execute(self, statement: Executable, values: dict[str, Any]) -> None:
        with self.transaction() as connection:
            connection.execute(statement, values)

    def unpacked(self, body: bytes, shape: TypeAdapter[T], what: str) -> T:
        """The value that was packed. Raises `DataError`, which names `what`, for one that is none any more."""
        try:
            return shape.validate_json(self.unzip(body))
        except (ValidationError, DataError) as error:
            raise self.place.damaged(f"{what} cannot be read") from error

    def unzip(self, body: bytes) -> bytes:
        try:
            return zlib.decompress(body)
        except (zlib.error, TypeError) as error:
            raise self.place.damaged(f"a row cannot be read ({error})") from error

    @contextmanager
    def run_lock(self, run_id: str) -> Iterator[None]:
        """Held while one process works on a run. Raises `UnavailableError` naming the holder and since when."""
        with ExitStack() as held:
            with self.place.explained():
                held.enter_context(self.place.run_lock(run_id))
            yield

    @contextmanager
    def claimed(self, name: str) -> Iterator[bool]:
        """Whether nobody else had it."""
        with ExitStack() as held:
            with self.place.explained():
                mine = held.enter_context(self.place.claimed(name))
            yield mine

    def told(self) -> str:
        """What `doctor` says of a database that is open."""
        return f"{self.place.shown} can be written: {self.place.version(self._engine)}, revision {tables.HEAD}"

    def give_back(self) -> int:
        """Give unused room back to the disk, as far as nobody else is at work; bytes."""
        with self.place.explained():
            return self.place.give_back(self._engine)

    def close(self) -> None:
        self._engine.dispose()


def pack(value: BaseModel) -> bytes:
    """Raises `DataError` for half a character, which JSON and Python can spell but no UTF-8 can hold."""
    try:
        return zlib.compress(value.model_dump_json().encode())
    except ValueError as error:  # pydantic's own kind of it cannot be named without its second package
        raise unstorable() from error


def _place(place: Path | str) -> DatabasePlace:
    if isinstance(place, Path):
        return DatabaseFile(place)
    try:
        from evalscribe.store.postgres import server_at
    except ImportError as error:
        raise UsageError("a store on a server needs psycopg: pip install 'evalscribe[postgres]'") from error
    return server_at(place)


def _without_nul(
    _connection: object, _cursor: object, statement: str, parameters: Any, _context: object, many: bool
) -> tuple[str, Any]:
    """Postgres texts cannot hold NUL. It is replaced in whatever is written or looked up, on both engines alike."""
    return statement, [_clean(row) for row in parameters] if many else _clean(parameters)


def _clean(row: Any) -> Any:
    for value in row.values() if isinstance(row, dict) else row:
        if isinstance(value, str) and "\x00" in value:
            break
    else:
        return row
    if isinstance(row, dict):
        return {name: _cleaned(value) for name, value in row.items()}
    return tuple(_cleaned(value) for value in row)


def _cleaned(value: Any) -> Any:
    return value.replace("\x00", "\ufffd") if isinstance(value, str) else value
