"""Connect to a Postgres server, hold locks on it, and translate its errors."""

import hashlib
import os
import re
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.json import set_json_dumps, set_json_loads
from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy.exc import DBAPIError

from evalscribe.errors import AccessError, DataError, EvalscribeError, NotFoundError, UnavailableError, UsageError
from evalscribe.settings.database import without_password
from evalscribe.store.errors import unstorable, write_refused
from evalscribe.store.lock import busy
from evalscribe.store.statements import json_text, load_sorted

ACCESS_ERRORS = ("28", "42501", "25006")
"""SQLSTATE prefixes of errors about access: failed authentication, missing permissions, read-only transactions."""
TEMPORARY_ERRORS = ("08", "23", "40", "53", "55", "57", "58")
"""SQLSTATE prefixes of temporary errors: lost connections, conflicts with other transactions, lack of space or memory,
locks that are not available, a server that is stopping, and I/O errors."""
TRIGGER_ERROR = "P0001"
"""SQLSTATE of the error that a trigger raises to protect a row from changes."""
UNSTORABLE_VALUES = ("22", "54")
"""SQLSTATE prefixes of errors about values that cannot be stored."""
REFUSAL_WORDS = ("password", "authentication", "pg_hba.conf", "role ", "permission denied")
"""Words by which the error message of a refused connection is recognised. Such errors have no SQLSTATE."""


@contextmanager
def translate_server_errors(store_name: str) -> Iterator[None]:
    """Translate database errors in the `with` block into an `EvalscribeError` that names the database `store_name`."""
    try:
        yield
    except DBAPIError as error:
        raise _explain(store_name, error.orig) from error
    except psycopg.Error as error:
        raise _explain(store_name, error) from error
    except UnicodeEncodeError as error:
        raise unstorable() from error


def _explain(store_name: str, error: BaseException | None) -> EvalscribeError:
    state = getattr(error, "sqlstate", None) or ""
    message = _error_text(error)
    # Errors that occur before the connection is established have only a message, without a SQLSTATE.
    if not state and isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return _without_state(store_name, error, message)
    if state == TRIGGER_ERROR:
        return write_refused(store_name, message)
    if state.startswith(ACCESS_ERRORS):
        return _refused(store_name, message)
    if state.startswith(TEMPORARY_ERRORS):
        return _unreachable(store_name, message)
    if state.startswith(UNSTORABLE_VALUES):
        return DataError(f"the data cannot be stored: {message}")
    return DataError(
        f"the store {store_name} is damaged: {message}.\nRestore it, or start again with a new database: createdb NAME."
    )


def _without_state(store_name: str, error: BaseException | None, message: str) -> EvalscribeError:
    """Classify an error that has no SQLSTATE by the words in its message. Only English messages are recognised."""
    connection = getattr(error, "pgconn", None)
    if "database" in message and "does not exist" in message:
        return NotFoundError(f"database {store_name} does not exist.\nCreate it on that server: createdb NAME.")
    # Some of these messages come from the server, in its language, so the connection is also asked whether a
    # password is missing.
    if any(word in message for word in REFUSAL_WORDS) or (connection and connection.needs_password):
        return _refused(store_name, message)
    return _unreachable(store_name, message)


def _refused(store_name: str, message: str) -> AccessError:
    return AccessError(
        f"the store {store_name} refused access: {message}.\nSet a password in EVALSCRIBE_STORE_URL; PGPASSWORD and "
        "~/.pgpass are used only if the address comes from the environment."
    )


def _unreachable(store_name: str, message: str) -> UnavailableError:
    return UnavailableError(f"the store {store_name} did not respond: {message}.\nNothing is lost: try again.")


def _error_text(error: BaseException | None) -> str:
    """Return the first line of an error message."""
    # The lines after the first can contain stored values.
    primary = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    line = next(iter((primary or str(error)).splitlines()), "").removeprefix("connection failed: ")
    return line.rsplit("FATAL:", 1)[-1].strip().rstrip(".")


NAME = "evalscribe"
"""Prefix of the names under which our connections appear on the server."""
_HOLDER = re.compile(rf"{NAME} (\d+) (\S+) (\d+)")
# Every database lists the advisory locks of all databases. A two-part key has `objsubid` 2, so it is not confused with
# ours.
_LOCK_HOLDER = """
SELECT application_name FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE locktype = 'advisory' AND granted AND objsubid = 1
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND (classid::bigint << 32) | objid::bigint = %s
"""
_TERMINATE = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE pid = %s AND application_name = %s"
"""Ends one of our own broken connections if the server still considers it open."""
SESSION_END_S = 5
"""Maximum seconds to wait for the server to end the session of a dead process. Usually, milliseconds are enough."""
LOCK_PAUSE_S = 0.01


class ServerLock:
    """A lock on the server.

    If the connection that holds the lock breaks, `check` takes the lock again unless another process has taken it.
    """

    def __init__(self, name: str, connect: Callable[[str], psycopg.Connection]) -> None:
        """Try once to take the lock. `connect` opens an autocommit session; its argument is the session's name."""
        self.name = name
        self._connect = connect
        self._own_session = _session_name()
        self._guard = threading.Lock()
        self._connection = connect(self._own_session)
        self._pid = self._connection.info.backend_pid
        try:
            self.acquired = self._acquire()
        except BaseException:
            # Also after Ctrl-C: the connection holds the lock, and nobody else could close it.
            self.close()
            raise

    def holder(self) -> str | None:
        """Describe the process that holds the lock.

        Returns None if no process holds the lock, or if the holder is not an evalscribe process.
        """
        return _describe_holder(self._holder_session() or "")

    def check(self) -> None:
        """Raise `UnavailableError` if another process has taken the lock.

        As long as the connection works, this method normally sends no query.
        """
        # Several threads read the store. Only one of them may reconnect.
        with self._guard:
            if self._is_broken():
                self.acquired = self._reacquire()
            if not self.acquired:
                raise UnavailableError(
                    f"the connection to the store broke, and {self.holder() or 'another process'} has started "
                    f"the same work meanwhile ({self.name}).\nAll answers so far are stored; wait for that process."
                )

    def close(self) -> None:
        # Released explicitly, because a server can notice a closed connection late.
        with suppress(psycopg.Error):
            self._connection.execute("SELECT pg_advisory_unlock_all()")
        self._connection.close()

    def _acquire(self) -> bool:
        deadline = time.monotonic() + SESSION_END_S
        while not self._try_lock():
            # A process that was killed keeps its lock until the server notices. A live holder is not waited for.
            if time.monotonic() > deadline or not self._is_abandoned():
                return False
            time.sleep(LOCK_PAUSE_S)
        return True

    def _try_lock(self) -> bool:
        return self._connection.execute("SELECT pg_try_advisory_lock(%s)", [key(self.name)]).fetchone() == (True,)

    def _holder_session(self) -> str | None:
        """Return the name of the connection that holds the lock; None if no connection holds the lock."""
        row = self._connection.execute(_LOCK_HOLDER, [key(self.name)]).fetchone()
        return str(row[0]) if row else None

    def _is_abandoned(self) -> bool:
        """Return True if the lock is free or its holder is a dead process of this machine."""
        # Only the machine on which a process runs can tell whether the process is alive.
        name = self._holder_session()
        match = _HOLDER.fullmatch(name or "")
        return name is None or (match is not None and match[2] == _host() and not _is_alive(int(match[1])))

    def _reacquire(self) -> bool:
        self._connection.close()
        self._connection = self._connect(self._own_session)
        # The server may not know that the earlier connection broke. Its session would then keep the lock, and look like
        # another holder.
        self._connection.execute(_TERMINATE, [self._pid, self._own_session])
        self._pid = self._connection.info.backend_pid
        return self._acquire()

    def _is_broken(self) -> bool:
        """Return True if the connection is broken.

        Sends a query only if unread data from the server is waiting, which can mean that the connection was closed.
        """
        if self._connection.closed:
            return True
        # A query here would cost a round trip to the server for every read of the store.
        poll = select.poll()
        poll.register(self._connection.fileno(), select.POLLIN)
        if not poll.poll(0):
            return False
        with suppress(psycopg.Error):
            self._connection.execute("SELECT 1")
        return self._connection.closed


def _describe_holder(session_name: str) -> str | None:
    """Describe the process whose connection has this name; None if evalscribe did not give the name."""
    match = _HOLDER.fullmatch(session_name)
    if match is None:
        return None
    start_time = datetime.fromtimestamp(int(match[3]), UTC).isoformat(sep=" ", timespec="seconds")
    return f"process {match[1]} on {match[2]} since {start_time}"


def key(name: str) -> int:
    """Return the number of the Postgres lock with this name. Each database has its own locks."""
    # Postgres names a lock by a 64-bit number. Names from a file can contain lone surrogates.
    digest = hashlib.sha256(f"{NAME} {name}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def _session_name() -> str:
    """Return the connection name (at most 63 characters) that identifies this process as the holder of a lock."""
    # Postgres cuts a name after 63 characters. The host name is limited, so that the time at the end remains.
    return f"{NAME} {os.getpid()} {_host()} {int(time.time())}"


def _host() -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "", socket.gethostname())[:24] or "-"


def _is_alive(pid: int) -> bool:
    try:
        # Signal 0 only checks whether the process exists. A process of another user exists, but refuses the signal.
        os.kill(pid, 0)
    except OSError as error:
        return not isinstance(error, ProcessLookupError)
    return True


BUSY_S = 120
"""Maximum seconds that an operation waits for other writers. The limit is high because writers can be on many machines.
"""
OLDEST = 14
"""Oldest supported major version of the Postgres server."""
SERVER_KEEPALIVES = {"tcp_keepalives_idle": 30, "tcp_keepalives_interval": 10, "tcp_keepalives_count": 3}
"""TCP keepalive settings with which the server notices a silent client, closes its connection and releases its locks.
All values except the count are seconds."""
CLIENT_KEEPALIVES = {
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
"""TCP keepalive settings with which the client notices a silent server. `tcp_user_timeout` is in milliseconds."""
PAUSE_S = 0.25
PATIENCE_S = 30
"""Maximum seconds to wait for a server that has answered before but cannot be reached, for example during a restart.
Without waiting, data that was paid for would be lost."""
_SET_COLLATION = """
SELECT format('ALTER TABLE %%I %%s', table_name, string_agg(format(
  'ALTER COLUMN %%I TYPE %%s COLLATE "C"', column_name, data_type), ', '))
FROM information_schema.columns
WHERE table_schema = current_schema() AND data_type IN ('character varying', 'text') AND collation_name IS NULL
GROUP BY table_name
"""
"""Builds the statements that make text columns compare and sort as in SQLite, whatever the locale of the server is."""


def server_at(url: str) -> "DatabaseServer":
    """Parse the address of a server. Raises `UsageError` if it is invalid."""
    try:
        options(url)
    except psycopg.ProgrammingError:
        raise UsageError("the store's address is invalid: use postgresql://USER@HOST/DATABASE") from None
    return DatabaseServer(url)


@dataclass(frozen=True)
class DatabaseServer:
    """An `evalscribe.store.database.DatabasePlace` for a database on a Postgres server."""

    url: str = field(repr=False)
    """Address of the database. It can contain a password."""
    _locks: list[ServerLock] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def shown(self) -> str:
        return without_password(self.url)

    def engine(self) -> Engine:
        return create_engine(
            "postgresql+psycopg://",
            creator=_RetryingConnector(self._connect),
            pool_size=2,
            max_overflow=8,
            # A connection that the server closed while it was idle is replaced instead of failing the next statement.
            pool_pre_ping=True,
            use_native_hstore=False,
        )

    def version(self, engine: Engine) -> str:
        with engine.connect() as connection:
            return f"Postgres {connection.exec_driver_sql('SHOW server_version').scalar_one()}"

    def explained(self) -> AbstractContextManager[None]:
        return translate_server_errors(self.shown)

    def damaged(self, problem: str) -> DataError:
        return DataError(
            f"the store {self.shown} is damaged: {problem}.\nRestore it, or start again with a new database: it "
            "contains no reports, and evidence and verdicts will be fetched and requested again."
        )

    def foreign(self) -> DataError:
        return DataError(
            f"the database {self.shown} has tables of another program and was not changed.\n"
            "Create a separate one for evalscribe: createdb NAME."
        )

    @contextmanager
    def upgrading(self, engine: Engine) -> Iterator[Connection]:
        with engine.begin() as connection:
            # Another process can take longer than the ordinary limit to upgrade the database.
            connection.exec_driver_sql("SET LOCAL lock_timeout = 0")
            _wait_for_turn(connection, "upgrade")
            yield connection
            # Done after the migrations: their scripts serve both engines and create columns without a collation.
            for alteration in connection.exec_driver_sql(_SET_COLLATION).scalars().all():
                connection.exec_driver_sql(alteration)

    def begin_reading(self, connection: Connection) -> None:
        connection.execution_options(isolation_level="REPEATABLE READ")

    def begin_writing(self, connection: Connection) -> None:
        _wait_for_turn(connection, "writing")

    def give_back(self, engine: Engine) -> int:  # noqa: ARG002
        """Do nothing, because the server reclaims space by itself."""
        return 0

    @contextmanager
    def run_lock(self, run_id: str) -> Iterator[None]:
        with self._locked(f"run {run_id}") as lock:
            if not lock.acquired:
                raise UnavailableError(busy(run_id, lock.holder()))
            yield

    def run_holder(self, engine: Engine, run_id: str) -> str | None:
        with engine.connect() as connection:
            row = connection.exec_driver_sql(_LOCK_HOLDER, (key(f"run {run_id}"),)).first()
        return None if row is None else _describe_holder(str(row[0])) or "another process"

    @contextmanager
    def claimed(self, name: str) -> Iterator[bool]:
        with self._locked(f"claim {name}") as lock:
            yield lock.acquired

    def problem(self) -> str | None:
        """Return None, because a Postgres server enforces the types of its columns."""
        return None

    def check(self) -> None:
        # A copy, because another thread can add or remove a lock meanwhile.
        for lock in tuple(self._locks):
            lock.check()

    @contextmanager
    def _locked(self, name: str) -> Iterator[ServerLock]:
        connect = _RetryingConnector(self._connect)
        lock = ServerLock(name, lambda session_name: connect(application_name=session_name, autocommit=True))
        acquired_locks = [lock] if lock.acquired else []
        try:
            self._locks.extend(acquired_locks)
            yield lock
        finally:
            for acquired_lock in acquired_locks:
                self._locks.remove(acquired_lock)
            lock.close()

    def _connect(self, **overrides: Any) -> psycopg.Connection:
        connection = psycopg.connect(**{**options(self.url), **overrides})
        try:
            _check(connection)
            set_json_dumps(json_text, connection)
            set_json_loads(load_sorted, connection)
            settings = {"lock_timeout": f"{BUSY_S}s", **SERVER_KEEPALIVES}
            connection.execute("; ".join(f"SET {name} = '{value}'" for name, value in settings.items()).encode())
            # A rollback, for example at the end of a read, would also undo these settings.
            connection.commit()
        except BaseException:
            connection.close()
            raise
        return connection


def options(url: str) -> dict[str, Any]:
    """Return the options for a connection to the given address.

    Options in the address override the defaults. Raises `psycopg.Error` if the address is invalid.
    """
    defaults = {"application_name": NAME, "connect_timeout": 10, "client_encoding": "utf8", **CLIENT_KEEPALIVES}
    return {**defaults, **conninfo_to_dict(url)}


class _RetryingConnector:
    """Opens connections. Once a connection has succeeded, later attempts wait for a server that cannot be reached."""

    def __init__(self, connect: Callable[..., psycopg.Connection]) -> None:
        self._connect = connect
        self._was_connected = False

    def __call__(self, **overrides: Any) -> psycopg.Connection:
        # A server that never answered is reported at once: its address is probably wrong.
        deadline = time.monotonic() + (PATIENCE_S if self._was_connected else 0)
        while True:
            try:
                connection = self._connect(**overrides)
            except psycopg.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(PAUSE_S)
            else:
                self._was_connected = True
                return connection


def _check(connection: psycopg.Connection) -> None:
    info = connection.info
    if info.server_version < OLDEST * 10_000:
        raise UnavailableError(
            f"the store is on Postgres {info.server_version // 10_000}; {OLDEST} or newer is required"
        )
    if info.parameter_status("server_encoding") != "UTF8":
        raise DataError("the store's database is not in UTF-8: create one with createdb --encoding=UTF8 NAME")


def _wait_for_turn(connection: Connection, lock_name: str) -> None:
    connection.exec_driver_sql("SELECT pg_advisory_xact_lock(%s)", (key(lock_name),))
