"""Run a call in a thread and report its progress to the client."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from mcp.server.mcpserver import Context

from evalscribe.redaction.redact import redact
from evalscribe.text import one_line

if TYPE_CHECKING:
    from evalscribe.judging.verdicts import Judged
    from evalscribe.model.experiment import ExperimentRun, ItemVerdict
    from evalscribe.model.run import Run


ThreadResult = TypeVar("ThreadResult")


async def run_in_thread(work: Callable[[], ThreadResult]) -> ThreadResult:
    """What a function gives that does not await. Cancelled, it runs on and nobody hears of it."""
    return await asyncio.wrap_future(_started(work))


async def run_in_own_loop(work: Callable[[], Coroutine[Any, Any, ThreadResult]]) -> ThreadResult:
    """What a use case gives, in an event loop of its own. Cancelling this cancels it and waits until it has stopped,
    or until this is cancelled again."""
    running: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = Future()

    async def main() -> ThreadResult:
        task = asyncio.current_task()
        assert task is not None
        running.set_result((asyncio.get_running_loop(), task))
        return await work()

    ended = asyncio.wrap_future(_started(lambda: asyncio.run(main())))
    ended.add_done_callback(ignore_outcome)
    try:
        return await asyncio.shield(ended)
    except asyncio.CancelledError:
        loop, task = await asyncio.wrap_future(running)
        with suppress(RuntimeError):  # it has ended just now
            loop.call_soon_threadsafe(task.cancel)
        await asyncio.wait([ended])
        raise


def ignore_outcome(ended: "asyncio.Future[Any]") -> None:
    """Nobody may be left to hear how it ended: that is no error of its own."""
    if not ended.cancelled():
        ended.exception()


def _started(work: Callable[[], ThreadResult]) -> Future[ThreadResult]:
    """A program may end without its thread: whatever was finished is stored."""
    done: Future[ThreadResult] = Future()
    done.set_running_or_notify_cancel()
    threading.Thread(target=_settle, args=(done, work), name="evalscribe", daemon=True).start()
    return done


def _settle(done: Future[ThreadResult], work: Callable[[], ThreadResult]) -> None:
    try:
        done.set_result(work())
    except BaseException as error:  # whoever waits is told, whatever it was
        done.set_exception(error)


T = TypeVar("T")
PAUSE_S = 0.1
"""Between two messages."""
MOST_LINES = 20
LONGEST = 300


class ProgressReporter:
    """Hears of the work in its own thread; what it hears goes to the client, and its notes into the answer."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._heard: asyncio.Queue[str] = asyncio.Queue()
        self._lines: list[str] = []

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know."""
        return tuple(dict.fromkeys(self._lines))[:MOST_LINES]

    def say(self, line: str) -> None:
        self._lines.append(_short(line))
        self._tell(line)

    def started(self, run: "Run") -> None:
        self._tell(f"{run.provider}/{run.model}: {run.failed} of {run.total} evals failed")

    def begins(self, name: str) -> None:
        self._tell(f"Reading {name}")

    def imported(self, evals: int, progress: float) -> None:
        self._tell(f"Importing: {evals} evals, {progress:.0%} of the file")

    def fetched(self, done: int, total: int) -> None:
        self._tell(f"Reading evidence: {done} of {total}")

    def judged(self, event: "Judged") -> None:
        self._tell(f"Judged {event.n} of {event.total}: {event.evals[0].path}")

    def tried(self, run: "ExperimentRun", tally: "Mapping[ItemVerdict, int]") -> None:
        self._tell(f"Run {run.id} is {run.state}: {sum(tally.values())} of {run.tries} tries done")

    async def pass_on(self, ctx: Context) -> None:
        """Without end: the newest of what was heard meanwhile. How many steps there will be, nobody knows."""
        step = 0
        while True:
            line = await self._heard.get()
            step += 1
            while not self._heard.empty():
                line = self._heard.get_nowait()
                step += 1
            await ctx.report_progress(step, message=line)
            await asyncio.sleep(PAUSE_S)

    def _tell(self, line: str) -> None:
        with suppress(RuntimeError):  # the client is gone, and the loop with it
            self._loop.call_soon_threadsafe(self._heard.put_nowait, _short(line))


async def with_progress(
    ctx: Context,
    work: Callable[[ProgressReporter], Coroutine[Any, Any, T]],
    turn: AbstractAsyncContextManager[object] | None = None,
) -> T:
    """What a use case gives; the client hears how it goes, and may stop it. Work that has a turn keeps it until it has
    really stopped, which whoever stopped it does not wait for."""
    task = asyncio.create_task(_in_turn(ctx, work, turn or nullcontext()))
    task.add_done_callback(ignore_outcome)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.cancel()
        raise


async def _in_turn(
    ctx: Context, work: Callable[[ProgressReporter], Coroutine[Any, Any, T]], turn: AbstractAsyncContextManager[object]
) -> T:
    async with turn:
        told = ProgressReporter()
        passing = asyncio.create_task(told.pass_on(ctx))
        passing.add_done_callback(ignore_outcome)
        try:
            return await run_in_own_loop(lambda: work(told))
        finally:
            passing.cancel()


def _short(line: str) -> str:
    return redact(one_line(line))[:LONGEST]
