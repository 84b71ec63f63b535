"""Processes that left the group of the one that started them: tools with a session of their own, daemons."""

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress

import psutil

ROUNDS = 20
"""Attempts to end processes that start others as quickly as they are ended."""


def strays(leader: int) -> list[psutil.Process]:
    """Return the descendants of a group's leader that are in another group."""
    found = []
    with suppress(psutil.Error):
        for process in psutil.Process(leader).children(recursive=True):
            with suppress(ProcessLookupError):
                if os.getpgid(process.pid) != leader:
                    found.append(process)
    return found


def end_strays(processes: Sequence[psutil.Process]) -> None:
    """Kill processes. psutil compares the start time first: an id may be another process's by now."""
    for process in processes:
        with suppress(psutil.Error):
            process.kill()


async def end_marked(mark: str) -> None:
    """Kill every process that was started with this value in its environment: also a daemon, whose parents have ended.

    A process that was started with another environment is not found.
    """
    for _ in range(ROUNDS):
        found = await asyncio.to_thread(_marked, mark)
        if not found:
            return
        end_strays(found)
        await asyncio.sleep(0.01)


def _marked(mark: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):  # another user's, or ended meanwhile
            if mark in process.environ().values():
                found.append(process)
    return found
