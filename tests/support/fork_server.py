"""Start commands by forking a process that has loaded the libraries. It takes a tenth of the time of a new process.

Each command is a process with its own pid, files, environment and signals. It need not load modules, migrate a blank
store, or unload every module at the end. Unloading copies the server's memory and took most of the time of a short
command. Tests of these steps start Python themselves.

As a program, this module is the server. It reads requests from a Unix socket, its standard input.
"""

import atexit
import contextlib
import gc
import io
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

# Python reads these variables only when it starts, and the server has already started.
READ_AT_START = ("PYTHON", "LANG", "LC_", "COVERAGE")
PRELOADED = ("anthropic", "langgraph.graph", "sqlalchemy.dialects.sqlite", "alembic.command", "jinja2", "rich.table")


class ForkedProcess:
    """A process that was started by the server. It has the interface of `subprocess.Popen`."""

    def __init__(self, pid: int, connection: socket.socket, pipes: Sequence[int | None], text: bool) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.stdin, self.stdout, self.stderr = (
            None if pipe is None else opened(pipe, mode, text) for pipe, mode in zip(pipes, "wrr", strict=True)
        )
        self._connection = connection
        self._text = text

    def poll(self) -> int | None:
        return self._status(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._status(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        return code

    def communicate(self, timeout: float | None = None) -> tuple[Any, Any]:
        """Close standard input, wait until the process has ended, and return its output.

        Raises:
            subprocess.TimeoutExpired: The process has not ended in time.
        """
        if self.stdin:
            self.stdin.close()
        deadline = None if timeout is None else time.monotonic() + timeout
        pipes = [pipe for pipe in (self.stdout, self.stderr) if pipe and not pipe.closed]
        printed = dict.fromkeys(pipes, b"")
        reading = list(pipes)
        while reading:
            ready, _, _ = select.select(reading, [], [], left(deadline))
            if not ready:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
            for pipe in ready:
                piece = os.read(pipe.fileno(), 65_536)
                printed[pipe] += piece
                if not piece:
                    reading.remove(pipe)
        self.wait(left(deadline))
        for pipe in pipes:
            pipe.close()
        out, err = (printed.get(pipe) if pipe else None for pipe in (self.stdout, self.stderr))
        if self._text:
            return tuple(None if part is None else part.decode("utf-8", "replace") for part in (out, err))  # type: ignore[return-value]
        return out, err

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def leave(self) -> None:
        """Let the process outlive this object. Its exit code is then lost."""
        self._connection.close()

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def __enter__(self) -> "ForkedProcess":
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in (self.stdin, self.stdout, self.stderr):
            if pipe:
                pipe.close()
        self.wait()

    def _status(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._connection], [], [], timeout)[0]:
            answer = self._connection.recv(64)
            assert answer, "the fork server has ended"
            self.returncode = int(answer)
            self._connection.close()
        return self.returncode


class ForkServer:
    """The server. It starts with the first program of this test process, and ends with the test process."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None

    def start(
        self,
        program: Sequence[str | bytes | Path],
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
        *,
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.PIPE,
        stderr: int = subprocess.PIPE,
        new_session: bool = False,
        text: bool = True,
    ) -> "Process":
        """Start `python` with these arguments: `-m MODULE` or a file, and the program's arguments."""
        folder = folder or Path.cwd()
        environment = dict(os.environ if environment is None else environment)
        if any(os.environ.get(name) != environment.get(name) for name in read_at_start(environment)):
            return subprocess.Popen(
                [sys.executable, *program],
                cwd=folder,
                env=environment,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                start_new_session=new_session,
                encoding="utf-8" if text else None,
                errors="replace" if text else None,
            )
        pairs = [ends(file, number) for number, file in enumerate((stdin, stdout, stderr))]
        ours, theirs = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        wanted = {
            "program": [os.fsdecode(word) for word in program],
            "folder": str(folder),
            "environment": environment,
            "new_session": new_session,
        }
        pid, connection = self._fork(json.dumps(wanted).encode(), theirs)
        for end in theirs:
            os.close(end)
        return ForkedProcess(pid, connection, ours, text)

    def run(
        self,
        program: Sequence[str | bytes | Path],
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
        *,
        timeout: float,
        text: bool = True,
    ) -> "subprocess.CompletedProcess[Any]":
        """Run a program until it ends."""
        process = self.start(program, folder, environment, text=text)
        out, err = process.communicate(timeout=timeout)
        return subprocess.CompletedProcess(list(program), process.returncode or 0, out, err)

    def loaded(self) -> bool:
        """Start the server if it is not running. Return whether it has loaded the libraries and can answer at once."""
        return bool(select.select([self._running()], [], [], 0)[0])

    def _fork(self, request: bytes, files: Sequence[int]) -> tuple[int, socket.socket]:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # A file, because messages on the socket have a maximum size and an environment can be larger.
        written = os.memfd_create("request")
        with open(written, "wb") as file, theirs:
            file.write(request)
            file.flush()
            socket.send_fds(self._running(), [b"+"], [written, theirs.fileno(), *files])
        answer = ours.recv(64)
        assert answer, "the fork server has ended"
        return int(answer), ours

    def _running(self) -> socket.socket:
        if self._socket is None:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                server = subprocess.Popen([sys.executable, __file__], stdin=theirs.fileno())
            self._socket = ours
            # The server ends when this end of the socket is closed. Functions registered last are called first.
            atexit.register(server.wait)
            atexit.register(ours.close)
        return self._socket


def ends(file: int, number: int) -> tuple[int | None, int]:
    """Return our end of a pipe, or None if `file` requests no pipe, and the file of the program with this number."""
    if file != subprocess.PIPE:
        return None, os.open(os.devnull, os.O_RDWR) if file == subprocess.DEVNULL else os.dup(file)
    reading, writing = os.pipe()
    return (writing, reading) if number == 0 else (reading, writing)


def opened(pipe: int, mode: str, text: bool) -> IO[Any]:
    if text:
        return open(pipe, mode, encoding="utf-8", errors="replace")
    return open(pipe, f"{mode}b")


def left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


Process = ForkedProcess | subprocess.Popen[Any]
fork_server = ForkServer()


class WorkerStarter:
    """Replacement for `subprocess` in `evalscribe.experiments.control`. A worker is forked, and outlives its starter.

    The caller gives up on a worker after some seconds. If the server is not loaded yet, a worker is therefore started
    without it.
    """

    DEVNULL = subprocess.DEVNULL

    @staticmethod
    def Popen(command: Sequence[str], *, start_new_session: bool, **files: int) -> None:
        if not fork_server.loaded():
            subprocess.Popen(command, start_new_session=start_new_session, **files)
            return
        started = fork_server.start(command[1:], new_session=start_new_session, **files)
        if isinstance(started, ForkedProcess):
            started.leave()


def read_at_start(environment: Mapping[str, str]) -> set[str]:
    """Return the environment variables, of this process or of the program, that Python reads only when it starts."""
    names = {*environment, *os.environ} - {"PYTHONWARNINGS"}
    return {name for name in names if name.startswith(READ_AT_START)}


def serve(requests: socket.socket) -> None:
    """Answer requests until the test process closes its end of the socket."""
    for name in PRELOADED:
        __import__(name)
    load_commands()
    make_blank_stores_quickly()
    gc.collect()
    gc.freeze()
    requests.send(b"loaded")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    woken, wake = socket.socketpair()
    for end in (woken, wake):
        end.setblocking(False)
    signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    running: dict[int, socket.socket] = {}
    while True:
        ready, _, _ = select.select([requests, woken], [], [])
        if woken in ready:
            with contextlib.suppress(BlockingIOError):
                woken.recv(4096)
            report_ended(running)
        if requests in ready:
            message, files, _, _ = socket.recv_fds(requests, 1, 8)
            if not message:
                return
            request, status = files[0], socket.socket(fileno=files[1])
            pid = os.fork()
            if pid == 0:
                for one in (requests, woken, wake, status, *running.values()):
                    one.close()
                run(request, files[2:])
            running[pid] = status
            status.send(str(pid).encode())
            for number in (request, *files[2:]):
                os.close(number)


def load_commands() -> None:
    """Load every module that the command line can load, but run no command."""
    import evalscribe.cli
    from evalscribe.cli import commands  # noqa: F401

    folder = Path(evalscribe.cli.__file__).parent
    for path in sorted(folder.glob("[a-z]*.py")):
        __import__(f"evalscribe.cli.{path.stem}")


def make_blank_stores_quickly() -> None:
    """Make blank stores with the faster `QuickUpgrade`, as `conftest.py` does in the test process."""
    from blank_stores import QuickUpgrade
    from sqlalchemy import create_engine

    from evalscribe.store import database

    database._upgrade = QuickUpgrade(database._upgrade)
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        database._upgrade(connection, database.DatabaseFile(Path()))
    engine.dispose()


def report_ended(running: dict[int, socket.socket]) -> None:
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        with running.pop(pid) as connection, contextlib.suppress(OSError):
            connection.send(str(os.waitstatus_to_exitcode(status)).encode())


def run(request: int, files: Sequence[int]) -> NoReturn:
    """Turn this process into the command: set its files, folder, environment and signals, and run its entry point."""
    with open(request, "rb") as text:
        text.seek(0)
        wanted = json.load(text)
    for number, source in enumerate(files):
        os.dup2(source, number)
        os.close(source)
    if wanted["new_session"]:
        os.setsid()
    os.chdir(wanted["folder"])
    os.environ.clear()
    os.environ.update(wanted["environment"])
    time.tzset()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        stream = io.TextIOWrapper(
            open(number, f"{mode}b"),  # noqa: SIM115
            encoding="utf-8",
            errors="backslashreplace" if name == "stderr" else "strict",
            line_buffering=name == "stderr" or os.isatty(number),
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    warnings.resetwarnings()
    warnings._processoptions(wanted["environment"].get("PYTHONWARNINGS", "").split(","))  # type: ignore[attr-defined]
    program = wanted["program"]
    try:
        if program[0] == "-m":
            sys.path[0] = wanted["folder"]
            sys.argv = program[1:]
            runpy.run_module(program[1], run_name="__main__", alter_sys=True)
        else:
            sys.path[0] = str(Path(program[0]).parent)
            sys.argv = program
            runpy.run_path(program[0], run_name="__main__")
    except SystemExit as ended:
        if not isinstance(ended.code, int | None):
            raise
        end(ended.code or 0)
    end(0)


def end(code: int) -> NoReturn:
    """End the process like Python: wait for threads, call exit functions, warn about open files, flush the output."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    gc.collect()
    for thing in gc.get_objects():
        if isinstance(thing, socket.socket) and thing.fileno() >= 0:
            warnings.warn(f"unclosed {thing!r}", ResourceWarning, stacklevel=1)
        elif isinstance(thing, io.FileIO) and not thing.closed and thing.closefd and thing.fileno() > 2:
            warnings.warn(f"unclosed file {thing!r}", ResourceWarning, stacklevel=1)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code & 0xFF)


if __name__ == "__main__":
    serve(socket.socket(fileno=os.dup(0)))
