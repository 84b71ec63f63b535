"""Define the protocols of services that have several implementations: sources, models, judges, tables and engines."""

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
    """A source from which one run is read."""

    async def run(self) -> Run:
        """Return the run with its failed evals. Raises `EvalscribeError` if the run cannot be read."""

    async def evidence(self, eval: Eval) -> Evidence | UnreadableEvidence:
        """Return the redacted evidence of one failed eval.

        Raises an exception only if a problem affects all evals, such as a missing API key.
        """

    async def close(self) -> None: ...


OnText = Callable[[str], None]
"""Function that receives each part of an answer while it is streamed."""


class Estimate(Frozen):
    """Estimated number of tokens and estimated cost of model calls."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0
    """Estimated cost in USD; None if the price of the model is unknown."""

    @property
    def summary(self) -> str:
        """Format the estimate as text, such as `about 120,000 tokens, $1.20`."""
        tokens = f"about {float(f'{self.input_tokens + self.output_tokens:.2g}'):,.0f} tokens"
        return tokens if self.cost_usd is None else f"{tokens}, {dollars(self.cost_usd)}"

    def __add__(self, other: "Estimate") -> "Estimate":
        """Add two estimates. The cost of the sum is None if one of the costs is None."""
        priced = self.cost_usd is not None and other.cost_usd is not None
        return Estimate(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost_usd=(self.cost_usd or 0.0) + (other.cost_usd or 0.0) if priced else None,
        )


class Model(Protocol):
    """A chat model with tools."""

    id: str
    """Id of the model, in the form `provider/name`."""
    context_tokens: int
    """Size of the context window: the maximum number of tokens of prompt and answer together."""

    async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        """Return the model's answer to a request. Raises `EvalscribeError` or `chat.CallFailed`.

        `on_text` receives the parts of the answer's text, without thinking, while they are streamed. The joined parts
        are equal to `Reply.text`. If an attempt breaks off after `on_text` has received some text, `CallFailed` is
        raised without a retry.
        """

    def forget(self, request: Request) -> None:
        """Delete the cached answer to a request.

        Called if the answer could not be used. Does nothing if the model has no cache.
        """

    async def close(self) -> None: ...


class Models(Protocol):
    """Opens models. All opened models share one budget."""

    def open(self, name: str, stage: str) -> Model:
        """Open the model `provider/name` for one stage, such as `judge`, `tag` or `observe`.

        `close` closes all opened models. Raises `UsageError` if the provider is unknown or its package is missing, and
        `AccessError` if the API key is missing.
        """

    def spent(self) -> Mapping[str, Usage]:
        """Return the usage of each stage so far, in the order in which the stages first called a model."""

    async def close(self) -> None: ...


class QueryRows(Frozen):
    """The rows that a SELECT returned."""

    columns: tuple[str, ...]
    rows: tuple[tuple[JsonValue, ...], ...]
    truncated: bool = False
    """True if the statement has more result rows than `rows` contains."""


class Tables(Protocol):
    """The tables of the store's database, for running SELECT statements.

    The caller checks the statements beforehand and writes them in the database's own dialect.
    """

    dialect: Literal["sqlite", "postgres"]

    def select(
        self, statement: str, values: Mapping[str, str | float], *, most_rows: int, timeout_s: float
    ) -> QueryRows:
        """Run a SELECT statement within limits on rows and time.

        `columns` of the result stays empty, because the caller knows the columns.

        Args:
            values: The values of the parameters `:name` in the statement.

        Raises:
            UsageError: The database refuses the statement. The message is the database's own message.
            UnavailableError: The statement took longer than `timeout_s`.
        """

    def close(self) -> None: ...


class Judge(Protocol):
    """Judges failures."""

    id: str
    """Id of the judge, such as `rules@1` (with a version number) or `anthropic/claude-opus-5-5`."""

    def key(self, case: Failure) -> str:
        """Return the content id of the question to the judge: its rubric, prompt, model, parameters and evidence."""

    def estimate(self, case: Failure) -> Estimate: ...

    async def judge(self, case: Failure) -> Verdict | Unclassified:
        """Judge a failure.

        A problem that affects only this failure is returned as `Unclassified`. Raises `EvalscribeError` if a problem
        affects all failures.
        """


T = TypeVar("T")
R = TypeVar("R")

Worker = Callable[[T], Awaitable[R]]
"""Processes one work item."""
AskParent = Callable[[object], Awaitable[object]]
"""Function with which a worker sends a picklable question to the process that distributes the work. The function
returns the answer or, if the answer is an exception, raises this exception."""
WorkerFactory = Callable[[AskParent], AbstractAsyncContextManager[Worker[T, R]]]
"""Picklable function that creates a worker and its resources on the machine on which the worker runs."""
QuestionHandler = Callable[[], AbstractAsyncContextManager[AskParent]]
"""Function that is called for each worker, in the process that distributes the work. It opens an `AskParent` that
answers the worker's questions. This `AskParent` is closed when the worker ends or dies."""


class LostWork(Frozen):
    """The result of a work item if the worker died at every attempt to process it."""

    reason: str


WorkerPool = Callable[[T], Awaitable[R | LostWork]]
"""Function that processes a work item on a free worker. If the worker dies, another worker tries the item again.

Exceptions of the worker are raised. Cancelling the call also cancels the worker.
"""


class Engine(Protocol):
    """Runs a pool of workers that process several work items at once."""

    name: str
    """Name of the engine: `local` or `ray`."""
    concurrency: int
    """Maximum number of work items that are processed at the same time."""

    def pool(
        self, factory: "WorkerFactory[T, R]", question_handler: QuestionHandler | None = None
    ) -> AbstractAsyncContextManager[WorkerPool[T, R]]:
        """Open a pool of workers that `factory` creates.

        If `question_handler` is not given, the workers cannot ask questions. Raises `UnavailableError` if no workers
        can be started.
        """

    def map(self, factory: "WorkerFactory[T, R]", work: Iterable[T]) -> AsyncIterator[tuple[T, R | LostWork]]:
        """Yield each work item with its result, in order of completion.

        An item is taken from the input only when a worker is free. An exception in a worker ends the iteration and is
        raised.
        """

    async def close(self) -> None: ...
