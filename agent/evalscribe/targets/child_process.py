"""One process that a user's Python runs in, as its parent sees it."""

import asyncio
import json
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from secrets import randbits
from typing import Any

from evalscribe.errors import UsageError
from evalscribe.targets.group import Group, signal_name
from evalscribe.targets.plain import LARGEST

PROGRAM = Path(__file__).with_name("child.py")
LINE = 2 * LARGEST
"""Bytes of one line at most."""
NUMBER_BITS = 62
_ANSWERS = {"described", "value", "error", "gone"}
LONGEST_MS = 1e12
LET_GO_S = 1.0
"""Seconds within which the process has to say that a call is gone; else its event loop is stuck."""


class ChildDied(Exception):
    """The process ended while it was asked; says how."""


class ChildProcess:
    """Answers many questions at a time. Made by `started`."""

    def __init__(self, group: Group, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.abandoned: set[int] = set()
        """Calls that nobody waits for and that did not end."""
        self._group = group
        self._writer = writer
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._loads: dict[tuple[str, str], asyncio.Task[dict[str, Any]]] = {}
        self._dead: str | None = None
        self._listener = asyncio.create_task(self._listen(reader))

    @classmethod
    async def started(cls, folder: Path, lanes: int, env: Mapping[str, str]) -> "ChildProcess":
        """In a process group of its own. Raises `UsageError` where it cannot be started."""
        ours, theirs = socket.socketpair()
        options = ("-P", "-u", "-X", "faulthandler", str(PROGRAM), str(theirs.fileno()), str(folder), str(lanes))
        try:
            group = await Group.started(
                (sys.executable, *options), folder, env=env, pass_fds=(theirs.fileno(),), merged=True
            )
        except OSError as error:
            ours.close()
            raise UsageError(f"Python cannot be started in {folder}: {error.strerror or error}") from None
        finally:
            theirs.close()
        try:
            return cls(group, *await asyncio.open_connection(sock=ours, limit=LINE))
        except BaseException:
            group.kill()
            raise

    @property
    def alive(self) -> bool:
        return self._dead is None

    @property
    def idle(self) -> bool:
        """Whether nobody waits for it."""
        return not self._waiting

    async def load(self, address: str, kind: str) -> dict[str, Any]:
        """Import once; what it says of it. Raises `ChildDied`."""
        return await asyncio.shield(self.begin_load(address, kind))

    def begin_load(self, address: str, kind: str) -> asyncio.Task[dict[str, Any]]:
        """As `load`, without waiting for it."""
        key = (address, kind)
        if key not in self._loads:
            self._loads[key] = asyncio.create_task(self._ask(_number(), {"load": address, "kind": kind}))
        return self._loads[key]

    async def call(self, address: str, kind: str, payload: object, timeout_s: float) -> dict[str, Any]:
        """What it answers; `late` with its log where it took longer. Raises `ChildDied`."""
        number = _number()
        try:
            async with asyncio.timeout(timeout_s):
                return await self._ask(number, {"call": address, "kind": kind, "payload": payload})
        except TimeoutError:
            return {"late": True, "log": await self._let_go(number)}
        except asyncio.CancelledError:
            with suppress(OSError):
                self._send({"id": number, "drop": number})
            raise

    async def end(self) -> None:
        """With all that it started."""
        await self._group.end(grace_s=0)
        self._writer.close()
        await self._listener
        await asyncio.gather(*self._loads.values(), return_exceptions=True)

    async def _ask(self, number: int, message: dict[str, Any]) -> dict[str, Any]:
        if self._dead is not None:
            raise ChildDied(self._dead)
        self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            self._send({"id": number, **message})
            return await self._waiting[number]
        finally:
            self._waiting.pop(number, None)

    def _send(self, message: dict[str, Any]) -> None:
        self._writer.write(json.dumps(message).encode() + b"\n")

    async def _let_go(self, number: int) -> str:
        """Have a call ended that took too long; its log. A process that says nothing to this is ended."""
        try:
            async with asyncio.timeout(LET_GO_S):
                said = await self._ask(number, {"drop": number})
        except TimeoutError:
            self._dead = "its event loop was held up by a call that timed out"
            self._group.kill()
            return ""
        except ChildDied:
            return ""
        if said.get("gone") is False:
            self.abandoned.add(number)
        return str(said.get("log", ""))

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        try:
            while line := await reader.readline():
                said = _reply(line)
                waiting = self._waiting.get(said["id"])
                if waiting is None:
                    self.abandoned.discard(said["id"])
                elif not waiting.done():
                    waiting.set_result(said)
        except (ValueError, RecursionError):
            self._dead = "what came from its process is no reply of ours"
        except OSError:
            pass  # how it ended says why
        self._group.kill()
        code = await self._group.wait()
        self._dead = self._dead or _ending(code)
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ChildDied(self._dead))

    @property
    def printed(self) -> str:
        """The end of what it wrote outside of calls: what a crash says."""
        return self._group.err.text


def _reply(line: bytes) -> dict[str, Any]:
    """Raises `ValueError`, `RecursionError` for what is none."""
    said: dict[str, Any] = json.loads(line, parse_constant=_no_json)
    if not _is_reply(said):
        raise ValueError("no reply")
    return said


def _is_reply(said: object) -> bool:
    """Whether it has the form of one: a user's code can write to the connection that its process has, too."""
    return (
        isinstance(said, dict)
        and isinstance(said.get("id"), int)
        and isinstance(said.get("ms"), int | float)
        and 0 <= said["ms"] < LONGEST_MS
        and all(isinstance(said.get(name, ""), str) for name in ("log", "error", "traceback"))
        and isinstance(said.get("described", {}), dict)
        and not _ANSWERS.isdisjoint(said)
    )


def _number() -> int:
    """Of a call: another one, with which it shares the process, cannot guess it to answer in its place."""
    return randbits(NUMBER_BITS)


def _no_json(name: str) -> object:
    raise ValueError(f"{name} is no JSON")


def _ending(code: int) -> str:
    return f"its process ended ({f'exit code {code}' if code >= 0 else signal_name(-code)})"
