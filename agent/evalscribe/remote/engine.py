"""Engines that run work, either in this process or on a Ray cluster. Ray is imported only if its engine is selected."""

import asyncio
import logging
import os
import pickle
import secrets
import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any, Generic, TypeVar

import psutil

from evalscribe.errors import UnavailableError, UsageError
from evalscribe.ids import Frozen
from evalscribe.model.protocols import AskParent, Engine, LostWork, QuestionHandler, Worker, WorkerFactory, WorkerPool
from evalscribe.settings import Settings
from evalscribe.settings.config import ENVIRONMENT, Origin

_Piece = TypeVar("_Piece")
_Result = TypeVar("_Result")


async def map_work(
    pool: WorkerPool[_Piece, _Result], work: Iterable[_Piece], concurrency: int
) -> AsyncIterator[tuple[_Piece, _Result | LostWork]]:
    """Do pieces of work, at most `concurrency` at a time, and yield each piece together with its result.

    Closing the iterator cancels the remaining work.
    """
    waiting = iter(work)
    under_way: dict[asyncio.Task[_Result | LostWork], _Piece] = {}
    try:
        while True:
            # The loop continues where it stopped, because `waiting` is an iterator. The next piece is taken only when
            # it can start.
            for piece in waiting:
                under_way[asyncio.ensure_future(pool(piece))] = piece
                if len(under_way) >= concurrency:
                    break
            if not under_way:
                return
            done, _ = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                yield under_way.pop(task), task.result()
    finally:
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)


T = TypeVar("T")
R = TypeVar("R")


class LocalEngine:
    """An `Engine` whose workers share one event loop."""

    name = "local"

    def __init__(self, concurrency: int = 4) -> None:
        self.concurrency = concurrency

    @asynccontextmanager
    async def pool(
        self, factory: WorkerFactory[T, R], question_handler: QuestionHandler | None = None
    ) -> AsyncIterator[WorkerPool[T, R]]:
        async with (question_handler or no_questions)() as ask, factory(ask) as worker:
            yield worker

    async def map(self, factory: WorkerFactory[T, R], work: Iterable[T]) -> AsyncIterator[tuple[T, R | LostWork]]:
        async with self.pool(factory) as pool:
            async for done in map_work(pool, work, self.concurrency):
                yield done

    async def close(self) -> None:
        """Do nothing, because this engine holds no resources."""


@asynccontextmanager
async def no_questions() -> AsyncIterator[AskParent]:
    """A `QuestionHandler` for workers that never ask questions."""

    async def ask(question: object) -> object:
        raise LookupError(f"no handler for {type(question).__name__}")

    yield ask


class WorkerQuestion(Frozen):
    """A worker's question, as sent over the network."""

    number: int
    question: Any


@dataclass(frozen=True)
class WorkResult:
    """Result of a piece of work or of a question: either a value, or the exception that was raised."""

    value: Any = None
    error: BaseException | None = None

    def result(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value


class WorkerHost:
    """Runs a worker on the event loop of its process. Arguments and results must be picklable."""

    def __init__(self) -> None:
        self._opened = AsyncExitStack()
        self._worker: Worker[Any, Any] | None = None
        self._numbers = count()
        self._questions: asyncio.Queue[WorkerQuestion] = asyncio.Queue()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._pieces: dict[int, asyncio.Task[Any]] = {}

    async def open(self, factory: WorkerFactory[Any, Any]) -> WorkResult:
        """Create the worker."""
        return await capture_result(self._open(factory))

    async def do(self, number: int, piece: object) -> WorkResult:
        """Do one piece of work. `number` identifies the piece of work while it is in progress."""
        assert self._worker is not None, "open the worker first"
        task = asyncio.ensure_future(capture_result(self._worker(piece)))
        self._pieces[number] = task
        try:
            return await task
        finally:
            del self._pieces[number]

    async def cancel(self, number: int) -> None:
        """Cancel a piece of work whose result is no longer needed."""
        if task := self._pieces.get(number):
            task.cancel()

    async def question(self) -> WorkerQuestion:
        """Return the worker's next question. Waits until the worker asks a question."""
        return await self._questions.get()

    async def answer(self, number: int, answer: WorkResult) -> None:
        waiting = self._waiting.pop(number, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    async def close(self) -> None:
        """Cancel work in progress and close the worker's resources."""
        for task in self._pieces.values():
            task.cancel()
        await asyncio.gather(*self._pieces.values(), return_exceptions=True)
        await self._opened.aclose()

    async def _open(self, factory: WorkerFactory[Any, Any]) -> None:
        self._worker = await self._opened.enter_async_context(factory(self._ask))

    async def _ask(self, question: object) -> object:
        number = next(self._numbers)
        answer: asyncio.Future[WorkResult] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        await self._questions.put(WorkerQuestion(number=number, question=question))
        return (await answer).result()


async def capture_result(doing: Any) -> WorkResult:
    """Return the result of an awaitable, or the error that it raised.

    An error that cannot be pickled becomes a `RuntimeError` with the same message.
    """
    try:
        return WorkResult(value=await doing)
    except Exception as error:
        return WorkResult(error=_sendable(error))


def _sendable(error: Exception) -> Exception:
    error.__cause__ = error.__context__ = None  # the causes might need a library that the other process lacks
    try:
        # Some exceptions can be pickled but not unpickled, for example if their constructor takes other arguments.
        pickle.loads(pickle.dumps(error))  # noqa: S301 - our own data, pickled on this line
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


CLOSING_S = 3.0
"""Maximum time, in seconds, to wait while a worker closes its resources."""
MAX_REASON = 200
VERSION_HINT = "Every machine of the cluster needs this version of evalscribe and of Python."


class WorkerDied(Exception):
    """The process of a worker has ended."""


class RayPool(Generic[T, R]):
    """Workers on Ray, which are started on first use."""

    def __init__(
        self,
        ready: Callable[[], Awaitable[int]],
        factory: WorkerFactory[T, R],
        question_handler: QuestionHandler | None,
        *,
        concurrency: int,
        tries: int,
    ) -> None:
        """Store the arguments. `ready` joins the cluster and returns the cluster's number of processors."""
        self._ready = ready
        self._factory = factory
        self._question_handler = question_handler or no_questions
        self._concurrency = concurrency
        self._tries = tries
        self._starting = asyncio.Lock()
        self._workers: list[RayWorker] = []

    async def do(self, piece: T) -> R | LostWork:
        reason = ""
        for _ in range(self._tries):
            worker = await self._least_busy_worker()
            try:
                result: R = await worker.do(piece)
                return result
            except WorkerDied as error:
                reason = " ".join(str(error).split())[:MAX_REASON]
        return LostWork(reason=f"its worker died {self._tries} times: {reason}")

    async def close(self) -> None:
        await asyncio.gather(*(worker.close() for worker in self._workers))

    async def _least_busy_worker(self) -> "RayWorker":
        """Return the worker that has the least work.

        Dead workers are removed. If every worker is busy and their number is below the concurrency and the number
        of processors, another worker is started. Raises `UnavailableError` if the cluster cannot be joined.
        """
        # Pieces that start at the same time must not each start a worker if there is room for only one.
        async with self._starting:
            self._workers = [worker for worker in self._workers if not worker.dead]
            worker_count = min(self._concurrency, await self._ready())
            idle = [worker for worker in self._workers if not worker.pieces]
            if not idle and len(self._workers) < worker_count:
                self._workers.append(RayWorker(self._factory, self._question_handler))
        return min(self._workers, key=lambda worker: worker.pieces)


class RayWorker:
    """Handle in this process for a worker that runs in a Ray process."""

    def __init__(self, factory: WorkerFactory[Any, Any], question_handler: QuestionHandler) -> None:
        import ray

        # A process that Ray restarted would have no worker, because `open` is called only once. A dead process is
        # therefore replaced, not restarted.
        actor = ray.remote(WorkerHost).options(scheduling_strategy="SPREAD", max_restarts=0)
        self._actor = actor.remote()
        self.dead = False
        self.pieces = 0
        self._numbers = count()
        self._opened = asyncio.ensure_future(self._open(factory))
        self._line = asyncio.ensure_future(self._serve(question_handler))

    async def do(self, piece: object) -> Any:
        """Do one piece of work.

        Raises `WorkerDied` if the worker's process has ended, and any error that the work itself raises.
        """
        number = next(self._numbers)
        self.pieces += 1
        try:
            # All pieces of the worker wait for this. Cancelling one of them must not cancel the start.
            await asyncio.shield(self._opened)
            done = await self._call(self._actor.do.remote(number, piece))
        except asyncio.CancelledError:
            with suppress(Exception):
                # Otherwise, the worker would go on with work that can cost money.
                self._actor.cancel.remote(number)
            raise
        finally:
            self.pieces -= 1
        return done.result()

    async def close(self) -> None:
        import ray

        with suppress(Exception):
            if self._opened.done() and not self.dead:
                async with asyncio.timeout(CLOSING_S):
                    await self._call(self._actor.close.remote())
        self._line.cancel()
        self._opened.cancel()
        await asyncio.gather(self._line, self._opened, return_exceptions=True)
        with suppress(Exception):
            ray.kill(self._actor)

    async def _open(self, factory: WorkerFactory[Any, Any]) -> None:
        try:
            opened = await self._call(self._actor.open.remote(factory))
        except RuntimeError as error:
            message = str(error).splitlines()[0]
            raise UnavailableError(f"a worker could not start on the Ray cluster: {message}\n{VERSION_HINT}") from None
        opened.result()

    async def _serve(self, question_handler: QuestionHandler) -> None:
        """Answer the worker's questions concurrently until the worker ends."""
        answering: set[asyncio.Task[None]] = set()
        async with question_handler() as ask:
            try:
                while True:
                    question = await self._call(self._actor.question.remote())
                    task = asyncio.ensure_future(self._answer(question.number, ask(question.question)))
                    answering.add(task)
                    task.add_done_callback(answering.discard)
            except WorkerDied:
                self.dead = True
            finally:
                for task in answering:
                    task.cancel()
                await asyncio.gather(*answering, return_exceptions=True)

    async def _answer(self, number: int, answering: Awaitable[object]) -> None:
        answer = await capture_result(answering)
        with suppress(Exception):
            self._actor.answer.remote(number, answer)

    async def _call(self, reference: Any) -> Any:
        """Return the result of a remote call. Raises `WorkerDied` if the worker has ended."""
        from ray.exceptions import RayError, RayTaskError

        try:
            return await reference
        except RayTaskError as error:
            # This class is a subclass of `RayError`, but it means that the call failed while the worker is still alive.
            raise RuntimeError(str(error.cause or error)) from None
        except RayError as error:
            self.dead = True
            raise WorkerDied(str(error)) from None


MAX_TRIES = 3
"""Maximum number of times that a piece of work is started. A piece is started again if its worker dies."""
OBJECT_STORE_BYTES = 256 * 1024 * 1024
"""Size of a local cluster's shared memory, in bytes. A piece of work needs at most a few megabytes."""
LOOPBACK = "127.0.0.1"
MISSING_PACKAGE = "`engine` ray needs the package ray: pip install 'evalscribe[ray]'"


class RayEngine:
    """An `Engine` on Ray. The first piece of work starts or joins the cluster."""

    name = "ray"

    def __init__(self, concurrency: int = 4, address: str | None = None, *, tries: int = MAX_TRIES) -> None:
        """Check the arguments.

        `address` is the `HOST:PORT` of the head of the cluster that this machine belongs to; None starts a cluster on
        this machine. Raises `UsageError` if the package `ray` is missing or the address is invalid.
        """

        if find_spec("ray") is None:
            raise UsageError(MISSING_PACKAGE, fields=("engine",))
        if address is not None and "://" in address:
            raise UsageError(
                f"`ray_address` {address}: use HOST:PORT of the cluster's head; this machine must be in the cluster",
                fields=("ray_address",),
            )
        self.concurrency = concurrency
        self._address = address
        self._tries = tries
        self._joined: asyncio.Task[bool] | None = None

    @asynccontextmanager
    async def pool(
        self, factory: WorkerFactory[_Piece, _Result], question_handler: QuestionHandler | None = None
    ) -> AsyncIterator[WorkerPool[_Piece, _Result]]:
        pool = RayPool[_Piece, _Result](
            self._ready, factory, question_handler, concurrency=self.concurrency, tries=self._tries
        )
        try:
            yield pool.do
        finally:
            await pool.close()

    async def map(
        self, factory: WorkerFactory[_Piece, _Result], work: Iterable[_Piece]
    ) -> AsyncIterator[tuple[_Piece, _Result | LostWork]]:
        async with self.pool(factory) as pool:
            async for done in map_work(pool, work, self.concurrency):
                yield done

    async def close(self) -> None:
        """Leave the cluster that this engine has joined.

        If the process had already joined a cluster by other means, the process stays in that cluster.
        """
        if self._joined is None:
            return
        import ray

        with suppress(UnavailableError):
            if await self._joined:
                await asyncio.to_thread(ray.shutdown)

    async def _ready(self) -> int:
        """Join the cluster if this has not been done yet, and return its number of processors.

        Raises `UnavailableError` if the cluster cannot be joined.
        """
        import ray

        if self._joined is None:
            # Several pools can ask for the cluster at once. In a thread, Ray installs no signal handlers.
            self._joined = asyncio.ensure_future(asyncio.to_thread(join_cluster, self._address))
        await asyncio.shield(self._joined)
        _restore_signal_handlers()
        return max(1, int(ray.cluster_resources().get("CPU", 1)))


STARTS = 3
"""Maximum number of attempts to start a local cluster. Ray allows 30 seconds for each, which a very busy machine can
exceed."""


def join_cluster(address: str | None) -> bool:
    """Join a cluster, or start a local one if `address` is None.

    Returns False if this process had already joined a cluster. Do not call this function in the main thread, because
    Ray would install its own SIGTERM handler there. Raises `UnavailableError` if the cluster cannot be joined or
    started.
    """
    # Ray would otherwise send usage statistics.
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    if address is None:
        # The token keeps other users out of the cluster. Without this variable, Ray would write a token to the home
        # folder.
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(16))
    logging.getLogger("ray").setLevel(logging.CRITICAL)
    import ray

    _silence()
    if ray.is_initialized():
        return False
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL, "configure_logging": False}
    if address is None:
        # A local cluster is for this process alone, so other machines must not reach it.
        options |= {"include_dashboard": False, "object_store_memory": OBJECT_STORE_BYTES, "_node_ip_address": LOOPBACK}
    children = frozenset(psutil.Process().children())
    for remaining_starts in reversed(range(1 if address else STARTS)):
        try:
            ray.init(address=address or "local", **options)
            break
        except Exception as error:
            ray.shutdown()
            _end_failed_start(Path(ray.__file__).parent, children)
            if remaining_starts:
                continue
            message = " ".join(str(error).split())[:200]
            problem = f"the Ray cluster {address} cannot be joined" if address else "Ray cannot be started here"
            raise UnavailableError(f"{problem}: {message}") from None
    return True


def _end_failed_start(folder: Path, children: frozenset[psutil.Process]) -> None:
    """Kill the processes of a cluster that could not be started completely.

    `ray.shutdown` ends only clusters that were started completely.

    Args:
        folder: The folder in which Ray is installed.
        children: The child processes that existed before the start.
    """
    for process in frozenset(psutil.Process().children()) - children:
        with suppress(psutil.Error):
            # This process might have started other programs in the meantime.
            if any(str(folder) in word for word in process.cmdline()):
                process.kill()


def _restore_signal_handlers() -> None:
    """Install evalscribe's signal handlers again.

    Otherwise, Ray would handle SIGTERM before Python does, and print a long message.
    """
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            if handler := signal.getsignal(number):
                signal.signal(number, handler)


def _silence() -> None:
    """Suppress the ten lines that Ray prints about a dead worker.

    evalscribe reports the dead worker in one line of its own. Ray has no option to suppress its lines.
    """
    from ray._private import worker

    if hasattr(worker, "print_to_stdstream"):
        worker.print_to_stdstream = lambda *_args, **_kwargs: None


LOCAL, RAY = "local", "ray"


def open_engine(settings: Settings, name: str | None = None) -> Engine:
    """Open the engine that `name` selects. Without a name, open the configured engine."""
    chosen = name or settings.engine.value
    concurrency = settings.concurrency.value
    if chosen == RAY:
        _check_cluster(settings.ray_address.origin)
        return RayEngine(concurrency, settings.ray_address.value)
    if chosen != LOCAL:
        raise UsageError(f"`engine` {chosen} is unknown; use {LOCAL} or {RAY}", fields=("engine",))

    return LocalEngine(concurrency)


def _check_cluster(address: Origin) -> None:
    """Raise `UsageError` if an untrusted file names the cluster.

    The operator of the cluster receives the API keys and can run code on this machine.
    """
    if address.trust < ENVIRONMENT:
        raise UsageError(
            f"the Ray cluster's address comes from {address.where}, which may not be trustworthy.\n"
            "Give it with `ray_address` or in the environment.",
            fields=("ray_address",),
        )
