"""The database on a Postgres server, for a team or many machines."""

import hashlib
import os
import re
import socket
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.json import set_json_dumps
from sqlalchemy import Connection, Engine, create_engine

from evalscribe.errors import DataError, UnavailableError, UsageError
from evalscribe.settings.database import without_password
from evalscribe.store.json_text import json_text
from evalscribe.store.lock import busy
from evalscribe.store.server_failures import explained

NAME = "evalscribe"
"""Of our connections, as the server lists them."""
BUSY_S = 120
"""How long an operation waits for those that write before it: many machines may."""
OLDEST = 14
"""Of the server's versions."""
GONE = {"tcp_keepalives_idle": 30, "tcp_keepalives_interval": 10, "tcp_keepalives_count": 3}
"""After so many seconds the server lets a machine go that went without a word, and its locks."""
_HOLDER = re.compile(rf"{NAME} (\d+) (\S+) (\d+)")
_WHO_HOLDS = """
SELECT application_name FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE locktype = 'advisory' AND granted AND objsubid = 1
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND (classid::bigint << 32) | objid::bigint = %s
"""
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

    @property
    def shown(self) -> str:
        return without_password(self.url)

    def engine(self) -> Engine:
        return create_engine(
            "postgresql+psycopg://",
            creator=self._connect,
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
        with self._locked(f"run {run_id}") as (mine, holder):
            if not mine:
                raise UnavailableError(busy(run_id, holder))
            yield

    @contextmanager
    def claimed(self, name: str) -> Iterator[bool]:
        with self._locked(f"claim {name}") as (mine, _):
            yield mine

    @contextmanager
    def _locked(self, name: str) -> Iterator[tuple[bool, str | None]]:
        """Whether it is ours, else who has it. A lock is its connection's, and so it dies with the process."""
        connection = self._connect(application_name=_signature(), autocommit=True)
        try:
            mine = connection.execute("SELECT pg_try_advisory_lock(%s)", [_key(name)]).fetchone() == (True,)
            yield mine, None if mine else _holder(connection, name)
        finally:
            connection.close()

    def _connect(self, **more: Any) -> psycopg.Connection:
        connection = psycopg.connect(**{**options(self.url), **more})
        try:
            _check(connection)
            set_json_dumps(json_text, connection)
            settings = {"lock_timeout": f"{BUSY_S}s", **GONE}
            connection.execute("; ".join(f"SET {name} = '{value}'" for name, value in settings.items()).encode())
            connection.commit()
        except BaseException:
            connection.close()
            raise
        return connection


def options(url: str) -> dict[str, Any]:
    """What a connection is made with; a value of the address wins. Raises `psycopg.Error` for no address at all."""
    return {"application_name": NAME, "connect_timeout": 10, "client_encoding": "utf8", **conninfo_to_dict(url)}


def _check(connection: psycopg.Connection) -> None:
    info = connection.info
    if info.server_version < OLDEST * 10_000:
        raise UnavailableError(f"the store is on Postgres {info.server_version // 10_000}; {OLDEST} or newer is needed")
    if info.parameter_status("server_encoding") != "UTF8":
        raise DataError("the store's database is not in UTF-8: make one with createdb --encoding=UTF8 NAME")


def _wait_for_turn(connection: Connection, what: str) -> None:
    connection.exec_driver_sql("SELECT pg_advisory_xact_lock(%s)", (_key(what),))


def _key(name: str) -> int:
    """Locks have numbers; they are the database's own."""
    digest = hashlib.sha256(f"{NAME} {name}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def _signature() -> str:
    """At most 63 letters; read by whoever does not get the lock."""
    host = re.sub(r"[^A-Za-z0-9._-]", "", socket.gethostname())[:24] or "-"
    return f"{NAME} {os.getpid()} {host} {int(time.time())}"


def _holder(connection: psycopg.Connection, name: str) -> str | None:
    """None for one that is gone already, or says nothing of itself."""
    row = connection.execute(_WHO_HOLDS, [_key(name)]).fetchone()
    signed = _HOLDER.fullmatch(row[0]) if row else None
    if signed is None:
        return None
    since = datetime.fromtimestamp(int(signed[3]), UTC).isoformat(sep=" ", timespec="seconds")
    return f"process {signed[1]} on {signed[2]} since {since}"
