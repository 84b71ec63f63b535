"""Child process that runs a user's Python functions. This file is run as a script, and receives calls over a socket.

Each message is one line of JSON. A request is `{"id", "load", "kind"}`, `{"id", "call", "kind", "payload"}` or `{"id",
"drop"}`. The reply has the same id, and one of the keys `described`, `value`, `error` and `gone`.

Modules are imported in the main thread while its event loop is stopped. Async functions share this event loop; other
functions run in a pool of threads. When the parent process ends, the whole process group is killed at once.
"""

import asyncio
import inspect
import json
import os
import signal
import socket
import sys
import threading
import time
import traceback
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Any

sys.path.append(str(Path(__file__).parents[2]))  # Makes `evalscribe` importable in any working folder.

from evalscribe.experiments.child_functions import (
    LOG,
    LONGEST,
    Loaded,
    LogTail,
    NotJsonError,
    UnusableFunction,
    collect_async_stream,
    collect_stream,
    describe_function,
    encode,
    load,
    route_output,
)

OWN_FOLDER = str(Path(__file__).parent)
SPARE_THREADS = 3
"""Number of threads beyond the maximum concurrency. They replace threads in which a timed-out function still runs."""


@dataclass
class ChildCall:
    """One call of a user's function."""

    number: int
    function: Loaded
    payload: Any
    log: LogTail = field(default_factory=LogTail)
    start_time: float = field(default_factory=time.perf_counter)
    dropped: bool = False
    """True if the parent no longer waits for the call."""
    future: Future[None] | None = None
    """Future of a plain function, which runs in a thread; None for an async function."""
    task: asyncio.Task[None] | None = None
    """Task of an async function; None until the function has begun."""


class Child:
    def __init__(self, channel: socket.socket, folder: Path, concurrency: int) -> None:
        self.loop = asyncio.new_event_loop()
        self._channel = channel
        self._folder = folder
        self._pool = ThreadPoolExecutor(concurrency + SPARE_THREADS)
        self._requests: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self._loaded: dict[tuple[str, str], Loaded] = {}
        self._running: dict[int, ChildCall] = {}
        self._write_lock = threading.Lock()

    def serve(self) -> None:
        """Run the event loop forever. The loop is stopped only to import a module that the parent process requests."""
        # A thread reads the requests, because an async function that never awaits blocks the event loop.
        threading.Thread(target=self._listen, daemon=True).start()
        while True:
            # A task that a user's function has left running can raise these exceptions.
            with suppress(SystemExit, KeyboardInterrupt):
                self.loop.run_forever()
            while not self._requests.empty():
                self._load(self._requests.get())

    def _listen(self) -> None:
        with suppress(OSError), self._channel.makefile("rb") as lines:
            for line in lines:
                self._handle(json.loads(line))
        # The parent is gone. Threads of user functions would keep this process alive after a normal exit.
        os.killpg(0, signal.SIGKILL)

    def _handle(self, request: dict[str, Any]) -> None:
        if "load" in request:
            self._requests.put(request)
            # The loop is stopped, because an imported module may start an event loop of its own with `asyncio.run`.
            self.loop.call_soon_threadsafe(self.loop.stop)
        elif "drop" in request:
            self._drop(request["drop"])
        else:
            self._begin(ChildCall(request["id"], self._loaded[request["kind"], request["call"]], request["payload"]))

    def _load(self, request: dict[str, Any]) -> None:
        log, start_time = LogTail(), time.perf_counter()
        token = LOG.set(log)
        try:
            self._loaded[request["kind"], request["load"]] = function = load(request["load"], request["kind"])
            fields = json.dumps({"described": describe_function(function, self._folder)})
        except BaseException as error:
            fields = _error_fields(error, self._folder)
        finally:
            LOG.reset(token)
        self._send_reply(request["id"], fields, log, start_time)

    def _begin(self, call: ChildCall) -> None:
        self._running[call.number] = call
        if call.function.is_async:
            self.loop.call_soon_threadsafe(self._begin_async, call)
        else:
            call.future = self._pool.submit(self._answer, call)

    def _begin_async(self, call: ChildCall) -> None:
        call.task = self.loop.create_task(self._answer_async(call))
        call.task.add_done_callback(lambda _: self._end_dropped(call))

    def _drop(self, number: int) -> None:
        """Drop a call. The reply says whether the call has ended or will never begin.

        For an async call, the reply is sent when its task has ended.
        """
        call = self._running.get(number)
        if call is not None:
            call.dropped = True
        if call is not None and call.function.is_async:
            self.loop.call_soon_threadsafe(lambda: call.task and call.task.cancel())
            return
        # A thread cannot be ended. Only a call that still waits for a thread can be cancelled.
        ended = call is None or (call.future is not None and call.future.cancel())
        self._send_reply(number, json.dumps({"gone": ended}), call.log if call else LogTail(), time.perf_counter())

    def _end_dropped(self, call: ChildCall) -> None:
        if call.dropped:
            self._running.pop(call.number, None)
            self._send_reply(call.number, json.dumps({"gone": True}), call.log, call.start_time)

    def _answer(self, call: ChildCall) -> None:
        """Call a plain function in a thread and send the reply."""
        call.start_time, token = time.perf_counter(), LOG.set(call.log)
        try:
            fields = _value_fields(self._resolve(call.function(call.payload)))
        # `SystemExit` is included, because a function that calls `sys.exit` needs a reply like any other.
        except BaseException as error:
            fields = _error_fields(error, self._folder)
        finally:
            LOG.reset(token)
        self._running.pop(call.number, None)
        self._send_reply(call.number, fields, call.log, call.start_time)

    def _resolve(self, value: Any) -> Any:
        """Resolve the return value of a plain function, which can be a plain value, a generator or an awaitable."""
        if inspect.isawaitable(value) or inspect.isasyncgen(value):
            return asyncio.run_coroutine_threadsafe(_await_value(value), self.loop).result()
        return collect_stream(value) if inspect.isgenerator(value) else value

    async def _answer_async(self, call: ChildCall) -> None:
        """Call an async function in the event loop and send the reply."""
        LOG.set(call.log)
        try:
            fields = _value_fields(await _await_value(call.function(call.payload)))
        except BaseException as error:
            # The parent has reported the timeout already. `_end_dropped` confirms the end.
            if call.dropped:
                raise asyncio.CancelledError from error
            fields = _error_fields(error, self._folder)
        self._running.pop(call.number, None)
        self._send_reply(call.number, fields, call.log, call.start_time)

    def _send_reply(self, number: int, fields: str, log: LogTail, start_time: float) -> None:
        """Send a reply. `fields` is the text of a JSON object whose members are added to the reply."""
        ms = (time.perf_counter() - start_time) * 1000
        line = f'{{"id":{number},"ms":{ms:.3f},"log":{json.dumps(log.text)},{fields[1:]}\n'
        with self._write_lock, suppress(OSError):  # The parent is gone, so the listener ends this process.
            self._channel.sendall(line.encode("ascii"))


async def _await_value(value: Any) -> Any:
    if inspect.isasyncgen(value):
        return await collect_async_stream(value)
    return await value if inspect.isawaitable(value) else value


def _value_fields(value: Any) -> str:
    return f'{{"value":{encode(value)}}}'


def _error_fields(error: BaseException, folder: Path) -> str:
    """Return the error as JSON.

    For an error in the user's code, the JSON has the place of the error and a traceback without evalscribe's frames.
    """
    if isinstance(error, NotJsonError | UnusableFunction):
        return json.dumps({"error": str(error)})
    tb = error.__traceback__
    while tb and tb.tb_frame.f_code.co_filename.startswith(OWN_FOLDER):
        tb = tb.tb_next
    lines = traceback.format_exception(type(error), error, tb)
    place = _place(error, folder)
    # The text of a syntax error ends with its place, which `place` already has.
    reason = f"{type(error).__name__}: {error.msg}" if place and isinstance(error, SyntaxError) else _reason(error)
    return json.dumps({"error": reason, "traceback": "".join(lines)[-LONGEST:], "place": place})


def _place(error: BaseException, folder: Path) -> str:
    """Return the innermost line in the user's folder, such as `module.py:5`; empty if no frame is in the folder."""
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        frames = [(error.filename, error.lineno)]
    else:
        frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    for file, line in reversed(frames):
        path = Path(file)
        if path.is_relative_to(folder) and "site-packages" not in path.parts:
            return f"{path.relative_to(folder).as_posix()}:{line}"
    return ""


def _reason(error: BaseException) -> str:
    try:
        text = " ".join(str(error).split())[:400]
    except Exception:  # The `__str__` method of a user's exception can raise an error.
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def main(fd: str, folder: str, concurrency: str) -> None:
    channel = socket.socket(fileno=int(fd))
    # A process that a function starts would otherwise keep the connection open after this process has ended.
    os.set_inheritable(int(fd), False)
    # Inserted only after the imports above, so that a user's module named `json` or `asyncio` cannot replace ours.
    sys.path.insert(0, folder)
    # A module that parses arguments when it is imported must not read the arguments of this process.
    sys.argv = [""]
    route_output()
    Child(channel, Path(folder), int(concurrency)).serve()


if __name__ == "__main__":
    main(*sys.argv[1:])
