"""Locks on a Postgres server: each is its connection's, and so it dies with the process."""

import hashlib
import os
import re
import select
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime

import psycopg

from evalscribe.errors import UnavailableError

NAME = "evalscribe"
"""Of our connections, as the server lists them."""
_HOLDER = re.compile(rf"{NAME} (\d+) (\S+) (\d+)")
_WHO_HOLDS = """
SELECT application_name FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE locktype = 'advisory' AND granted AND objsubid = 1
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND (classid::bigint << 32) | objid::bigint = %s
"""
_END = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE pid = %s AND application_name = %s"
"""A connection of our own that the server does not know to be broken yet."""
NOTICED_S = 5
"""Until a server has ended the session of a process that is gone; it takes milliseconds, where it is not busy."""
PAUSE_S = 0.01


class ServerLock:
    """A lock that was tried to take once; where its connection breaks it is taken again, if nobody else was quicker."""

    def __init__(self, name: str, connect: Callable[[str], psycopg.Connection]) -> None:
        """`connect`: with a name for the connection, to a session that commits by itself."""
        self.name = name
        self._connect = connect
        self._signed = _signature()
        self._guard = threading.Lock()
        self._connection = connect(self._signed)
        self._pid = self._connection.info.backend_pid
        try:
            self.mine = self._taken()
        except BaseException:
            self.close()
            raise

    def holder(self) -> str | None:
        """Who else has it; None for one that is gone already, or says nothing of itself."""
        signed = _HOLDER.fullmatch(self._holding() or "")
        if signed is None:
            return None
        since = datetime.fromtimestamp(int(signed[3]), UTC).isoformat(sep=" ", timespec="seconds")
        return f"process {signed[1]} on {signed[2]} since {since}"

    def check(self) -> None:
        """Costs nothing while the server has nothing to say. Raises `UnavailableError` where another one has it."""
        with self._guard:
            if self._broken():
                self.mine = self._taken_again()
            if not self.mine:
                raise UnavailableError(
                    f"the connection to the store broke, and meanwhile {self.holder() or 'another process'} began "
                    f"with the same ({self.name}).\nEverything answered until then is stored; wait for that process."
                )

    def close(self) -> None:
        """Gives it back first: the server learns only later that a connection was closed."""
        with suppress(psycopg.Error):
            self._connection.execute("SELECT pg_advisory_unlock_all()")
        self._connection.close()

    def _taken(self) -> bool:
        until = time.monotonic() + NOTICED_S
        while not self._tried():
            if time.monotonic() > until or not self._abandoned():
                return False
            time.sleep(PAUSE_S)
        return True

    def _tried(self) -> bool:
        return self._connection.execute("SELECT pg_try_advisory_lock(%s)", [key(self.name)]).fetchone() == (True,)

    def _holding(self) -> str | None:
        """The name of the connection that has it."""
        row = self._connection.execute(_WHO_HOLDS, [key(self.name)]).fetchone()
        return str(row[0]) if row else None

    def _abandoned(self) -> bool:
        """Given back by now, or held by a process of this machine that is gone."""
        name = self._holding()
        signed = _HOLDER.fullmatch(name or "")
        return name is None or (signed is not None and signed[2] == _host() and not _alive(int(signed[1])))

    def _taken_again(self) -> bool:
        self._connection.close()
        self._connection = self._connect(self._signed)
        self._connection.execute(_END, [self._pid, self._signed])
        self._pid = self._connection.info.backend_pid
        return self._taken()

    def _broken(self) -> bool:
        """A server that ends a connection says so, and the kernel where the server went without a word."""
        if self._connection.closed:
            return True
        watched = select.poll()
        watched.register(self._connection.fileno(), select.POLLIN)
        if not watched.poll(0):
            return False
        with suppress(psycopg.Error):
            self._connection.execute("SELECT 1")
        return self._connection.closed


def key(name: str) -> int:
    """Locks have numbers; they are the database's own."""
    digest = hashlib.sha256(f"{NAME} {name}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def _signature() -> str:
    """At most 63 letters; read by whoever does not get the lock."""
    return f"{NAME} {os.getpid()} {_host()} {int(time.time())}"


def _host() -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "", socket.gethostname())[:24] or "-"


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError as refused:
        return not isinstance(refused, ProcessLookupError)
    return True
