"""Open models for judges that are built in code, within a budget of tokens and dollars."""

import asyncio
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import CancelledError, Future
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from evalscribe.errors import UsageError
from evalscribe.judging.judges import JudgeMaker
from evalscribe.llm.budget import Budget
from evalscribe.model.chat import Reply, Request, Usage
from evalscribe.model.protocols import Model, Models, OnText
from evalscribe.model.rubric import Rubric
from evalscribe.workspace import Workspace

if TYPE_CHECKING:
    from evalscribe.judging.rubric_judge import RubricJudge


WorkResult = TypeVar("WorkResult")
LastCall = Callable[[], Awaitable[None]]

CLOSED = "this service is closed: create a new one"
LAST_S = 10.0
"""Maximum number of seconds to wait for cancelled work, or for the thread, to end."""


class Background:
    """An event loop in a daemon thread.

    The first piece of work starts the thread. A program can exit without stopping the thread.
    """

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._last: Future[LastCall] = Future()

    async def run(self, work: Coroutine[Any, Any, WorkResult]) -> WorkResult:
        """Run `work` in the thread.

        If the caller is cancelled, `work` is cancelled, too. Raises `UsageError` if `stop` was called before.
        """
        try:
            loop = self._start_loop()
        except UsageError:
            # A coroutine that is neither awaited nor closed causes a warning.
            work.close()
            raise
        future = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            # `stop` cancels running work. The caller was not cancelled itself, so it gets an error that says what
            # happened.
            if self._last.done() and not _cancelled():
                raise UsageError(CLOSED) from None
            raise

    def wait(self, work: Coroutine[Any, Any, WorkResult]) -> WorkResult:
        """Run `work` like `run`, but block the calling thread and any event loop in it until the work ends.

        If the wait is interrupted, for example by Ctrl-C, the work is cancelled before the interruption is raised.
        """
        try:
            loop = self._start_loop()
        except UsageError:
            work.close()
            raise
        ended = threading.Event()
        future = asyncio.run_coroutine_threadsafe(_signalling(work, ended), loop)
        try:
            return future.result()
        except CancelledError:
            raise UsageError(CLOSED) from None
        except BaseException:
            # `cancel` only requests the end of the work. The work may still have to store or release something.
            if future.cancel():
                ended.wait(LAST_S)
            raise

    def stop(self, last: LastCall) -> None:
        """Cancel running work, run `last` if the thread was ever started, and end the thread.

        Further calls of `stop` do nothing.
        """
        with self._changing:
            if self._last.done():
                return
            self._last.set_result(last)
        # The garbage collector can call this in any thread, even the background thread, which cannot join itself.
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(LAST_S)

    def _start_loop(self) -> asyncio.AbstractEventLoop:
        with self._changing:
            if self._last.done():
                raise UsageError(CLOSED)
            if self._loop is None:
                started: Future[asyncio.AbstractEventLoop] = Future()
                serve = _serve(started, self._last)
                self._thread = threading.Thread(target=asyncio.run, args=(serve,), name="evalscribe", daemon=True)
                self._thread.start()
                self._loop = started.result()
            return self._loop


async def _signalling(work: Coroutine[Any, Any, WorkResult], ended: threading.Event) -> WorkResult:
    try:
        return await work
    finally:
        ended.set()


async def _serve(started: Future[asyncio.AbstractEventLoop], last: Future[LastCall]) -> None:
    started.set_result(asyncio.get_running_loop())
    close = await asyncio.wrap_future(last)
    other_tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in other_tasks:
        task.cancel()
    await asyncio.gather(*other_tasks, return_exceptions=True)
    await close()


def _cancelled() -> bool:
    """Return True if the current task itself was cancelled, not only the work that it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


T = TypeVar("T")
MAX_TOKENS = 2_000_000


class BaseLLMService:
    """Opens models of all providers whose keys are in the environment, `.env.local` or `.env`. Implements `Models`.

    All calls together stay within `max_tokens`, and within `budget_usd` if it is given. The service can be used from
    any thread and any event loop. Closing the service is optional.
    """

    def __init__(
        self,
        max_concurrency: int = 100,
        *,
        max_tokens: int = MAX_TOKENS,
        budget_usd: float | None = None,
        folder: Path | None = None,
    ) -> None:
        """Read the settings.

        Args:
            max_concurrency: Maximum number of concurrent calls.
            folder: Folder in which settings are looked up; the working folder by default.

        Raises:
            UsageError: The settings cannot be read. A missing key is reported when a model is opened.
        """
        if max_concurrency < 1 or max_tokens < 1:
            raise UsageError("max_concurrency and max_tokens must be at least 1")
        workspace = Workspace(folder=folder)
        self.prompts = workspace.prompts
        """Prompt templates. The workspace's own templates take precedence over built-in ones."""
        self._models = workspace.open_models(Budget(usd=budget_usd, tokens=max_tokens))
        self._background = Background()
        self._semaphore = asyncio.Semaphore(max_concurrency)
        self._opening = threading.Lock()
        # The finalizer must not refer to the service, which would then never be collected. `_background` and `_models`
        # do not refer to it.
        self._end = weakref.finalize(self, self._background.stop, self._models.close)

    def open(self, name: str, stage: str) -> Model:
        """Open a model.

        Raises `UsageError` for an unknown provider or a missing package, `AccessError` for a missing key.
        """
        # Judges can be created in several threads at the same time.
        with self._opening:
            return _ServiceModel(self, self._models.open(name, stage))

    async def answer(self, model: Model, request: Request, on_text: OnText | None = None) -> Reply:
        """Call a model of this service and return its reply. `on_text` is called in the service's thread."""
        return await self._background.run(self._call(model, request, on_text))

    def wait(self, work: Callable[[Models], Coroutine[Any, Any, T]]) -> T:
        """Run work in the service's own event loop and wait for it to end.

        The work can call the service's models. The caller must limit the work's concurrency, because `max_concurrency`
        does not apply to the work.
        """
        return self._background.wait(work(self._models))

    def spent(self) -> Mapping[str, Usage]:
        """Return the tokens and cost that each stage has used so far."""
        return self._models.spent()

    async def close(self) -> None:
        """Close the service. Calls in progress are cancelled."""
        await asyncio.to_thread(self.stop)

    def stop(self) -> None:
        """Close the service like `close`, from code outside an event loop."""
        self._end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _call(self, model: Model, request: Request, on_text: OnText | None) -> Reply:
        async with self._semaphore:
            return await model.complete(request, on_text)


class _ServiceModel:
    """A model whose calls run in the service's own event loop.

    The model keeps the service from being garbage collected.
    """

    def __init__(self, service: BaseLLMService, model: Model) -> None:
        self.id = model.id
        self.context_tokens = model.context_tokens
        self._service = service
        self._model = model

    async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        return await self._service.answer(self._model, request, on_text)

    def forget(self, request: Request) -> None:
        self._model.forget(request)

    async def close(self) -> None:
        """Do nothing. The service owns the connections."""


def build_judge(rubric: Rubric, llm_svc: BaseLLMService) -> "RubricJudge":
    """Return a judge that can be called on any `AgentRun`: `result = await judge(agent_run)`.

    The judge stores nothing. Raises the same errors as `BaseLLMService.open`. The errors are raised here, not by the
    judge, because they would affect every agent run.
    """
    return JudgeMaker(llm_svc, llm_svc.prompts).by_model(rubric)
