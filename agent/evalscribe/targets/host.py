"""A user's Python, in a process of its own: many calls at a time, and no call can take the others with it."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, JsonValue

from evalscribe.errors import DataError, EvalscribeError, UsageError
from evalscribe.ids import Frozen
from evalscribe.json_data import clean_json, clean_text
from evalscribe.redaction.redact import redact
from evalscribe.targets.child_process import ChildDied, ChildProcess
from evalscribe.targets.environment import for_users_code, new_mark
from evalscribe.targets.strays import end_marked

Kind = Literal["component", "scorer"]
MOST_ABANDONED = 3
"""Calls that time out in a thread go on, since nothing can end a thread; after so many, a new process takes over."""
IMPORT_S = 120.0
"""Within which a module has to be imported."""
ALONE = 4
"""Calls at a time that are tried again in a process of their own."""


class Described(Frozen):
    """What is known of a function that can be called."""

    address: str
    doc: str = ""
    parameters: tuple[str, ...] = ()
    code: str
    """Content id of the folder's modules that it imports."""
    name: str | None = None
    """Of a scorer: this and the rest, as its decorator was told."""
    description: str = ""
    depends_on: tuple[str, ...] = ()
    config: dict[str, JsonValue] = Field(default_factory=dict)
    """Its settings with their defaults."""


class HostReply(Frozen):
    """How a call ended: with a value, or with an error."""

    value: JsonValue = None
    error: str | None = None
    """One line."""
    traceback: str = ""
    log: str = ""
    """The end of what it printed."""
    timed_out: bool = False
    duration_ms: float = 0.0


class Host:
    """Imports from `folder` and calls what is there, `lanes` plain functions at a time; async ones have no bound.

    Where its process dies, calls that were in it are made once more, each in a process of its own, so that only the
    one that is at fault fails. An async function that does not give way holds up all others until it times out.
    """

    def __init__(self, folder: Path, lanes: int) -> None:
        self._folder = folder
        self._mark = new_mark()
        self._lanes = lanes
        self._shared: ChildProcess | None = None
        self._all: set[ChildProcess] = set()
        self._starting = asyncio.Lock()
        self._alone = asyncio.Semaphore(ALONE)
        self._closed = False

    async def check(self, address: str, kind: Kind) -> Described:
        """Import in a process of its own. Raises `UsageError` saying why it cannot be used."""
        child = await self._new(1)
        try:
            said = await self._loaded(child, address, kind)
        except ChildDied as death:
            raise self._unusable(address, f"{death} while it was imported", child.printed) from None
        finally:
            await self._end(child)
        return _described(address, said["described"])

    async def begin(self, address: str, kind: Kind) -> None:
        """Start the process, which imports the function while others get ready; calls hear how that went.

        Raises `UsageError` where it cannot be started.
        """
        (await self._current()).begin_load(address, kind)
        await asyncio.sleep(0)  # It is told before this process does anything else.

    async def call(self, address: str, kind: Kind, payload: JsonValue, timeout_s: float) -> HostReply:
        """One call. Raises `UsageError` where the function cannot be imported: that concerns all calls.

        `payload` of a component: `{"input": …, "context": {…}}`; of a scorer a `custom_scorer.BoundRequest`, whose
        value is a `ScoreResult`.
        """
        try:
            return await self._tried(await self._current(), address, kind, payload, timeout_s)
        except ChildDied:
            if self._closed:
                raise EvalscribeError("the process of a Python function was ended") from None
        async with self._alone:
            return await self._apart(address, kind, payload, timeout_s)

    async def close(self) -> None:
        """End every process and what these started."""
        self._closed = True
        await asyncio.gather(*(self._end(child) for child in tuple(self._all)))
        await end_marked(self._mark)

    async def _apart(self, address: str, kind: Kind, payload: JsonValue, timeout_s: float) -> HostReply:
        child = await self._new(1)
        try:
            return await self._tried(child, address, kind, payload, timeout_s)
        except ChildDied as death:
            return HostReply(error=str(death), log=redact(child.printed))
        finally:
            await self._end(child)

    async def _tried(
        self, child: ChildProcess, address: str, kind: Kind, payload: JsonValue, timeout_s: float
    ) -> HostReply:
        await self._loaded(child, address, kind)
        said = await child.call(address, kind, payload, timeout_s)
        if child is not self._shared and child.idle and child in self._all:
            await self._end(child)
        if said.get("late"):
            reason = f"no answer within {timeout_s:g} s"
            return HostReply(error=reason, log=redact(said["log"]), timed_out=True, duration_ms=timeout_s * 1000)
        return _reply(said)

    async def _loaded(self, child: ChildProcess, address: str, kind: Kind) -> Mapping[str, Any]:
        try:
            async with asyncio.timeout(IMPORT_S):
                said = await child.load(address, kind)
        except TimeoutError:
            raise self._unusable(address, f"is not imported within {IMPORT_S:g} s", "") from None
        if "error" in said:
            raise self._unusable(address, said["error"], said.get("traceback") or said["log"])
        return said

    def _unusable(self, address: str, reason: str, more: str) -> UsageError:
        lines = [line for line in redact(more).splitlines() if f'File "{self._folder}' in line]
        place = f" ({lines[-1].strip()})" if lines else ""
        return UsageError(f"python:{address}: {redact(reason)}{place}\nIt is imported from {self._folder} (--folder).")

    async def _current(self) -> ChildProcess:
        """The process for new calls. One with too much that does not end only finishes what it has."""
        async with self._starting:
            now = self._shared
            if now is not None and now.alive and len(now.abandoned) < MOST_ABANDONED:
                return now
            self._shared = await self._new(self._lanes)
        if now is not None and (now.idle or not now.alive):
            await self._end(now)
        return self._shared

    async def _new(self, lanes: int) -> ChildProcess:
        if self._closed:
            raise EvalscribeError("the process of a Python function was ended")
        child = await ChildProcess.started(self._folder, lanes, for_users_code(self._mark))
        self._all.add(child)
        return child

    async def _end(self, child: ChildProcess) -> None:
        self._all.discard(child)
        await child.end()


async def describe(folder: Path, address: str, kind: Kind) -> Described:
    """Import a function once, in a process of its own. Raises `UsageError` if it cannot be used."""
    host = Host(folder, 1)
    try:
        return await host.check(address, kind)
    finally:
        await host.close()


def _described(address: str, said: Mapping[str, Any]) -> Described:
    about = said["about"]
    return Described(
        address=address,
        doc=said["doc"],
        parameters=tuple(said["parameters"]),
        code=said["code"],
        name=about.get("name"),
        description=about.get("description", ""),
        depends_on=tuple(about.get("depends_on", ())),
        config=dict(about.get("config", {})),
    )


def _reply(said: Mapping[str, Any]) -> HostReply:
    """As it may be stored."""
    told = {name: clean_text(redact(said.get(name, ""))) for name in ("traceback", "log")}
    try:
        value: Any = clean_json(said.get("value"))
    except DataError as problem:
        return HostReply(error=f"what it gives cannot be kept: {problem}", duration_ms=said["ms"], **told)
    reason = clean_text(redact(said["error"])) if "error" in said else None
    return HostReply(value=value, error=reason, duration_ms=said["ms"], **told)
