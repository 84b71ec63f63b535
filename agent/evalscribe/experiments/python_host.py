"""Call a user's Python functions in a separate process."""

import asyncio
import json
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from secrets import randbits
from typing import Any, Literal

from pydantic import Field, JsonValue

from evalscribe.errors import DataError, EvalscribeError, UsageError
from evalscribe.experiments import targets
from evalscribe.experiments.child_functions import LARGEST
from evalscribe.experiments.processes import ProcessGroup, end_marked, new_mark, signal_name, user_environment
from evalscribe.ids import Frozen
from evalscribe.json_data import clean_json, clean_text
from evalscribe.model.target import TargetCall, TargetFailure, TargetReply
from evalscribe.redaction.redact import redact

PROGRAM = Path(__file__).with_name("child.py")
LINE = 2 * LARGEST
"""Maximum size of one line that the child process sends, in bytes."""
NUMBER_BITS = 62
_ANSWERS = {"described", "value", "error", "gone"}
# The user's code can forge a reply with a number that no float can hold.
LONGEST_MS = 1e12
DROP_TIMEOUT_S = 1.0
"""Maximum seconds to wait until the child process confirms that a call was dropped. If the process does not respond in
time, its event loop is blocked."""


class ChildDied(Exception):
    """The child process ended during a call. The message says how it ended."""


class BrokenCodeError(UsageError):
    """The user's own code raised an error while it was imported."""


class ChildProcess:
    """Child process that handles many calls at a time. It is created with `start`."""

    def __init__(self, group: ProcessGroup, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.abandoned: set[int] = set()
        """Numbers of the calls that timed out but are still running."""
        self._group = group
        self._writer = writer
        self._futures: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._load_tasks: dict[tuple[str, str], asyncio.Task[dict[str, Any]]] = {}
        self._end_reason: str | None = None
        self._listener = asyncio.create_task(self._listen(reader))

    @classmethod
    async def start(cls, folder: Path, concurrency: int, env: Mapping[str, str]) -> "ChildProcess":
        """Start a child process in its own process group. Raises `UsageError` if the process cannot be started."""
        # A socket is used instead of standard input and output, because the user's functions print to standard output.
        parent_socket, child_socket = socket.socketpair()
        # `-P` keeps the folder of child.py out of the module path, where its modules would hide the user's.
        # `faulthandler` prints a traceback when a function crashes the process.
        options = (
            "-P",
            "-u",
            "-X",
            "faulthandler",
            str(PROGRAM),
            str(child_socket.fileno()),
            str(folder),
            str(concurrency),
        )
        try:
            group = await ProcessGroup.start(
                (sys.executable, *options), folder, env=env, pass_fds=(child_socket.fileno(),), merge_output=True
            )
        except OSError as error:
            parent_socket.close()
            raise UsageError(f"Python cannot be started in {folder}: {error.strerror or error}") from None
        finally:
            # The connection ends with the child process only if this process does not hold the other end.
            child_socket.close()
        try:
            return cls(group, *await asyncio.open_connection(sock=parent_socket, limit=LINE))
        except BaseException:
            group.kill()
            raise

    @property
    def alive(self) -> bool:
        return self._end_reason is None

    @property
    def idle(self) -> bool:
        """True if no request is waiting for a reply."""
        return not self._futures

    async def load(self, address: str, kind: str) -> dict[str, Any]:
        """Import a function and return its description.

        Repeated calls import the function only once. Raises `ChildDied` if the process ends.
        """
        # Shielded, because other calls wait for the same import. A cancelled call must not cancel it for them.
        return await asyncio.shield(self.begin_load(address, kind))

    def begin_load(self, address: str, kind: str) -> asyncio.Task[dict[str, Any]]:
        """Start importing a function, and return the task whose result `load` returns."""
        key = (address, kind)
        if key not in self._load_tasks:
            self._load_tasks[key] = asyncio.create_task(self._request(_number(), {"load": address, "kind": kind}))
        return self._load_tasks[key]

    async def call(self, address: str, kind: str, payload: object, timeout_s: float) -> dict[str, Any]:
        """Call a function and return the reply. Raises `ChildDied` if the process ends.

        If the call times out, the reply has only the keys `late` and `log`.
        """
        number = _number()
        try:
            async with asyncio.timeout(timeout_s):
                return await self._request(number, {"call": address, "kind": kind, "payload": payload})
        except TimeoutError:
            return {"late": True, "log": await self._drop_call(number)}
        except asyncio.CancelledError:
            # Nobody waits for the reply any longer, but the function must not keep running.
            with suppress(OSError):
                self._send({"id": number, "drop": number})
            raise

    async def end(self) -> None:
        """End the process and all its descendants."""
        await self._group.end(grace_s=0)
        self._writer.close()
        await self._listener
        await asyncio.gather(*self._load_tasks.values(), return_exceptions=True)

    async def _request(self, number: int, message: dict[str, Any]) -> dict[str, Any]:
        if self._end_reason is not None:
            raise ChildDied(self._end_reason)
        self._futures[number] = asyncio.get_running_loop().create_future()
        try:
            self._send({"id": number, **message})
            return await self._futures[number]
        finally:
            self._futures.pop(number, None)

    def _send(self, message: dict[str, Any]) -> None:
        self._writer.write(json.dumps(message).encode() + b"\n")

    async def _drop_call(self, number: int) -> str:
        """Drop a call that timed out, and return its log. If the process does not respond, it is killed."""
        try:
            async with asyncio.timeout(DROP_TIMEOUT_S):
                reply = await self._request(number, {"drop": number})
        except TimeoutError:
            self._end_reason = "a call that timed out blocked its event loop"
            self._group.kill()
            return ""
        except ChildDied:
            return ""
        if reply.get("gone") is False:
            self.abandoned.add(number)
        return str(reply.get("log", ""))

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        try:
            while line := await reader.readline():
                reply = _reply(line)
                future = self._futures.get(reply["id"])
                if future is None:
                    # A call that timed out has ended after all.
                    self.abandoned.discard(reply["id"])
                elif not future.done():
                    future.set_result(reply)
        except (ValueError, RecursionError):
            self._end_reason = "its process sent an invalid reply"
        except OSError:
            pass  # The exit status of the process says why the connection broke.
        # The connection can break while the process still runs, for example because the function closed it.
        self._group.kill()
        code = await self._group.wait()
        self._end_reason = self._end_reason or _exit_text(code)
        for future in self._futures.values():
            if not future.done():
                future.set_exception(ChildDied(self._end_reason))

    @property
    def output(self) -> str:
        """Return the last part of the output that the process wrote outside of calls, such as a crash report."""
        return self._group.err.text


def _reply(line: bytes) -> dict[str, Any]:
    """Parse a reply. Raises `ValueError` or `RecursionError` if the reply is invalid."""
    reply: dict[str, Any] = json.loads(line, parse_constant=_no_json)
    if not _is_reply(reply):
        raise ValueError("no reply")
    return reply


def _is_reply(value: object) -> bool:
    # The user's code can write to the same connection, so nothing in a reply can be relied on.
    return (
        isinstance(value, dict)
        and isinstance(value.get("id"), int)
        and isinstance(value.get("ms"), int | float)
        and 0 <= value["ms"] < LONGEST_MS
        and all(isinstance(value.get(name, ""), str) for name in ("log", "error", "traceback", "place"))
        and isinstance(value.get("described", {}), dict)
        and not _ANSWERS.isdisjoint(value)
    )


def _number() -> int:
    # Other code in the process must not guess the number, because it could then forge a reply.
    return randbits(NUMBER_BITS)


def _no_json(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _exit_text(code: int) -> str:
    return f"its process ended ({f'exit code {code}' if code >= 0 else signal_name(-code)})"


Kind = Literal["component", "scorer"]
MOST_ABANDONED = 3
"""Maximum number of timed-out calls that still run in a process. At this number, a new process takes over, because the
threads of these calls cannot be ended."""
IMPORT_S = 120.0
"""Maximum seconds to import a module."""
MAX_RETRIES = 4
"""Maximum number of concurrent retries. Each retry runs in its own process."""


class FunctionDescription(Frozen):
    """Description of a callable function."""

    address: str
    doc: str = ""
    parameters: tuple[str, ...] = ()
    code: str
    """Content id of the modules in the folder that were imported with the function."""
    name: str | None = None
    """Name in the scorer's decorator. Only scorers have values in `name`, `description`, `depends_on` and
    `config`."""
    description: str = ""
    depends_on: tuple[str, ...] = ()
    config: dict[str, JsonValue] = Field(default_factory=dict)
    """The scorer's settings, with their defaults."""


class HostReply(Frozen):
    """Outcome of a call: a value or an error."""

    value: JsonValue = None
    error: str | None = None
    """The error as one line of text, such as `NameError: name 'x' is not defined (agent.py:5)`."""
    traceback: str = ""
    log: str = ""
    """The last part of the function's printed output."""
    timed_out: bool = False
    duration_ms: float = 0.0


class PythonHost:
    """Imports functions from `folder` and calls them, up to `concurrency` plain functions at a time.

    The number of concurrent async functions is not limited. But an async function that never awaits blocks all other
    async functions until its call times out.

    If a process dies, each of its pending calls is retried once in a process of its own. So only the call that crashed
    the process fails.
    """

    def __init__(self, folder: Path, concurrency: int) -> None:
        self._folder = folder
        self._mark = new_mark()
        self._concurrency = concurrency
        self._shared_child: ChildProcess | None = None
        self._children: set[ChildProcess] = set()
        self._starting = asyncio.Lock()
        self._retry_slots = asyncio.Semaphore(MAX_RETRIES)
        self._closed = False

    async def check(self, address: str, kind: Kind) -> FunctionDescription:
        """Import a function in its own process and describe it. Raises `UsageError` if the function cannot be used."""
        child = await self._new_child(1)
        try:
            reply = await self._load(child, address, kind)
        except ChildDied as error:
            raise self._unusable_error(address, f"{error} while it was imported", child.output) from None
        finally:
            await self._end_child(child)
        return _function_description(address, reply["described"])

    async def begin(self, address: str, kind: Kind) -> None:
        """Start the process and let it import the function in the background. Later calls report import errors.

        Raises `UsageError` if the process cannot be started.
        """
        (await self._current_child()).begin_load(address, kind)
        await asyncio.sleep(0)  # Lets the import request be sent before any other request.

    async def call(self, address: str, kind: Kind, payload: JsonValue, timeout_s: float) -> HostReply:
        """Call a function once.

        Args:
            payload: For a component `{"input": …, "context": {…}}`; for a scorer, a `custom_scorer.BoundRequest`. A
                scorer's reply has a `ScoreResult` as its value.

        Raises:
            UsageError: The function cannot be imported, so that no call can succeed.
        """
        try:
            return await self._call_in(await self._current_child(), address, kind, payload, timeout_s)
        except ChildDied:
            if self._closed:
                raise EvalscribeError("the process that runs a Python function was terminated") from None
        async with self._retry_slots:
            return await self._call_alone(address, kind, payload, timeout_s)

    async def close(self) -> None:
        """End every child process and all descendants of these processes."""
        self._closed = True
        await asyncio.gather(*(self._end_child(child) for child in tuple(self._children)))
        await end_marked(self._mark)

    async def _call_alone(self, address: str, kind: Kind, payload: JsonValue, timeout_s: float) -> HostReply:
        child = await self._new_child(1)
        try:
            return await self._call_in(child, address, kind, payload, timeout_s)
        except ChildDied as error:
            return HostReply(error=str(error), log=redact(child.output))
        finally:
            await self._end_child(child)

    async def _call_in(
        self, child: ChildProcess, address: str, kind: Kind, payload: JsonValue, timeout_s: float
    ) -> HostReply:
        await self._load(child, address, kind)
        reply = await child.call(address, kind, payload, timeout_s)
        # A process that was replaced finishes its calls. The last call ends it.
        if child is not self._shared_child and child.idle and child in self._children:
            await self._end_child(child)
        if reply.get("late"):
            reason = f"no answer within {timeout_s:g} s"
            return HostReply(error=reason, log=redact(reply["log"]), timed_out=True, duration_ms=timeout_s * 1000)
        return _host_reply(reply)

    async def _load(self, child: ChildProcess, address: str, kind: Kind) -> Mapping[str, Any]:
        try:
            async with asyncio.timeout(IMPORT_S):
                reply = await child.load(address, kind)
        except TimeoutError:
            raise self._unusable_error(address, f"was not imported within {IMPORT_S:g} s", "") from None
        if reply.get("place"):
            raise BrokenCodeError(
                f"python:{address} could not be imported: {redact(reply['error'])} ({reply['place']}).\n"
                f"It was imported from {self._folder} with {sys.executable}."
            )
        if "error" in reply:
            raise self._unusable_error(address, reply["error"], reply.get("traceback") or reply["log"])
        return reply

    def _unusable_error(self, address: str, reason: str, detail: str) -> UsageError:
        lines = [line for line in redact(detail).splitlines() if f'File "{self._folder}' in line]
        place = f" ({lines[-1].strip()})" if lines else ""
        return UsageError(
            f"python:{address}: {redact(reason)}{place}\nIt was imported from {self._folder} with {sys.executable}."
        )

    async def _current_child(self) -> ChildProcess:
        """Return the process for new calls.

        The process is replaced if it died, or if too many timed-out calls still run in it.
        """
        # Without the lock, concurrent first calls would start a process each.
        async with self._starting:
            child = self._shared_child
            if child is not None and child.alive and len(child.abandoned) < MOST_ABANDONED:
                return child
            self._shared_child = await self._new_child(self._concurrency)
        if child is not None and (child.idle or not child.alive):
            await self._end_child(child)
        return self._shared_child

    async def _new_child(self, concurrency: int) -> ChildProcess:
        if self._closed:
            raise EvalscribeError("the process that runs a Python function was terminated")
        child = await ChildProcess.start(self._folder, concurrency, user_environment(self._mark))
        self._children.add(child)
        return child

    async def _end_child(self, child: ChildProcess) -> None:
        self._children.discard(child)
        await child.end()


async def describe(folder: Path, address: str, kind: Kind) -> FunctionDescription:
    """Import a function in its own process and describe it. Raises `UsageError` if the function cannot be used."""
    host = PythonHost(folder, 1)
    try:
        return await host.check(address, kind)
    finally:
        await host.close()


def _function_description(address: str, reply: Mapping[str, Any]) -> FunctionDescription:
    details = reply["about"]
    return FunctionDescription(
        address=address,
        doc=reply["doc"],
        parameters=tuple(reply["parameters"]),
        code=reply["code"],
        name=details.get("name"),
        description=details.get("description", ""),
        depends_on=tuple(details.get("depends_on", ())),
        config=dict(details.get("config", {})),
    )


def _host_reply(reply: Mapping[str, Any]) -> HostReply:
    """Convert a reply of the child process to a `HostReply` that can be stored."""
    texts = {name: clean_text(redact(reply.get(name, ""))) for name in ("traceback", "log")}
    try:
        value: Any = clean_json(reply.get("value"))
    except DataError as problem:
        return HostReply(error=f"its return value cannot be stored: {problem}", duration_ms=reply["ms"], **texts)
    place = f" ({reply['place']})" if reply.get("place") else ""
    reason = clean_text(redact(reply["error"] + place)) if "error" in reply else None
    return HostReply(value=value, error=reason, duration_ms=reply["ms"], **texts)


class PythonTarget:
    """`Target` that calls one function in a host. Closing the target closes the host."""

    def __init__(self, address: str, host: PythonHost) -> None:
        self._address = address
        self._host = host

    async def begin(self) -> None:
        """Start the child process before the first call. Raises `UsageError` if the process cannot be started."""
        try:
            await self._host.begin(self._address, "component")
        except BaseException:
            await self._host.close()
            raise

    async def answer(self, call: TargetCall) -> TargetReply | TargetFailure:
        """Call the function. Raises `UsageError` if the function cannot be imported."""
        payload: JsonValue = {"input": call.input, "context": _context(call)}
        reply = await self._host.call(self._address, "component", payload, call.timeout_s)
        if reply.timed_out:
            return targets.timeout_reply(call.timeout_s, reply.log)
        if reply.error is not None:
            log = "\n".join(filter(None, (reply.log, reply.traceback)))
            return targets.failed_reply(reply.error, log=log, duration_ms=reply.duration_ms)
        return targets.parse_reply(reply.value, log=reply.log, duration_ms=reply.duration_ms)

    async def close(self) -> None:
        await self._host.close()


def _context(call: TargetCall) -> dict[str, JsonValue]:
    fields = call.model_dump(mode="json", include={"run_id", "item_key", "repetition", "metadata"})
    return {**fields, "idempotency_key": call.idempotency_key}
