"""A real Postgres on loopback: the one that `EVALSCRIBE_TEST_POSTGRES_URL` names, else one of this machine's programs.

One server for a whole session, all workers of xdist included, and a database of its own for each test that asks.
`python -m support.postgres_server FOLDER PORT` keeps a server running while anybody holds a lock on FOLDER/users: locks
die with their processes, so the server goes away however the tests end.
"""

import fcntl
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit, urlunsplit

from support.waiting import PATIENCE_S

NAMED = os.environ.get("EVALSCRIBE_TEST_POSTGRES_URL")
OWNER, PASSWORD = "owner", "pass%20word"
"""As they are in a URL."""
TUNED = (
    *("fsync=off", "full_page_writes=off", "synchronous_commit=off", "autovacuum=off", "max_connections=200"),
    *("shared_buffers=16MB", "jit=off", "log_min_messages=fatal", "listen_addresses=127.0.0.1"),
)


class NoPostgres(Exception):
    """Nothing here can be started."""


@dataclass(frozen=True)
class PostgresServer:
    url: str
    """Of a database of somebody who may make databases and roles; with a password."""

    def of(self, database: str) -> str:
        """The address of another database there."""
        return urlunsplit(urlsplit(self.url)._replace(path=f"/{database}"))

    def execute(self, *statements: str) -> None:
        """Each in a transaction of its own, as CREATE DATABASE wants it."""
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    @contextmanager
    def database(self, template: str = "template1") -> Iterator[str]:
        """The address of a new database, dropped at the end whoever is still connected to it."""
        name = f"t_{uuid.uuid4().hex[:12]}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        try:
            yield self.of(name)
        finally:
            self.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@contextmanager
def running(shared: Path) -> Iterator[PostgresServer]:
    """The server of this session, whose processes share a folder; started by the first of them.

    Raises `NoPostgres`.
    """
    if NAMED:
        yield PostgresServer(NAMED)
        return
    with (shared / "postgres.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        url, users = _joined(shared / "postgres.url") or _started(shared / "postgres.url")
    with users:
        yield PostgresServer(url)


def program(name: str) -> str:
    """Debian keeps the server's programs out of PATH."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found = shutil.which(name) or next((str(folder / name) for folder in folders if (folder / name).exists()), None)
    if found is None:
        raise NoPostgres(name)
    return found


def _joined(told: Path) -> tuple[str, IO[str]] | None:
    """The server that is there. It takes its address away before it ends."""
    with suppress(OSError), ExitStack() as opened:
        folder, url = told.read_text().split()
        users = opened.enter_context(Path(folder, "users").open("a"))
        fcntl.flock(users, fcntl.LOCK_SH | fcntl.LOCK_NB)
        if Path(folder, "up").exists():
            opened.pop_all()
            return url, users
    return None


def _started(told: Path) -> tuple[str, IO[str]]:
    folder = Path(tempfile.mkdtemp(prefix="evalscribe-postgres-"))
    _make(folder)
    users = (folder / "users").open("a")
    fcntl.flock(users, fcntl.LOCK_SH)
    port = _free_port()
    command = [sys.executable, "-m", "support.postgres_server", str(folder), str(port)]
    tests = Path(__file__).parents[1]
    keeper = subprocess.Popen(command, cwd=tests, stdin=subprocess.DEVNULL, start_new_session=True)
    keeper.returncode = 0  # it outlives us, and nobody is to warn of that
    url = f"postgresql://{OWNER}:{PASSWORD}@127.0.0.1:{port}/postgres"
    _wait_for(url, folder)
    (folder / "up").touch()
    told.write_text(f"{folder} {url}")
    return url, users


def _make(folder: Path) -> None:
    """Postgres refuses to run as root, and its folder may be read by nobody else."""
    user = _user()
    folder.chmod(0o711)
    password = folder / "password"
    password.write_text(PASSWORD.replace("%20", " "))
    for name in ("data", "socket"):
        (folder / name).mkdir(mode=0o700)
    if user.get("user"):
        for path in (password, folder / "data", folder / "socket"):
            shutil.chown(path, user["user"])
    command = [
        program("initdb"),
        "-D",
        str(folder / "data"),
        "-U",
        OWNER,
        f"--pwfile={password}",
        "-A",
        "scram-sha-256",
    ]
    # Sorted as people's servers sort, so that nothing leans on the order of code points.
    sorted_as = ["-E", "UTF8", "--locale=C", "--locale-provider=icu", "--icu-locale=en-US"]
    options = [*sorted_as, "--no-sync", "--no-instructions"]
    made = subprocess.run([*command, *options], cwd=folder, capture_output=True, text=True, **user)
    if made.returncode:
        raise NoPostgres(made.stderr)


def _user() -> dict[str, Any]:
    """Whom to be, as `subprocess` takes it."""
    if os.geteuid():
        return {}
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            return {"user": name, "group": pwd.getpwnam(name).pw_gid, "extra_groups": []}
    raise NoPostgres("it does not run as root, and there is nobody else")


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _wait_for(url: str, folder: Path) -> None:
    import psycopg

    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            psycopg.connect(url, connect_timeout=5).close()
            return
        except psycopg.OperationalError as error:
            if time.monotonic() > deadline or not folder.exists():
                raise NoPostgres(str(error)) from error
            time.sleep(0.05)


def _keep(folder: Path, port: str) -> None:
    """Run a server until nobody uses it."""
    settings = [part for setting in TUNED for part in ("-c", setting)]
    command = [program("postgres"), "-D", str(folder / "data"), "-p", port, "-k", str(folder / "socket"), *settings]
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **_user())
    with (folder / "users").open("a") as users:
        fcntl.flock(users, fcntl.LOCK_EX)
        (folder / "up").unlink(missing_ok=True)
    server.send_signal(signal.SIGQUIT)  # at once: nothing in it is worth a checkpoint
    server.wait()
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    _keep(Path(sys.argv[1]), sys.argv[2])
