"""Run a check in a child process with a time limit, because `re` cannot be interrupted.

The child limits its own time, so it ends even if the parent is gone.
"""

import asyncio
import contextlib
import json
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from pathlib import Path
from typing import Any, cast

from pydantic import JsonValue

from evalscribe.experiments.scorers.definition import CannotScore

LONGEST_S = 2.0
"""Seconds of CPU time for one answer."""
_CHILD = Path(__file__).with_name("bounded_child.py")
"""Started as a file, because importing its package takes longer than most of its work."""
_LONGEST_LINE = 2**26


class Bounded:
    """Child process of one schema, started on first use and again after it had to be killed."""

    def __init__(self, schema: JsonValue) -> None:
        self._first = _line([schema, LONGEST_S])
        self._child: Process | None = None
        self._one_at_a_time = asyncio.Lock()

    async def ask(self, value: JsonValue) -> JsonValue:
        """Return the problems of `value`. Raises `CannotScore` after the time limit."""
        async with self._one_at_a_time:
            try:
                told = await self._told(await self._running(), value)
            except BaseException:
                await self._ended()  # An answer that nobody waited for must not be taken for the next one.
                raise
        if "error" in told:
            raise CannotScore(told["type"], told["error"])
        return cast(JsonValue, told["answer"])

    async def close(self) -> None:
        async with self._one_at_a_time:
            await self._ended()

    async def _running(self) -> Process:
        if self._child is None:
            command = (sys.executable, "-P", str(_CHILD))
            try:
                self._child = await asyncio.create_subprocess_exec(
                    *command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, start_new_session=True, limit=_LONGEST_LINE
                )
            except OSError as error:
                raise CannotScore("scorer_error", f"could not start a process for it: {error.strerror}") from error
            assert self._child.stdin
            self._child.stdin.write(self._first)
        return self._child

    async def _told(self, child: Process, value: JsonValue) -> dict[str, Any]:
        assert child.stdin
        assert child.stdout
        with contextlib.suppress(ConnectionError):
            child.stdin.write(_line(value))
            await child.stdin.drain()
        answer = await child.stdout.readline()
        if not answer:
            raise _why(await child.wait())
        told: dict[str, Any] = json.loads(answer)
        return told

    async def _ended(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        if child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
        if child.stdin:
            child.stdin.close()
        await child.wait()


def _line(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"


def _why(code: int) -> CannotScore:
    if code == -signal.SIGVTALRM:
        return CannotScore("timeout_error", f"checking this text takes more than {LONGEST_S:g} s of CPU time")
    return CannotScore("scorer_error", f"the checking process ended with code {code}")
