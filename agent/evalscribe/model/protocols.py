"""Protocols of services with several implementations: sources, models, judges, tables and engines."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol, TypeVar

from pydantic import JsonValue

from evalscribe.ids import Frozen
from evalscribe.model.chat import Reply, Request, Usage
from evalscribe.model.evidence import Evidence, UnreadableEvidence
from evalscribe.model.finding import Failure, Unclassified, Verdict
from evalscribe.model.run import Eval, Run
from evalscribe.text import dollars


class RunSource(Protocol):
    """A source of one run."""

    async def run(self) -> Run:
        """Return the run with its failed evals. Raises `EvalscribeError`."""

    async def evidence(self, eval: Eval) -> Evidence | UnreadableEvidence:
        """Return the redacted evidence of one failed eval.

        Raises only for problems that affect all evals, such as a missing key.
        """

    async def close(self) -> None: ...


OnText = Callable[[str], None]
"""Function that receives each piece of a streamed answer."""


class Estimate(Frozen):
    """An estimate of tokens and cost."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0
    """None if the model has no known price."""

    @property
    def summary(self) -> str:
        """Format the estimate, such as `about 120,000 tokens, $1.20`."""
        tokens = f"about {float(f'{self.input_tokens + self.output_tokens:.2g}'):,.0f} tokens"
        return tokens if self.cost_usd is None else f"{tokens}, {dollars(self.cost_usd)}"

    def __add__(self, other: "Estimate") -> "Estimate":
        """Add two estimates. The sum has no price if one of them has none."""
        priced = self.cost_usd is not None and other.cost_usd is not None
        return Estimate(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost_usd=(self.cost_usd or 0.0) + (other.cost_usd or 0.0) if priced else None,
        )


class Model(Protocol):
    """A chat model with tools."""

    id: str
    """`provider/name`."""
    context_tokens: int
    """Maximum number of tokens of prompt and answer together (context window)."""

    async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        """Return one answer. Raises `EvalscribeError` or `chat.CallFailed`.

        `on_text` receives the answer's text, without thinking, in pieces as it is streamed. The joined pieces equal
        `Reply.text`. If an attempt breaks off after `on_text` received some text, `CallFailed` is raised without a
        retry.
        """

    def forget(self, request: Request) -> None:
        """Delete the cached answer to a request.

        Called if the answer could not be used. Models without a cache do nothing.
        """

    async def close(self) -> None: ...


class Models(Protocol):
    """Opens models. All of them share one budget."""

    def open(self, name: str, stage: str) -> Model:
        """Open the model `provider/name` for one stage (`judge`, `tag`, `observe` …); `close` closes all models.

        Raises `UsageError` for an unknown provider or a missing package, `AccessError` for a missing key.
        """

    def spent(self) -> Mapping[str, Usage]:
        """Return the usage of each stage so far, in the order of their first calls."""

    async def close(self) -> None: ...


class QueryRows(Frozen):
    """The rows that a SELECT returned."""

    columns: tuple[str, ...]
    rows: tuple[tuple[JsonValue, ...], ...]
    truncated: bool = False
    """True if the statement has more rows than `rows`."""


class Tables(Protocol):
    """The store's database. Its statements are checked beforehand and written in the database's own dialect."""

    dialect: Literal["sqlite", "postgres"]

    def select(
        self, statement: str, values: Mapping[str, str | float], *, most_rows: int, timeout_s: float
    ) -> QueryRows:
        """Run a SELECT within limits on rows and time. The result's `columns` stay empty, because the caller knows
        them.

        Args:
            values: Values of the `:name` parameters.

        Raises:
            UsageError: The database refuses the statement. The message is the database's own.
            UnavailableError: The statement took longer than `timeout_s`.
        """

    def close(self) -> None: ...


class Judge(Protocol):
    """Judges failures."""

    id: str
    """Id with version: `rules@1`, `anthropic/claude-opus-5-5`."""

    def key(self, case: Failure) -> str:
        """Return the content id of the question: rubric, prompt, model, parameters, evidence."""

    def estimate(self, case: Failure) -> Estimate: ...

    async def judge(self, case: Failure) -> Verdict | Unclassified:
        """Judge a failure. A problem with this failure is returned as `Unclassified`.

        Raises `EvalscribeError` for a problem that affects all failures.
        """


T = TypeVar("T")
R = TypeVar("R")

Worker = Callable[[T], Awaitable[R]]
"""Processes one work item."""
AskParent = Callable[[object], Awaitable[object]]
"""Sends a worker's picklable question to the process that distributes the work. Returns the answer, or raises it if it
is an exception."""
WorkerFactory = Callable[[AskParent], AbstractAsyncContextManager[Worker[T, R]]]
"""Creates a worker and its resources on the machine where the worker runs. The factory is picklable."""
QuestionHandler = Callable[[], AbstractAsyncContextManager[AskParent]]
"""Answers one worker's questions in the process that distributes the work. Closed when the worker ends or dies."""


class LostWork(Frozen):
    """The result of a work item whose worker died at every attempt."""

    reason: str


WorkerPool = Callable[[T], Awaitable[R | LostWork]]
"""Processes a work item on a free worker. A worker that dies is replaced, and its item is tried again.

Raises the worker's exceptions. Cancelling the call also cancels the worker.
"""


class Engine(Protocol):
    """A pool of workers that processes several work items at once."""

    name: str
    """`local` or `ray`."""
    concurrency: int
    """Maximum number of work items that are processed at the same time."""

    def pool(
        self, factory: "WorkerFactory[T, R]", question_handler: QuestionHandler | None = None
    ) -> AbstractAsyncContextManager[WorkerPool[T, R]]:
        """Open a pool of workers that `factory` creates. Without `question_handler`, the workers cannot ask questions.

        Raises `UnavailableError` if no workers can be started.
        """

    def map(self, factory: "WorkerFactory[T, R]", work: Iterable[T]) -> AsyncIterator[tuple[T, R | LostWork]]:
        """Yield each work item with its result, in order of completion. The next item is read when a worker is free.

        An exception in a worker ends the iteration and is raised.
        """

    async def close(self) -> None: ...
