"""Lock files. The kernel releases a lock when the process that holds it ends."""

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from evalscribe.errors import UnavailableError
from evalscribe.ids import content_id, path_part


@contextmanager
def run_lock(folder: Path, run_id: str) -> Iterator[None]:
    """Lock a run for this process.

    Raises `UnavailableError`, with the holder and the time of locking, if another process has locked the run.
    """
    descriptor = _open(folder / _run_file(run_id))
    try:
        # A shared lock fails only if another process has locked the run exclusively.
        while not _try_lock(descriptor, fcntl.LOCK_EX):
            if not _try_lock(descriptor, fcntl.LOCK_SH):
                raise UnavailableError(busy(run_id, _holder(descriptor)))
            # The run is not locked. Another process only held a shared lock for a moment, to read the holder's name.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        _write_holder(descriptor)
        yield
    finally:
        os.close(descriptor)


def run_holder(folder: Path, run_id: str) -> str | None:
    """Describe the process that has locked a run; None if the run is not locked. Does not block other processes."""
    try:
        # The file is not created, because looking for a holder must not leave files behind.
        descriptor = os.open(folder / _run_file(run_id), os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        return None if _try_lock(descriptor, fcntl.LOCK_SH) else _holder(descriptor) or "another process"
    finally:
        os.close(descriptor)


def _run_file(run_id: str) -> str:
    # The hash distinguishes runs whose ids have the same first 40 characters, or differ only in characters that a path
    # cannot have.
    return f"{path_part(run_id)[:40]}-{content_id(run_id)[-12:]}.lock"


def _try_lock(descriptor: int, kind: int) -> bool:
    """Try to lock a file without waiting.

    An exclusive lock is for the process that works. A shared lock is for processes that only read the holder's name.
    """
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def claimed(path: Path) -> Iterator[bool]:
    """Try to lock a file, and yield whether this succeeded.

    At the end of the `with` block, the process that holds the lock removes the file.
    """
    descriptor = _open(path)
    try:
        acquired = _try_claim(descriptor, path)
        try:
            yield acquired
        finally:
            if acquired:
                # The file is removed while the lock is held. Once the lock is released, the file could belong to
                # another process.
                path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Lock a file. Wait while another process has locked it.

    Only one process at a time may create or upgrade the database.
    """
    descriptor = _open(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _try_claim(descriptor: int, path: Path) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The holder might have removed the file after we opened it and before we locked it.
        return os.stat(path).st_ino == os.fstat(descriptor).st_ino
    except (BlockingIOError, FileNotFoundError):
        return False


def _open(path: Path) -> int:
    # Links are not followed, because writing to a planted link would truncate its target.
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)


def _write_holder(descriptor: int) -> None:
    start_time = datetime.now(UTC).isoformat(sep=" ", timespec="seconds")
    # The file can still contain the longer text of an earlier holder.
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"process {os.getpid()} since {start_time}".encode(), 0)


def _holder(descriptor: int) -> str | None:
    """Describe the process that holds a lock; None if another program wrote the lock file."""
    match = re.match(rb"process \d+ since [-+:\d ]+", os.pread(descriptor, 200, 0))
    return match[0].decode() if match else None


def busy(run_id: str, holder: str | None) -> str:
    """Render the error message for a run that is locked."""
    holder_text = holder or "another process"
    return f"run {run_id} is already being analysed by {holder_text}.\nWait for it, or end that process and try again."
