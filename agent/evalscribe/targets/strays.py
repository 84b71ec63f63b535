"""Processes that left the group of the one that started them: a tool that an agent gives a session of its own."""

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path


def strays(leader: int) -> list[int]:
    """Handles of the descendants of a group's leader that are in another group; `end_strays` takes them.

    A handle means the same process even when its id is another's by then. None where the system has no `/proc`.
    """
    found = []
    for pid in _descendants(leader):
        with suppress(OSError):
            if os.getpgid(pid) != leader:
                found.append(os.pidfd_open(pid))
    return found


def end_strays(handles: Sequence[int]) -> None:
    for handle in handles:
        with suppress(OSError):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        os.close(handle)


def _descendants(pid: int) -> Iterator[int]:
    left = [pid]
    while left:
        for file in Path(f"/proc/{left.pop()}/task").glob("*/children"):
            with suppress(OSError):  # of one that ended meanwhile
                children = [int(child) for child in file.read_text().split()]
                yield from children
                left += children
