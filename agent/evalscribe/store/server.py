"""The database on a Postgres server, for a team or many machines."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.json import set_json_dumps, set_json_loads
from sqlalchemy import Connection, Engine, create_engine

from evalscribe.errors import DataError, UnavailableError, UsageError
from evalscribe.settings.database import without_password
from evalscribe.store.json_text import in_order, json_text
from evalscribe.store.lock import busy
from evalscribe.store.server_failures import explained
from evalscribe.store.server_lock import NAME, ServerLock, key

BUSY_S = 120
"""How long an operation waits for those that write before it: many machines may."""
OLDEST = 14
"""Of the server's versions."""
GONE = {"tcp_keepalives_idle": 30, "tcp_keepalives_interval": 10, "tcp_keepalives_count": 3}
"""After so many seconds the server lets a machine go that went without a word, and its locks."""
GONE_HERE = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3, "tcp_user_timeout": 60_000}
"""And we a server; the last is in milliseconds."""
PAUSE_S = 0.25
PATIENCE_S = 30
"""How long a server that answered once may be away, as one is that is started again: what is to be stored was paid."""
_BY_CODE_POINT = """
SELECT format('ALTER TABLE %%I %%s', table_name, string_agg(format(
  'ALTER COLUMN %%I TYPE %%s COLLATE "C"', column_name, data_type), ', '))
FROM information_schema.columns
WHERE table_schema = current_schema() AND data_type IN ('character varying', 'text') AND collation_name IS NULL
GROUP BY table_name
"""
"""Texts are compared and sorted as SQLite does, whatever the language of the server."""


def server_at(url: str) -> "DatabaseServer":
    """Raises `UsageError` for what is no address."""
    try:
        options(url)
    except psycopg.ProgrammingError:
        raise UsageError("the store's address cannot be read: it is postgresql://USER@HOST/DATABASE") from None
    return DatabaseServer(url)


@dataclass(frozen=True)
class DatabaseServer:
    """An `evalscribe.store.database.Place`."""

    url: str = field(repr=False)
    """May hold a password."""
    _held: list[ServerLock] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def shown(self) -> str:
        return without_password(self.url)

    def engine(self) -> Engine:
        return create_engine(
            "postgresql+psycopg://",
            creator=_Patient(self._connect),
            pool_size=2,
            max_overflow=8,
            pool_pre_ping=True,
            use_native_hstore=False,
        )

    def version(self, engine: Engine) -> str:
        with engine.connect() as connection:
            return f"Postgres {connection.exec_driver_sql('SHOW server_version').scalar_one()}"

    def explained(self) -> AbstractContextManager[None]:
        return explained(self.shown)

    def damaged(self, what: str) -> DataError:
        return DataError(
            f"the store {self.shown} is damaged: {what}.\n"
            "Restore it, or start again with a new database: reports are not in it, evidence and verdicts are fetched "
            "and asked anew."
        )

    def foreign(self) -> DataError:
        return DataError(
            f"the database {self.shown} has tables of another program, and was left as it is.\n"
            "Make one for evalscribe alone: createdb NAME."
        )

    @contextmanager
    def upgrading(self, engine: Engine) -> Iterator[Connection]:
        with engine.begin() as connection:
            connection.exec_driver_sql("SET LOCAL lock_timeout = 0")
            _wait_for_turn(connection, "upgrade")
            yield connection
            for alteration in connection.exec_driver_sql(_BY_CODE_POINT).scalars().all():
                connection.exec_driver_sql(alteration)

    def begin_reading(self, connection: Connection) -> None:
        connection.execution_options(isolation_level="REPEATABLE READ")

    def begin_writing(self, connection: Connection) -> None:
        _wait_for_turn(connection, "writing")

    def give_back(self, engine: Engine) -> int:  # noqa: ARG002
        """The server does so itself."""
        return 0

    @contextmanager
    def run_lock(self, run_id: str) -> Iterator[None]:
        with self._locked(f"run {run_id}") as lock:
            if not lock.mine:
                raise UnavailableError(busy(run_id, lock.holder()))
            yield

    @contextmanager
    def claimed(self, name: str) -> Iterator[bool]:
        with self._locked(f"claim {name}") as lock:
            yield lock.mine

    def problem(self) -> str | None:
        """Return None: a Postgres server enforces the types of its columns."""
        return None

    def check(self) -> None:
        for lock in tuple(self._held):
            lock.check()

    @contextmanager
    def _locked(self, name: str) -> Iterator[ServerLock]:
        connect = _Patient(self._connect)
        lock = ServerLock(name, lambda signature: connect(application_name=signature, autocommit=True))
        held = [lock] if lock.mine else []
        try:
            self._held.extend(held)
            yield lock
        finally:
            for one in held:
                self._held.remove(one)
            lock.close()

    def _connect(self, **more: Any) -> psycopg.Connection:
        connection = psycopg.connect(**{**options(self.url), **more})
        try:
            _check(connection)
            set_json_dumps(json_text, connection)
            set_json_loads(in_order, connection)
            settings = {"lock_timeout": f"{BUSY_S}s", **GONE}
            connection.execute("; ".join(f"SET {name} = '{value}'" for name, value in settings.items()).encode())
            connection.commit()
        except BaseException:
            connection.close()
            raise
        return connection


def options(url: str) -> dict[str, Any]:
    """What a connection is made with; a value of the address wins. Raises `psycopg.Error` for no address at all."""
    ours = {"application_name": NAME, "connect_timeout": 10, "client_encoding": "utf8", **GONE_HERE}
    return {**ours, **conninfo_to_dict(url)}


class _Patient:
    """Connects, and once it has it waits for a server that is away."""

    def __init__(self, connect: Callable[..., psycopg.Connection]) -> None:
        self._connect = connect
        self._stood = False

    def __call__(self, **given: Any) -> psycopg.Connection:
        until = time.monotonic() + (PATIENCE_S if self._stood else 0)
        while True:
            try:
                connection = self._connect(**given)
            except psycopg.OperationalError:
                if time.monotonic() > until:
                    raise
                time.sleep(PAUSE_S)
            else:
                self._stood = True
                return connection


def _check(connection: psycopg.Connection) -> None:
    info = connection.info
    if info.server_version < OLDEST * 10_000:
        raise UnavailableError(f"the store is on Postgres {info.server_version // 10_000}; {OLDEST} or newer is needed")
    if info.parameter_status("server_encoding") != "UTF8":
        raise DataError("the store's database is not in UTF-8: make one with createdb --encoding=UTF8 NAME")


def _wait_for_turn(connection: Connection, what: str) -> None:
    connection.exec_driver_sql("SELECT pg_advisory_xact_lock(%s)", (key(what),))
