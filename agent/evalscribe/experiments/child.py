"""Child process that runs a user's Python functions. It is started by file and takes calls over a socket.

The protocol is one line of JSON per message: `{"id", "load", "kind"}`, `{"id", "call", "kind", "payload"}`, `{"id",
"drop"}` in; `described`,
`value`, `error` or `gone` with the same id out. Modules are imported in the main thread while no event loop runs, async
functions share its loop, all others have threads. When the parent goes away, the whole process group ends at once.
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

sys.path.append(str(Path(__file__).parents[2]))  # makes `evalscribe` importable from any folder

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

OURS = str(Path(__file__).parent)
SPARE = 3
"""Extra threads for functions that timed out and have not ended."""


@dataclass
class ChildCall:
    """One call of a function."""

    number: int
    function: Loaded
    payload: Any
    log: LogTail = field(default_factory=LogTail)
    began: float = field(default_factory=time.perf_counter)
    dropped: bool = False
    """True when the parent no longer waits for the call."""
    future: Future[None] | None = None
    """Future of a plain function, which runs in a thread."""
    task: asyncio.Task[None] | None = None
    """Task of an async function, once it has begun."""


class Child:
    def __init__(self, channel: socket.socket, folder: Path, concurrency: int) -> None:
        self.loop = asyncio.new_event_loop()
        self._channel = channel
        self._folder = folder
        self._pool = ThreadPoolExecutor(concurrency + SPARE)
        self._wishes: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self._loaded: dict[tuple[str, str], Loaded] = {}
        self._running: dict[int, ChildCall] = {}
        self._writing = threading.Lock()

    def serve(self) -> None:
        """Run the event loop forever, and stop it only to import requested modules."""
        threading.Thread(target=self._listen, daemon=True).start()
        while True:
            with suppress(SystemExit, KeyboardInterrupt):  # raised by a task that a function left behind
                self.loop.run_forever()
            while not self._wishes.empty():
                self._load(self._wishes.get())

    def _listen(self) -> None:
        with suppress(OSError), self._channel.makefile("rb") as lines:
            for line in lines:
                self._take(json.loads(line))
        os.killpg(0, signal.SIGKILL)

    def _take(self, said: dict[str, Any]) -> None:
        if "load" in said:
            self._wishes.put(said)
            self.loop.call_soon_threadsafe(self.loop.stop)
        elif "drop" in said:
            self._drop(said["drop"])
        else:
            self._begin(ChildCall(said["id"], self._loaded[said["kind"], said["call"]], said["payload"]))

    def _load(self, said: dict[str, Any]) -> None:
        log, began = LogTail(), time.perf_counter()
        before = LOG.set(log)
        try:
            self._loaded[said["kind"], said["load"]] = found = load(said["load"], said["kind"])
            told = json.dumps({"described": describe_function(found, self._folder)})
        except BaseException as error:
            told = _failed(error, self._folder)
        finally:
            LOG.reset(before)
        self._say(said["id"], told, log, began)

    def _begin(self, work: ChildCall) -> None:
        self._running[work.number] = work
        if work.function.awaited:
            self.loop.call_soon_threadsafe(self._begin_async, work)
        else:
            work.future = self._pool.submit(self._answer, work)

    def _begin_async(self, work: ChildCall) -> None:
        work.task = self.loop.create_task(self._answer_async(work))
        work.task.add_done_callback(lambda _: self._end_dropped(work))

    def _drop(self, number: int) -> None:
        """Drop a call, and reply whether it has ended or never began; an async call replies once its task has ended."""
        work = self._running.get(number)
        if work is not None:
            work.dropped = True
        if work is not None and work.function.awaited:
            self.loop.call_soon_threadsafe(lambda: work.task and work.task.cancel())
            return
        gone = work is None or (work.future is not None and work.future.cancel())
        self._say(number, json.dumps({"gone": gone}), work.log if work else LogTail(), time.perf_counter())

    def _end_dropped(self, work: ChildCall) -> None:
        if work.dropped:
            self._running.pop(work.number, None)
            self._say(work.number, json.dumps({"gone": True}), work.log, work.began)

    def _answer(self, work: ChildCall) -> None:
        """Call a plain function in a thread and send the reply."""
        work.began, before = time.perf_counter(), LOG.set(work.log)
        try:
            told = _valued(self._whole(work.function(work.payload)))
        except BaseException as error:
            told = _failed(error, self._folder)
        finally:
            LOG.reset(before)
        self._running.pop(work.number, None)
        self._say(work.number, told, work.log, work.began)

    def _whole(self, value: Any) -> Any:
        """Resolve the return value of a plain function, which may be a generator or an awaitable."""
        if inspect.isawaitable(value) or inspect.isasyncgen(value):
            return asyncio.run_coroutine_threadsafe(_awaited(value), self.loop).result()
        return collect_stream(value) if inspect.isgenerator(value) else value

    async def _answer_async(self, work: ChildCall) -> None:
        """Call an async function in the event loop and send the reply."""
        LOG.set(work.log)
        try:
            told = _valued(await _awaited(work.function(work.payload)))
        except BaseException as error:
            if work.dropped:
                raise asyncio.CancelledError from error
            told = _failed(error, self._folder)
        self._running.pop(work.number, None)
        self._say(work.number, told, work.log, work.began)

    def _say(self, number: int, told: str, log: LogTail, began: float) -> None:
        """Send a reply. `told`: the reply's other fields, as the text of a JSON object."""
        ms = (time.perf_counter() - began) * 1000
        line = f'{{"id":{number},"ms":{ms:.3f},"log":{json.dumps(log.text)},{told[1:]}\n'
        with self._writing, suppress(OSError):  # the parent is gone: the listener ends this process
            self._channel.sendall(line.encode("ascii"))


async def _awaited(value: Any) -> Any:
    if inspect.isasyncgen(value):
        return await collect_async_stream(value)
    return await value if inspect.isawaitable(value) else value


def _valued(value: Any) -> str:
    return f'{{"value":{encode(value)}}}'


def _failed(error: BaseException, folder: Path) -> str:
    """Return the error as JSON. If the user's code failed, add its place and a traceback without our own frames."""
    if isinstance(error, NotJsonError | UnusableFunction):
        return json.dumps({"error": str(error)})
    place = error.__traceback__
    while place and place.tb_frame.f_code.co_filename.startswith(OURS):
        place = place.tb_next
    lines = traceback.format_exception(type(error), error, place)
    own = _place(error, folder)
    # The text of a syntax error ends with its place, which `place` gives.
    reason = f"{type(error).__name__}: {error.msg}" if own and isinstance(error, SyntaxError) else _reason(error)
    return json.dumps({"error": reason, "traceback": "".join(lines)[-LONGEST:], "place": own})


def _place(error: BaseException, folder: Path) -> str:
    """Return the innermost line of the folder's own code, such as `module.py:5`; empty if no frame is in the folder."""
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
        words = " ".join(str(error).split())[:400]
    except Exception:
        words = ""
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


def main(fd: str, folder: str, concurrency: str) -> None:
    channel = socket.socket(fileno=int(fd))
    os.set_inheritable(int(fd), False)
    sys.path.insert(0, folder)
    sys.argv = [""]
    route_output()
    Child(channel, Path(folder), int(concurrency)).serve()


if __name__ == "__main__":
    main(*sys.argv[1:])
