"""Processes that left the group of the one that started them: tools with a session of their own, daemons."""

import asyncio
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

ROUNDS = 20
"""Of looking for what starts others as quickly as it is ended."""


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


async def end_marked(mark: str) -> None:
    """End whoever has this in the environment that it was started with: also a daemon, whose parents have ended.

    Not one that was started with another environment. Nothing where the system has no `/proc`.
    """
    for _ in range(ROUNDS):
        found = await asyncio.to_thread(_marked, mark.encode())
        if not found:
            return
        end_strays(found)
        await asyncio.sleep(0.01)


def _marked(mark: bytes) -> list[int]:
    """Handles of those that have not ended."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # another user's, or ended meanwhile
            if mark in (place / "environ").read_bytes():
                found.append(os.pidfd_open(int(place.name)))
    return found


def _descendants(pid: int) -> Iterator[int]:
    left = [pid]
    while left:
        for file in Path(f"/proc/{left.pop()}/task").glob("*/children"):
            with suppress(OSError):  # of one that ended meanwhile
                children = [int(child) for child in file.read_text().split()]
                yield from children
                left += children
