"""Start a user's process with a clean environment, and end it together with all its descendants."""

import asyncio
import os
import signal
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from secrets import token_hex

import psutil

from evalscribe.settings import access

MARK = "EVALSCRIBE_STARTED_BY"
"""Environment variable that marks the processes that evalscribe started, so that they can be found even after their
parents have ended."""
OWN_PREFIXES = ("EVALSCRIBE_", "ACTIONS_")
"""Prefixes of environment variables that contain evalscribe's settings (such as the store's password) or a CI runner's
tokens."""
KEY_VARIABLES = frozenset({*access.DEPLOY_KEYS, access.SELF_HOSTED_KEY, *access.GITHUB_TOKENS})
"""Environment variables that contain keys for reading runs from other services and for publishing reports."""
RUNNER_FILE_VARIABLES = frozenset({"GITHUB_ENV", "GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_STATE", "GITHUB_STEP_SUMMARY"})
"""Environment variables that name files from which a CI runner reads settings and commands."""


def new_mark() -> str:
    return token_hex(16)


def user_environment(mark: str, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment for a user's process. Variables with secrets are left out; the marker `MARK` is added."""
    return {**{name: value for name, value in environ.items() if _is_user_variable(name)}, MARK: mark}


def _is_user_variable(name: str) -> bool:
    return not name.startswith(OWN_PREFIXES) and name not in KEY_VARIABLES and name not in RUNNER_FILE_VARIABLES


ROUNDS = 20
"""Maximum number of rounds in which marked processes are found and killed. One round might not be enough, because
processes can start other processes in the meantime."""


def strays(leader: int) -> list[psutil.Process]:
    """Return those descendants of a process group's leader that are no longer in the group."""
    descendants = []
    with suppress(psutil.Error):
        # Unlike reading /proc, psutil works on every system. It takes 3.7 ms instead of 0.5 ms.
        for process in psutil.Process(leader).children(recursive=True):
            with suppress(ProcessLookupError):
                if os.getpgid(process.pid) != leader:
                    descendants.append(process)
    return descendants


def end_strays(processes: Sequence[psutil.Process]) -> None:
    """Kill the given processes."""
    for process in processes:
        # Before it kills, psutil compares the start times, because another process might have the same id by now.
        with suppress(psutil.Error):
            process.kill()


async def end_marked(mark: str) -> None:
    """Kill every process whose environment contains the given mark.

    Daemons are found even if their parents have ended. Processes that were started with an empty environment are not
    found.
    """
    for _ in range(ROUNDS):
        processes = await asyncio.to_thread(_marked_processes, mark)
        if not processes:
            return
        end_strays(processes)
        await asyncio.sleep(0.01)


def _marked_processes(mark: str) -> list[psutil.Process]:
    processes = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):  # The process belongs to another user or has ended.
            if mark in process.environ().values():
                processes.append(process)
    return processes


LOG = 20_000
"""Maximum number of bytes kept from the end of standard error."""
GRACE_S = 0.7
"""Seconds between the signals SIGTERM and SIGKILL."""
LEFT_OVER_S = 0.3
"""Maximum seconds to continue reading output after a process has ended. The descendants of the process can keep the
output open."""
CHUNK = 65536
# The watcher's output is redirected, because it would otherwise keep the program's output open. With `exec`, the
# program keeps the shell's process id, which is the id of the group.
_WATCHER_COMMAND = '(read -r _ < "/dev/fd/$0"; kill -KILL 0) > /dev/null 2>&1 & exec "$@"'
"""Shell command that starts the program together with a watcher.

The watcher kills the program's process group when evalscribe's process dies.

The watcher reads from a pipe. Only evalscribe's process has the pipe's write end, so reading ends when
evalscribe's process ends.
"""


@cache
def _lifeline() -> int:
    """Return the read end of a pipe whose write end stays open as long as this process lives."""
    # The write end is never closed, and no child process inherits it. Only the death of this process closes it.
    read_end, _write_end = os.pipe()
    return read_end


class PipeReader:
    """Collects what is read from a pipe. The pipe is read continuously, so that writers never block."""

    def __init__(self, tail_size: int | None = None) -> None:
        self.size = 0
        self.content = bytearray()
        self._tail_size = tail_size

    @property
    def text(self) -> str:
        return self.content.decode("utf-8", "replace")

    def add(self, chunk: bytes) -> None:
        self.size += len(chunk)
        self.content += chunk
        if self._tail_size is not None:
            del self.content[: -self._tail_size]


class ProcessGroup:
    """A process in its own process group."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.out = PipeReader()
        self.err = PipeReader(LOG)
        self._process = process
        self._has_ended = False
        """True after `end` was called. From then on, the process id can belong to another process."""
        self._pipes: list[asyncio.ReadTransport] = []
        self._readers: list[asyncio.Task[None]] = []
        self._sweeper: asyncio.Task[None] | None = None

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        folder: Path,
        *,
        stdin_data: bytes = b"",
        env: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
        merge_output: bool = False,
    ) -> "ProcessGroup":
        """Start a process. Raises `OSError` if the process cannot be started.

        Args:
            command: The program's path and its arguments.
            stdin_data: Standard input.
            merge_output: Whether to collect standard output in `err` too.
        """
        # With asyncio's own pipes, `wait` would not return before descendants of the process have closed them, too.
        (out, out_end), (err, err_end) = os.pipe(), os.pipe()
        try:
            # A file instead of a pipe. A process that never reads its input cannot block or break the writer.
            with tempfile.TemporaryFile() as stdin_file:
                stdin_file.write(stdin_data)
                stdin_file.seek(0)
                starting = asyncio.ensure_future(
                    asyncio.create_subprocess_exec(
                        *("/bin/sh", "-c", _WATCHER_COMMAND, str(_lifeline()), *command),
                        cwd=folder,
                        env=env,
                        stdin=stdin_file,
                        stdout=err_end if merge_output else out_end,
                        stderr=err_end,
                        pass_fds=(*pass_fds, _lifeline()),
                        start_new_session=True,
                    )
                )
                try:
                    # Without the shield, a cancellation here would end the program, but not its descendants.
                    process = await asyncio.shield(starting)
                except asyncio.CancelledError:
                    with suppress(OSError):
                        cls(await starting).kill()
                    raise
        except BaseException:
            os.close(out)
            os.close(err)
            raise
        finally:
            # Only the process may hold these ends. Otherwise, reading would not end when the process ends.
            os.close(out_end)
            os.close(err_end)
        group = cls(process)
        group._sweeper = asyncio.create_task(group._sweep())
        try:
            await group._read(out, group.out)
            await group._read(err, group.err)
        except BaseException:
            group.kill()
            raise
        return group

    async def wait_for_exit(self, max_output: int) -> int | None:
        """Wait for the process and return its exit code (negative after a signal).

        Returns None as soon as the output exceeds `max_output` bytes.
        """
        out, err = self._readers
        exit_task = asyncio.create_task(self._process.wait())
        try:
            while not exit_task.done():
                # The timeout lets the loop check the size of the output, because
                # neither task ends while the process writes.
                await asyncio.wait((exit_task, out), return_when=asyncio.FIRST_COMPLETED, timeout=0.1)
                if self.out.size > max_output:
                    return None
                if out.done():
                    await exit_task
            # A descendant such as `sleep 3600 &` can keep the output open after the process has ended.
            await asyncio.wait((out, err), timeout=LEFT_OVER_S)
        finally:
            exit_task.cancel()
        return None if self.out.size > max_output else self._process.returncode

    async def wait(self) -> int:
        return await self._process.wait()

    def kill(self) -> None:
        """Kill the process and all its descendants at once."""
        if not self._has_ended:
            # Found before the signal, because descendants of a process that has ended cannot be found.
            descendants = self._strays()
            self._signal(signal.SIGKILL)
            end_strays(descendants)

    async def end(self, grace_s: float = GRACE_S) -> None:
        """Ask the process to end. After `grace_s` seconds at most, kill it and all its descendants."""
        if self._has_ended:
            return
        self._has_ended = True
        descendants = self._strays()
        try:
            if self._process.returncode is None and grace_s:
                self._signal(signal.SIGTERM)
                with suppress(TimeoutError):
                    async with asyncio.timeout(grace_s):
                        await self._process.wait()
        finally:
            # The process can have started others during the grace period.
            descendants += self._strays()
            self._signal(signal.SIGKILL)
            end_strays(descendants)
        if self._sweeper:
            await self._sweeper
        for pipe in self._pipes:
            pipe.close()
        for reader in self._readers:
            reader.cancel()

    async def _read(self, fd: int, pipe_reader: PipeReader) -> None:
        stream = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        pipe, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(fd, "rb", 0))
        self._pipes.append(pipe)
        self._readers.append(asyncio.create_task(_copy(stream, pipe_reader)))

    async def _sweep(self) -> None:
        """Kill the descendants that outlive the process. They would keep the pipes of the process open."""
        await self._process.wait()
        self.kill()

    def _strays(self) -> list[psutil.Process]:
        """Return the descendants that have left the group. Descendants can be found only while the process runs."""
        return strays(self._process.pid) if self._process.returncode is None else []

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            # One system call reaches the whole group, including processes that are just being started.
            os.killpg(self._process.pid, number)


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


async def _copy(stream: asyncio.StreamReader, pipe_reader: PipeReader) -> None:
    while chunk := await stream.read(CHUNK):
        pipe_reader.add(chunk)
