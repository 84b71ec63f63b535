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
    """Where a run comes from."""

    async def run(self) -> Run:
        """The run with its failed evals. Raises `EvalscribeError`."""

    async def evidence(self, eval: Eval) -> Evidence | UnreadableEvidence:
        """The redacted evidence of one failed eval. Raises only what concerns all evals (no key, host gone)."""

    async def close(self) -> None: ...


OnText = Callable[[str], None]
"""Hears an answer piece by piece as it is written."""


class Estimate(Frozen):
    """What judging one case may cost at most, and what it is likely to."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0
    """None where the model has no price."""

    @property
    def summary(self) -> str:
        """`about 120,000 tokens, $1.20`."""
        tokens = f"about {float(f'{self.input_tokens + self.output_tokens:.2g}'):,.0f} tokens"
        return tokens if self.cost_usd is None else f"{tokens}, {dollars(self.cost_usd)}"

    def __add__(self, other: "Estimate") -> "Estimate":
        """A sum with something unpriced has no price."""
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
    """How many tokens prompt and answer may have together."""

    async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        """One answer. Raises `llm` errors mapped to `EvalscribeError` or `chat.CallFailed`.

        `on_text` hears the answer's text, and no thinking, as it comes; the pieces joined are `Reply.text`. Where an
        attempt broke off after it was heard, nothing is tried again: `CallFailed`.
        """

    def forget(self, request: Request) -> None:
        """The answer led nowhere: whoever asks the same later is to be answered anew, as most models do anyway."""

    async def close(self) -> None: ...


class Models(Protocol):
    """Every model that may be asked; all spend from one budget."""

    def open(self, name: str, stage: str) -> Model:
        """The model `provider/name`, for one stage of the work (`judge`, `tag`, `observe` …), closed with the others.

        Raises `UsageError` for an unknown provider or a missing package, `AccessError` for a missing key.
        """

    def spent(self) -> Mapping[str, Usage]:
        """What each stage consumed so far, in the order of their first calls."""

    async def close(self) -> None: ...


class QueryRows(Frozen):
    """The rows that a SELECT returned."""

    columns: tuple[str, ...]
    rows: tuple[tuple[JsonValue, ...], ...]
    truncated: bool = False
    """True if there were more rows than requested."""


class Tables(Protocol):
    """The store's database, read by a checked statement in the database's own dialect."""

    dialect: Literal["sqlite", "postgres"]

    def select(
        self, statement: str, values: Mapping[str, str | float], *, most_rows: int, timeout_s: float
    ) -> QueryRows:
        """Run a SELECT, within the engine's own guards. `columns` stays empty: the author of the statement knows them.

        Args:
            values: Values of the `:name` parameters.

        Raises:
            UsageError: The engine refuses the statement; in the engine's words.
            UnavailableError: The time is up.
        """

    def close(self) -> None: ...


class Judge(Protocol):
    """Decides one case."""

    id: str
    """With its version: `rules@1`, `anthropic/claude-opus-5-5`."""

    def key(self, case: Failure) -> str:
        """Content id of the question: rubric, prompt, model, parameters, evidence. Equal keys, equal question."""

    def estimate(self, case: Failure) -> Estimate: ...

    async def judge(self, case: Failure) -> Verdict | Unclassified:
        """What concerns this case is a value; raises `EvalscribeError` only for what concerns all of them."""


T = TypeVar("T")
R = TypeVar("R")

Worker = Callable[[T], Awaitable[R]]
"""Does one piece of work."""
AskParent = Callable[[object], Awaitable[object]]
"""Asks whoever hands out the work. Question and answer can be pickled; raises what answering raised."""
WorkerFactory = Callable[[AskParent], AbstractAsyncContextManager[Worker[T, R]]]
"""Makes a worker and all that it works with, where the work is done; can be pickled."""
QuestionHandler = Callable[[], AbstractAsyncContextManager[AskParent]]
"""Answers the questions of one worker where the work is handed out; closed when that worker is, or has died."""


class LostWork(Frozen):
    """A piece of work whose worker died each time it was tried."""

    reason: str


WorkerPool = Callable[[T], Awaitable[R | LostWork]]
"""Does one piece of work on one of several workers. A worker that dies is replaced and its piece tried again.

Raises the worker's exceptions. A cancellation reaches the worker.
"""


class Engine(Protocol):
    """Does many pieces of work, several at once."""

    name: str
    """`local` or `ray`."""
    lanes: int
    """How many pieces are under way at once."""

    def crew(
        self, factory: "WorkerFactory[T, R]", clerk: QuestionHandler | None = None
    ) -> AbstractAsyncContextManager[WorkerPool[T, R]]:
        """Workers made by this factory; without a clerk they have no questions.

        Raises `UnavailableError` where they cannot be had.
        """

    def map(self, factory: "WorkerFactory[T, R]", work: Iterable[T]) -> AsyncIterator[tuple[T, R | LostWork]]:
        """Each piece with its result, in the order they are done; the next is taken only when there is a free lane.

        What a worker raises ends the work and is raised here.
        """

    async def close(self) -> None: ...
