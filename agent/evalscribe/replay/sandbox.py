"""Run an untrusted command in bubblewrap, within limits, and without access to the network, the home folder or the
environment.

The options were tested with bubblewrap 0.8.0. If root runs bubblewrap with default options, bubblewrap is not a
sandbox: read-only bind mounts can be made writable again from inside, and `/proc/sys` is writable. If evalscribe runs
as root, the sandboxes therefore run as another user.
"""

import asyncio
import contextlib
import os
import re
import secrets
import select
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal, NamedTuple

import psutil

from evalscribe.errors import UnavailableError, UsageError
from evalscribe.text import one_line, visible

Ending = Literal["exited", "time limit", "output limit", "disk limit", "memory limit"]
MIB = 1024 * 1024


@dataclass(frozen=True)
class SandboxLimits:
    """Limits of a command.

    If the command exceeds the limit of wall time, output, disk space or memory, all its processes are killed.
    """

    wall_s: float = 60.0
    cpu_s: int = 60
    """Maximum CPU seconds of each process."""
    processes: int = 64
    memory_bytes: int = 1024 * MIB
    """Maximum bytes of memory that all processes together use.

    The address space of a single process can be up to four times as large.
    """
    file_bytes: int = 50 * MIB
    """Maximum bytes of a single file."""
    disk_bytes: int = 256 * MIB
    """Maximum bytes in all writable folders together, including `/`, `/dev/shm` and the initial content."""
    files: int = 20_000
    """Maximum number of files and folders in all writable folders together."""
    output_bytes: int = 4 * MIB
    """Maximum bytes of standard output and standard error together."""


class Folder(NamedTuple):
    """A folder or file that is visible to the command."""

    source: Path | None
    """Path outside the sandbox; None for an empty folder."""
    inside: str
    """Absolute path of the folder or file inside the sandbox, such as `/app`."""
    writable: bool = False
    """True to give the command a copy that it can change. False to give it read-only access to the original."""


class Execution(NamedTuple):
    """Result of a command that was run."""

    exit_code: int | None
    """Exit code of the command.

    If a signal ended the command, the exit code is 128 plus the number of the signal. It is None if the command was
    killed because it exceeded a limit.
    """
    ended: Ending
    output: str
    """Standard output and standard error in the order of arrival, cut at the limit."""
    seconds: float
    files: Mapping[str, str]
    """Texts of the files that were requested with `collect` and exist, keyed by their paths in the sandbox."""


NOT_STARTED = 126
"""Exit code of a command that cannot be started. Shells use the same code."""
COPIED_BYTES = 512 * MIB
"""Maximum bytes of a folder that can be copied into a sandbox."""
COLLECTED_BYTES = MIB
"""Maximum number of bytes to read from a collected file."""
COPIED_FILES = 100_000
FIRST_UID = 40_001
UIDS = 20_000
"""Number of user ids that are available for sandboxes if evalscribe runs as root.

Each sandbox gets a random user id, because Linux limits the number of processes per user.
"""
_LOOK_S = 0.1
_END_S = 10.0
"""Maximum seconds to wait until killed processes have ended."""
_UNWATCHED_S = 30
"""If evalscribe did not end a sandbox, the sandbox ends by itself this many seconds after its time limit."""
_SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")


async def execute(
    command: Sequence[str],
    folders: Sequence[Folder],
    *,
    start_in: str = "/",
    environment: Mapping[str, str] | None = None,
    limits: SandboxLimits = SandboxLimits(),
    collect: Sequence[str] = (),
) -> Execution:
    """Run a command in a new sandbox, and end all processes that it started.

    Args:
        command: The program and its arguments. The program is a path inside the sandbox or a name that is found on the
            sandbox's `PATH`.
        folders: Folders that the command can access in addition to the system's programs. A folder can be inside a
            folder that precedes it in the list.
        start_in: Working directory of the command.
        environment: Environment variables in addition to `PATH`, `HOME` and `LANG`. No variable is inherited.
        limits: Limits for the time, memory and disk space that the command uses.
        collect: Files to read after the command has ended, as paths in the sandbox. Only files in writable folders
            are read.

    Raises:
        UnavailableError: Bubblewrap is missing, or user namespaces are switched off.
        UsageError: The folders are too large, or contain something other than files and folders.
    """
    async with open_folders(folders) as shared:
        return await shared.execute(command, start_in=start_in, environment=environment, limits=limits, collect=collect)


@contextlib.asynccontextmanager
async def open_folders(folders: Sequence[Folder]) -> AsyncIterator["SharedFolders"]:
    """Open folders for several commands that run one after another. Raises the same errors as `execute`."""
    await require_sandbox()
    with _temporary_folder() as place:
        yield SharedFolders(place, folders)


class SharedFolders:
    """Folders that several commands use in turn. Each command sees the changes that earlier commands made to them."""

    def __init__(self, place: Path, folders: Sequence[Folder]) -> None:
        self._place = place
        # Limits on processes have no effect on root, and a command that runs as root can change `/proc/sys` and read
        # every file that is mounted.
        self._uid = FIRST_UID + secrets.randbelow(UIDS) if os.geteuid() == 0 else None
        self._mounts: list[tuple[Path, Folder]] = []
        self._add(self._mounts, folders)

    def _add(self, mounts: list[tuple[Path, Folder]], folders: Sequence[Folder]) -> None:
        for folder in folders:
            # Folders that only one command uses are also removed only at the end, so each folder needs a unique name.
            to = self._place / f"{len(os.listdir(self._place))}"
            mounts.append((_mounted(folder, to, self._uid), folder))

    async def execute(
        self,
        command: Sequence[str],
        folders: Sequence[Folder] = (),
        *,
        start_in: str = "/",
        environment: Mapping[str, str] | None = None,
        limits: SandboxLimits = SandboxLimits(),
        collect: Sequence[str] = (),
    ) -> Execution:
        """Run a command in a new sandbox, and end all processes that it started.

        Args:
            command: The program and its arguments, as for the function `execute`.
            folders: Additional folders that only this command can access.
            start_in: Working directory of the command.
            environment: Environment variables in addition to `PATH`, `HOME` and `LANG`.
            limits: Limits for the time, memory and disk space that the command uses.
            collect: Files that are read after the command has ended, as for the function `execute`.
        """
        # Use folders on disk for `/` and `/dev/shm`. By default, they would be file systems in memory without a size
        # limit.
        mounts: list[tuple[Path, Folder]] = []
        self._add(mounts, (Folder(None, "/", writable=True), Folder(None, "/dev/shm", writable=True)))  # noqa: S108
        (mounts[0][0] / "tmp").mkdir()
        (mounts[0][0] / "tmp").chmod(0o1777)
        mounts += self._mounts
        self._add(mounts, folders)
        writable = [path for path, folder in mounts if folder.writable]
        # bubblewrap writes the id of the first process in the sandbox to this pipe.
        reading, writing = os.pipe()
        began = time.monotonic()
        try:
            line = _command_line(command, mounts, start_in, environment or {}, limits, self._place, self._uid, writing)
            try:
                async with _started(line, writing, reading) as process:
                    ended, output = await _watched(process, writable, limits)
                code = process.returncode if ended == "exited" else None
            except OSError as error:  # an argument or a variable of a task can be too long
                code, ended, output = NOT_STARTED, "exited", (error.strerror or str(error)).encode()
        finally:
            os.close(writing)
            os.close(reading)
        seconds = time.monotonic() - began
        collected = {name: text for name in collect if (text := _collected(name, mounts)) is not None}
        return Execution(
            exit_code=128 - code if code is not None and code < 0 else code,
            ended=ended,
            output=output.decode("utf-8", "replace"),
            seconds=seconds,
            files=collected,
        )


def _end_first_process(process: int, info: int) -> None:
    """Kill the first process in a sandbox, and wait until it has ended.

    Linux then kills all other processes in the sandbox. Bubblewrap ends when the command ends, but other processes in
    the sandbox might still be running at that moment, and could change files while evalscribe reads them. If bubblewrap
    is killed while it starts, the first process in the sandbox is not yet set to die with bubblewrap, and would
    continue to run.

    Args:
        process: Process id of bubblewrap, which has already ended or been killed.
        info: Descriptor from which the id of the first process is read, as written by bubblewrap. Nothing can be read
            if bubblewrap ended before it wrote the id.
    """
    with contextlib.suppress(ChildProcessError):
        # bubblewrap has written the id by the time it has ended. `WNOWAIT` leaves its exit code for asyncio.
        os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)
    os.set_blocking(info, False)
    try:
        match = re.search(rb'"child-pid": *(\d+)', os.read(info, 4096))
    except BlockingIOError:
        return
    if match is None:
        return
    with contextlib.suppress(ProcessLookupError):
        # The descriptor always refers to the same process. The number could be reused for another process at any time.
        descriptor = os.pidfd_open(int(match[1]))
        try:
            with contextlib.suppress(OSError):
                # The number might have been reused for another process before the descriptor was opened. Inside a
                # sandbox, only its first process has the number 1.
                if re.search(r"^NSpid:.*\s1$", Path(f"/proc/{int(match[1])}/status").read_text(), re.MULTILINE):
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            end_event = select.poll()
            end_event.register(descriptor, select.POLLIN)
            end_event.poll(_END_S * 1000)
        finally:
            os.close(descriptor)


async def execute_outside(command: Sequence[str], limits: SandboxLimits) -> Execution:
    """Run a command that the user supplies and that itself isolates answers.

    The command runs outside of the sandbox, with the user's own permissions. Raises `UnavailableError` if the command
    cannot be started.
    """
    began = time.monotonic()
    try:
        # The user's own command, for example docker, needs the user's environment.
        async with _started(command, environment=os.environ) as process:
            ending, output = await _watched(process, [], limits)
    except OSError as error:
        raise UnavailableError(f"the replay command {command[0]} cannot be started: {error.strerror}") from None
    code = process.returncode if ending == "exited" else None
    return Execution(
        128 - code if code is not None and code < 0 else code,
        ending,
        output.decode("utf-8", "replace"),
        time.monotonic() - began,
        {},
    )


def _no_sandbox(reason: str) -> UnavailableError:
    return UnavailableError(
        f"bubblewrap cannot create a sandbox here, and untrusted code is not run without one: {reason}, or set "
        "`replay_command` to a command that itself isolates answers, for example with docker.",
        fields=("replay_command",),
    )


_checked = False


async def require_sandbox() -> None:
    """Check that bubblewrap works, once per process. Raises `UnavailableError` with instructions if it does not."""
    global _checked
    if _checked:
        return
    if not sys.platform.startswith("linux"):
        raise _no_sandbox("it needs Linux. Use a Linux container or machine")
    programs = ("bwrap", "prlimit", "setpriv", "timeout", "rm", "chmod")
    if missing := [name for name in programs if shutil.which(name) is None]:
        packages = "bubblewrap" if missing == ["bwrap"] else "bubblewrap, util-linux and coreutils"
        raise _no_sandbox(f"{', '.join(missing)} not found. Install {packages}")
    await asyncio.to_thread(_remove_leftovers)
    # A missing program is not the only obstacle: many CI images do not allow user namespaces, so a sandbox is tried.
    with _temporary_folder() as place:
        done = await SharedFolders(place, ()).execute(("true",))
    if done.exit_code != 0:
        lines = visible(done.output).strip().splitlines()
        raise _no_sandbox(
            f"{lines[-1] if lines else done.ended}. Allow user namespaces (`sysctl kernel.unprivileged_userns_clone`, "
            "`user.max_user_namespaces`, a container's security profile)"
        )
    _checked = True


SCRATCH = "evalscribe-replay-"


def scratch_prefix() -> str:
    """Return the prefix for the names of a replay's temporary folders.

    The prefix has the id of this process, so that folders of killed processes can be recognised. The prefix also has
    the name of the host: containers can share the folder for temporary files, but each container has its own process
    ids.
    """
    return f"{SCRATCH}{os.getpid()}-{os.uname().nodename}-"


def _remove_leftovers() -> None:
    """Remove the temporary folders of killed evalscribe processes.

    Sandboxes that still use these folders are ended first.
    """
    folders = Path(tempfile.gettempdir()).glob(f"{SCRATCH}*-{os.uname().nodename}-*")
    dead = [path for path in folders if _is_own_folder(path) and not psutil.pid_exists(_maker(path.name))]
    for process in psutil.process_iter(["cmdline"]) if dead else ():
        words = process.info["cmdline"] or ()
        if words[:1] == ["bwrap"] and any(str(path) in word for word in words for path in dead):
            with contextlib.suppress(psutil.Error):
                process.kill()
    for path in dead:
        _remove(path)


def _is_own_folder(path: Path) -> bool:
    """Return whether a path is a folder that belongs to this user.

    The check is needed because other users could create links and folders with the same kind of name.
    """
    with contextlib.suppress(OSError):
        state = path.lstat()
        return stat.S_ISDIR(state.st_mode) and state.st_uid == os.geteuid()
    return False


def _maker(folder: str) -> int:
    number = folder.removeprefix(SCRATCH).partition("-")[0]
    # A folder whose name has another form is treated as this process's own, so that it is not removed.
    return int(number) if number.isdecimal() and len(number) < 10 else os.getpid()


@contextlib.contextmanager
def _temporary_folder() -> Iterator[Path]:
    """Yield a new folder. Remove the folder and its content when the context exits.

    Other users can reach files in the folder by name, but cannot list them.
    """
    place = Path(tempfile.mkdtemp(prefix=scratch_prefix()))
    try:
        place.chmod(0o711)
        yield place
    finally:
        _remove(place)


def _remove(folder: Path) -> None:
    # `shutil.rmtree` fails at a depth of a thousand folders. The command might also have changed their permissions.
    if subprocess.run(["rm", "-rf", "--", folder], stderr=subprocess.DEVNULL, check=False).returncode:
        subprocess.run(["chmod", "-R", "u+rwX", "--", folder], stderr=subprocess.DEVNULL, check=False)
        subprocess.run(["rm", "-rf", "--", folder], stderr=subprocess.DEVNULL, check=False)


@contextlib.contextmanager
def readable_copy(source: Path, *, hidden: bool = False) -> Iterator[Path]:
    """Copy a folder once, for use by several sandboxes.

    Hidden files and folders can contain keys, so they are copied only if `hidden` is true. Raises `UsageError` if the
    folder is too large or contains something other than files and folders.
    """
    with _temporary_folder() as place:
        yield _copy(source, place / "copy", None, hidden=hidden)


def _mounted(folder: Folder, to: Path, uid: int | None) -> Path:
    """Return the path to mount in the sandbox: a new empty folder, a new writable copy, or the original."""
    if folder.source is None:
        to.mkdir()
        if uid is not None:
            os.chown(to, uid, uid)
        return to
    return _copy(folder.source, to, uid) if folder.writable else folder.source


def _copy(source: Path, to: Path, uid: int | None, *, hidden: bool = True) -> Path:
    """Copy a folder or file, so that it belongs to the sandbox's user."""
    try:
        if source.is_dir():
            skipped = None if hidden else shutil.ignore_patterns(".*", "__pycache__")
            _check_size(source, hidden=hidden)
            # Symbolic links are copied as links. Inside the sandbox, they cannot lead out of it.
            shutil.copytree(source, to, symlinks=True, ignore=skipped)
        else:
            shutil.copyfile(source, to)
        _change_owner(to, uid)
    except RecursionError:
        raise UsageError(f"{source} is too deeply nested to copy into a sandbox") from None
    except shutil.Error as error:
        file, _, reason = error.args[0][0]
        raise UsageError(f"{file} cannot be copied into a sandbox: {one_line(str(reason))}") from None
    return to


def _change_owner(to: Path, uid: int | None) -> None:
    for path in (to, *to.rglob("*")):
        if path.is_symlink():
            continue
        executable = path.is_dir() or path.stat().st_mode & stat.S_IXUSR
        # The sandbox's user must be able to read the copy, whatever the modes of the originals are.
        path.chmod(0o755 if executable else 0o644)
        if uid is not None:
            os.chown(path, uid, uid)


def _check_size(folder: Path, *, hidden: bool) -> None:
    size = 0
    for number, path in enumerate(folder.rglob("*")):
        if number >= COPIED_FILES:
            raise UsageError(f"{folder} has more than {COPIED_FILES:,} files, too many to copy into a sandbox")
        if not hidden and any(part.startswith(".") for part in path.relative_to(folder).parts):
            continue
        state = path.lstat()
        if not (stat.S_ISREG(state.st_mode) or stat.S_ISDIR(state.st_mode) or stat.S_ISLNK(state.st_mode)):
            raise UsageError(f"{path} cannot be copied into a sandbox: it is neither a file nor a folder")
        size += state.st_size
        if size > COPIED_BYTES:
            raise UsageError(f"{folder} has more than {COPIED_BYTES // MIB} MB, too much to copy into a sandbox")


def _command_line(
    command: Sequence[str],
    mounts: Sequence[tuple[Path, Folder]],
    start_in: str,
    environment: Mapping[str, str],
    limits: SandboxLimits,
    place: Path,
    uid: int | None,
    info: int,
) -> list[str]:
    outer: list[str] = []
    if uid is not None:
        # If the Python interpreter is in root's home, the sandbox's user cannot access it there. Therefore an outer
        # bubblewrap mounts it at a path that this user can read, and runs nothing but the inner bubblewrap.
        read = [path for path, folder in mounts if folder.source is not None and not folder.writable]
        moved = {path: place / f"read-{n}" for n, path in enumerate(read, len(os.listdir(place)))}
        for path, to in moved.items():
            to.mkdir() if path.is_dir() else to.touch()
            outer += ["--ro-bind", str(path), str(to)]
        mounts = [(moved.get(path, path), folder) for path, folder in mounts]
        ids = (f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--no-new-privs")
        start = ("bwrap", "--die-with-parent", "--dev-bind", "/", "/", *outer) if outer else ()
        outer = [*start, "setpriv", *ids]
    # The limits on memory and file size apply to each process and each file. `_watched` checks the totals.
    bounded = [
        *("prlimit", f"--nproc={limits.processes}", f"--as={4 * limits.memory_bytes}", f"--fsize={limits.file_bytes}"),
        *("--nofile=1024", f"--cpu={limits.cpu_s}", "--core=0"),
    ]
    # `--disable-userns` requires an explicit `--unshare-user`. Without `--clearenv`, variables with secrets would be
    # inherited.
    isolated = [
        *("bwrap", "--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session"),
        *("--cap-drop", "ALL", "--clearenv", "--hostname", "sandbox", "--info-fd", str(info)),
        *("--bind", str(mounts[0][0]), "/", "--ro-bind", "/usr", "/usr"),
    ]
    for name in _SYSTEM:
        path = Path("/", name)
        if path.is_symlink():
            isolated += ["--symlink", os.readlink(path), str(path)]
        elif path.is_dir():
            isolated += ["--ro-bind", str(path), str(path)]
    # In Debian, `awk` and other programs are links into this folder. Without it, they end with exit code 127.
    isolated += ["--ro-bind-try", "/etc/alternatives", "/etc/alternatives"]
    isolated += ["--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"]
    isolated += ["--proc", "/proc", "--dev", "/dev", "--bind", str(mounts[1][0]), mounts[1][1].inside]
    # `/dev` is a file system in memory without a limit. `/dev/shm` was mounted over it and stays writable.
    isolated += ["--remount-ro", "/dev"]
    for path, folder in mounts[2:]:
        isolated += ["--bind" if folder.writable else "--ro-bind", str(path), folder.inside]
    variables = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8", **environment}  # noqa: S108
    for name, value in variables.items():
        isolated += ["--setenv", name, value]
    # This ends a sandbox that did not receive the signal when its parent process died.
    last = ("timeout", "--kill-after=1", str(round(limits.wall_s) + _UNWATCHED_S))
    return [*outer, *bounded, *isolated, "--chdir", start_in, "--", *last, *command]


@contextlib.asynccontextmanager
async def _started(
    line: Sequence[str],
    inherited: int | None = None,
    info: int | None = None,
    environment: Mapping[str, str] | None = None,
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start a process in a new process group, and kill the whole group when the context exits."""
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *line,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            # The process group can then be killed as a whole.
            start_new_session=True,
            pass_fds=() if inherited is None else (inherited,),
            # bubblewrap itself gets no variables with secrets either.
            env={"PATH": os.environ.get("PATH", os.defpath)} if environment is None else environment,
        )
    )
    cancelled = None
    try:
        # Without the shield, asyncio would only kill the program itself when this task is cancelled here.
        process = await asyncio.shield(starting)
    except asyncio.CancelledError as error:
        process, cancelled = await starting, error
    try:
        if cancelled is not None:
            raise cancelled
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            # In a sandbox, this also ends processes that left the group: they die with the first process of their
            # namespace.
            os.killpg(process.pid, signal.SIGKILL)
        if info is not None:
            await asyncio.to_thread(_end_first_process, process.pid, info)
        assert process.stdout is not None
        while await process.stdout.read(65_536):  # `wait` returns only when all output has been read
            pass
        await process.wait()


async def _watched(
    process: asyncio.subprocess.Process, writable: Sequence[Path], limits: SandboxLimits
) -> tuple[Ending, bytes]:
    """Read the output of a process until the process ends or exceeds a limit."""
    output = bytearray()
    reading = asyncio.ensure_future(_read(process, output, limits.output_bytes))
    deadline = time.monotonic() + limits.wall_s
    try:
        while True:
            done, _ = await asyncio.wait((reading,), timeout=min(_LOOK_S, max(0.0, deadline - time.monotonic())))
            if done:
                if not reading.result():
                    return "output limit", bytes(output)
                # The pipe is closed, but the process can still be running.
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(process.wait(), max(0.0, deadline - time.monotonic()))
                    return "exited", bytes(output)
                return "time limit", bytes(output)
            if time.monotonic() >= deadline:
                return "time limit", bytes(output)
            if not await asyncio.to_thread(_is_within, writable, limits.disk_bytes, limits.files):
                return "disk limit", bytes(output)
            if await asyncio.to_thread(_memory, process.pid) > limits.memory_bytes:
                return "memory limit", bytes(output)
    finally:
        reading.cancel()
        await asyncio.wait((reading,))


async def _read(process: asyncio.subprocess.Process, output: bytearray, most: int) -> bool:
    """Read the output of a process until its pipe is closed. Returns False as soon as `output` has `most` bytes."""
    assert process.stdout is not None
    while piece := await process.stdout.read(65_536):
        output += piece[: most - len(output)]
        if len(output) >= most:
            return False
    return True


def _is_within(folders: Sequence[Path], most_bytes: int, most_files: int) -> bool:
    """Return whether all folders together are within both limits. Stops as soon as a limit is exceeded."""
    size, number = 0, 0
    unread = list(folders)
    while unread:
        with contextlib.suppress(OSError), os.scandir(unread.pop()) as entries:
            for entry in entries:
                number += 1
                with contextlib.suppress(OSError):
                    # Blocks are counted, because a sparse file takes less space than its size.
                    size += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        unread.append(Path(entry.path))
                if size > most_bytes or number > most_files:
                    return False
    return True


def _memory(pid: int) -> int:
    """Return the number of bytes of memory that a process and its descendants use."""
    used, unread = 0, [pid]
    while unread:
        process_id = unread.pop()
        with contextlib.suppress(OSError, ValueError, IndexError):
            # The kernel's limit applies to each process: four processes of 300 MB each would pass a limit of 500 MB.
            used += int(Path(f"/proc/{process_id}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            for task in os.listdir(f"/proc/{process_id}/task"):
                unread += map(int, Path(f"/proc/{process_id}/task/{task}/children").read_text().split())
    return used


def _collected(name: str, mounts: Sequence[tuple[Path, Folder]]) -> str | None:
    """Return the first `COLLECTED_BYTES` of a file that the command wrote.

    Returns None if there is no such file, or if it is a link or a device.
    """
    path_inside = PurePosixPath(name)
    for path, folder in reversed(mounts):
        if not folder.writable or not path_inside.is_relative_to(folder.inside):
            continue
        host_path = path / path_inside.relative_to(folder.inside)
        # A folder on the way can be a link to a file outside the sandbox.
        if os.path.realpath(host_path) != os.path.join(os.path.realpath(path), path_inside.relative_to(folder.inside)):
            return None
        with contextlib.suppress(OSError):
            # Opening a pipe would block without `O_NONBLOCK`.
            descriptor = os.open(host_path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(descriptor, "rb") as file:
                if stat.S_ISREG(os.fstat(descriptor).st_mode):
                    return file.read(COLLECTED_BYTES).decode("utf-8", "replace")
        return None
    return None
