"""Ask a model many questions over a collection, each answer stored at once and paid for only once."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol
from weakref import WeakValueDictionary

from evalscribe.app.requests.references import References
from evalscribe.app.requests.submission import Submission, named, planned
from evalscribe.ids import Frozen
from evalscribe.judging.requests import RequestAnswer, RequestModel, RequestPrompt
from evalscribe.judging.worker_pool import run_concurrently
from evalscribe.model.chat import Usage
from evalscribe.model.collection_storage import ResultSetStore
from evalscribe.model.protocols import Models
from evalscribe.model.result import CitationCounts, Result, ResultCounts, ResultSet
from evalscribe.model.rubric import Collection
from evalscribe.workspace import Workspace

STAGE = "request"


def _utc_now() -> datetime:
    return datetime.now(UTC)


class RequestWatcher(Protocol):
    """Hears how it goes."""

    def begun(self, name: str, done: int, total: int) -> None:
        """So many of these requests have an answer already."""

    def answered(self, result: Result, *, known: bool) -> None:
        """`known`: the same question was answered before, so that nobody was asked."""


class Submitted(Frozen):
    """What became of the requests of one call."""

    result_set: ResultSet
    counts: ResultCounts
    asked: int
    """So many were asked now; the others were known."""
    citations: CitationCounts
    spent: Usage
    """By this call."""


async def submit(
    workspace: Workspace,
    models: Models,
    collection: Collection,
    submission: Submission,
    watcher: RequestWatcher,
    *,
    concurrency: int | None = None,
    clock: Callable[[], datetime] = _utc_now,
) -> Submitted:
    """Ask what has no answer yet. What concerns one request is an error in its result.

    Args:
        workspace: Where results go.
        models: Who is asked.
        collection: Whose agent runs prompts refer to.
        submission: The requests, and by whom they are answered.
        watcher: Hears how it goes.
        concurrency: Requests at a time; None for the configured number.
        clock: When results are stored.

    Raises:
        UsageError: It cannot be asked so; nothing was asked.
        NotFoundError: Prompts refer to what is not there; nothing was asked.
        EvalscribeError: It concerns all requests; what is finished is stored.
    """
    sets = workspace.store.results
    model = models.open(submission.model, STAGE)
    questioner = RequestModel(model, workspace.prompts, submission.output_schema, submission.reasoning_effort)
    references = References(workspace.store.runs, sets, collection)
    requests = references.belonging(submission.requests)
    when = _spelled(clock())
    with sets.lock(named(sets, collection, submission, requests, when).id):
        made = named(sets, collection, submission, requests, when)
        plan = planned(made, sets.results(made.id), submission, requests, when)
        await references.check((n, one.prompt) for n, one in enumerate(plan.rows) if one.open)
        sets.add(made, plan.new)
        work = _Work(sets, clock, questioner, references, watcher)
        watcher.begun(made.name, sum(not one.open for one in plan.rows), len(plan.rows))
        at_once = concurrency or workspace.settings.concurrency.value
        await run_concurrently((one for one in plan.rows if one.open), work.do, at_once)
    return work.told(made, tuple(work.done.get(one.id, one) for one in plan.rows))


class _Work:
    """The requests of one call, as they are answered."""

    def __init__(
        self,
        sets: ResultSetStore,
        clock: Callable[[], datetime],
        questioner: RequestModel,
        references: References,
        watcher: RequestWatcher,
    ) -> None:
        self.done: dict[str, Result] = {}
        self._sets = sets
        self._clock = clock
        self._questioner = questioner
        self._references = references
        self._watcher = watcher
        self._asked = 0
        self._spent = Usage()
        self._asking = WeakValueDictionary[str, asyncio.Lock]()
        """By key: who asks the same at the same time waits for the answer."""

    async def do(self, waiting: Result) -> None:
        question = RequestPrompt.of(waiting.prompt, self._references.known(waiting.prompt))
        request = self._questioner.request(question)
        key = self._questioner.key(request)
        async with self._asking.setdefault(key, asyncio.Lock()):
            known = self._sets.answered(key)
            if known:
                result = _copied(waiting, known, self._questioner.again(known.output or {}, question))
            else:
                answer = await self._questioner.ask(question, request)
                self._count(answer)
                result = _answered(waiting, key, answer)
            result = result.model_copy(update={"created_at": _spelled(self._clock())})
            self._sets.put(result)
        self.done[result.id] = result
        self._watcher.answered(result, known=known is not None)
        await asyncio.sleep(0)  # a lane that only meets known answers would keep signals waiting

    def told(self, made: ResultSet, results: tuple[Result, ...]) -> Submitted:
        counts = ResultCounts(
            requests=len(results),
            results=sum(one.output is not None for one in results),
            errors=sum(one.error is not None for one in results),
        )
        citations = sum((one.citations for one in results), CitationCounts())
        return Submitted(result_set=made, counts=counts, asked=self._asked, citations=citations, spent=self._spent)

    def _count(self, answer: RequestAnswer) -> None:
        self._asked += answer.usage.calls > 0
        self._spent += answer.usage


def _answered(waiting: Result, key: str, answer: RequestAnswer) -> Result:
    return waiting.model_copy(
        update={
            "key": key,
            "output": answer.output,
            "error": answer.error,
            "final": answer.final,
            "input_tokens": answer.usage.input_tokens,
            "output_tokens": answer.usage.output_tokens,
            "cost_usd": answer.usage.cost_usd,
        }
    )


def _copied(waiting: Result, known: Result, output: dict[str, object]) -> Result:
    """The answer of another result, which was paid for there."""
    tokens = {name: getattr(known, name) for name in ("input_tokens", "output_tokens")}
    return waiting.model_copy(update={"key": known.key, "output": output, "error": None, "final": False, **tokens})


def _spelled(time: datetime) -> str:
    return time.isoformat(timespec="milliseconds")
