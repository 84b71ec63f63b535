"""Ask a model many questions about a collection. Each answer is stored immediately and paid for only once."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, cast
from uuid import NAMESPACE_URL, uuid5
from weakref import WeakValueDictionary

from pydantic import field_validator

from evalscribe.errors import NotFoundError, UsageError
from evalscribe.ids import Frozen, canonical_json, content_id
from evalscribe.json_data import clean_json, clean_text
from evalscribe.judging.requests import LoadedReferences, RequestAnswer, RequestModel, RequestPrompt
from evalscribe.judging.worker_pool import run_concurrently
from evalscribe.model.chat import Effort, Usage
from evalscribe.model.output_schema import validate_schema
from evalscribe.model.protocols import Models
from evalscribe.model.record import Record
from evalscribe.model.result import (
    AgentRunRef,
    CitationCounts,
    LLMRequest,
    Prompt,
    Ref,
    RequestValue,
    Result,
    ResultCounts,
    ResultRef,
    ResultSet,
    Segment,
    TranscriptRef,
)
from evalscribe.model.rubric import Collection
from evalscribe.redaction.redact import redact, redact_json
from evalscribe.store.lookup import find_by_prefix
from evalscribe.text import join_first, pluralise
from evalscribe.workspace import Workspace

if TYPE_CHECKING:
    from evalscribe.store.records import RunStore
    from evalscribe.store.results import ResultSetStore

CACHE_SIZE = 64
"""Maximum number of referenced objects that are cached in memory. Many requests refer to the same agent runs."""
MAX_REFERENCES_NAMED = 10
KINDS = {AgentRunRef: "agent run", TranscriptRef: "transcript", ResultRef: "result"}


class References:
    """Checks and loads the objects to which prompts refer. All the objects belong to one collection."""

    def __init__(self, run_store: "RunStore", sets: "ResultSetStore", collection: Collection) -> None:
        self._run_store = run_store
        self._sets = sets
        self._collection = collection
        self._load = lru_cache(CACHE_SIZE)(self._find)

    def prepare(self, requests: Sequence[LLMRequest]) -> tuple[LLMRequest, ...]:
        """Prepare requests for storage: clean and redact the text, and add the collection's id to references.

        Raises `UsageError` if a request refers to an object of another collection.
        """
        return tuple(self._prepare_request(number, request) for number, request in enumerate(requests))

    async def check(self, prompts: Iterable[tuple[int, Sequence[Segment]]]) -> None:
        """Check that all referenced objects exist.

        Raises `NotFoundError` if objects are missing or results have no answer. The message lists at most
        `MAX_REFERENCES_NAMED` of them, each with the first request that refers to it.
        """
        first_requests = dict[Ref, int]()
        for number, segments in prompts:
            for ref in _refs(segments):
                first_requests.setdefault(ref, number)
        missing = list[str]()
        for ref, number in first_requests.items():
            missing += self._missing(ref, number)
            await asyncio.sleep(0)  # there can be thousands of runs, so let signal handlers run
        if missing:
            more = f" and {len(missing) - MAX_REFERENCES_NAMED} more" if len(missing) > MAX_REFERENCES_NAMED else ""
            raise NotFoundError(
                f"collection {self._collection.name!r} lacks {pluralise(len(missing), 'object')} that prompts refer "
                f"to: {'; '.join(missing[:MAX_REFERENCES_NAMED])}{more}"
            )

    def load(self, segments: Sequence[Segment]) -> LoadedReferences:
        """Load the objects to which a checked prompt refers.

        Raises `NotFoundError` if an object was deleted after the check.
        """
        objects = {ref: self._load(ref) for ref in _refs(segments)}
        if missing_ref := next((ref for ref, item in objects.items() if item is None), None):
            raise NotFoundError(f"{KINDS[type(missing_ref)]} {missing_ref.id!r} was deleted, but a prompt refers to it")
        return cast(LoadedReferences, objects)

    def _prepare_request(self, number: int, request: LLMRequest) -> LLMRequest:
        prompt = Prompt([self._segment(number, segment) for segment in request.prompt.segments])
        return LLMRequest(prompt=prompt, metadata=cast(dict[str, object], redact_json(clean_json(request.metadata))))

    def _segment(self, number: int, segment: Segment) -> Segment:
        if isinstance(segment, str):
            return redact(clean_text(segment))
        collection = self._collection
        if segment.collection_id not in (None, collection.id, collection.name):
            raise UsageError(
                f"request {number} refers to {KINDS[type(segment)]} {segment.id!r} of collection "
                f"{segment.collection_id!r}, but belongs to {collection.id!r}: a prompt can refer only to its own "
                "collection."
            )
        return segment.model_copy(update={"collection_id": collection.id})

    def _missing(self, ref: Ref, number: int) -> list[str]:
        """Return a list with one description if the object is missing or has no answer; otherwise an empty list.

        Example: `agent run 'x' (request 3)`.
        """
        item = self._load(ref)
        owner_text = f" of result set {ref.result_set_id!r}" if isinstance(ref, ResultRef) else ""
        description = f"{KINDS[type(ref)]} {ref.id!r}{owner_text} (request {number})"
        if item is None:
            return [description]
        if isinstance(item, Result) and item.output is None:
            return [f"{description}, which has no answer: {item.error or 'it is pending'}"]
        return []

    def _find(self, ref: Ref) -> Record | Result | None:
        if isinstance(ref, AgentRunRef):
            return self._run_store.record(ref.id, self._collection.id)
        if isinstance(ref, TranscriptRef):
            return self._run_store.transcript(ref.id, self._collection.id)
        result_set = self._sets.find(self._collection.id, ref.result_set_id)
        return self._sets.result(result_set.id, ref.id) if result_set else None


def _refs(segments: Sequence[Segment]) -> tuple[Ref, ...]:
    return Prompt(segments).refs


LONGEST_NAME = 200
EXAMPLE = "openai/gpt-5-mini"
UNNAMED = "unnamed"


class RequestOptions(RequestValue):
    """The requests for one result set, with the model and the options for sending them.

    Raises `UsageError` if a value is invalid, and `RubricError` if the schema is invalid.
    """

    called: ClassVar[str] = "submit_llm_requests"

    requests: tuple[LLMRequest, ...]
    model: str
    """Model in the form `provider/name`."""
    name: str | None = None
    """Name of the result set; None for a name derived from the requests."""
    exists_ok: bool = False
    """True if requests may be added to a result set that already has different requests."""
    output_schema: dict[str, Any] | None = None
    reasoning_effort: Effort | None = None

    @field_validator("requests")
    @classmethod
    def _some(cls, requests: tuple[LLMRequest, ...]) -> tuple[LLMRequest, ...]:
        if not requests:
            raise UsageError("requests is empty: give at least one LLMRequest")
        return requests

    @field_validator("model")
    @classmethod
    def _of_a_provider(cls, model: str) -> str:
        provider, _, name = model.partition("/")
        if not provider or not name or not model.isprintable() or " " in model:
            raise UsageError(f"model_string {model!r} is not a model: use provider/model, such as {EXAMPLE}")
        return model

    @field_validator("name")
    @classmethod
    def _as_a_path(cls, name: str | None) -> str | None:
        parts = [] if name is None else name.split("/")
        if any(not part.strip() or part != part.strip() or not part.isprintable() for part in parts):
            raise UsageError(
                f"result_set_name {name!r} is not a valid name: use words separated by slashes, such as "
                "failures/causes/v1"
            )
        if name and len(name) > LONGEST_NAME:
            raise UsageError(f"result_set_name has {len(name)} characters; the maximum is {LONGEST_NAME}")
        return name

    @field_validator("output_schema")
    @classmethod
    def _of_an_answer(cls, schema: dict[str, Any] | None) -> dict[str, Any] | None:
        if schema is not None:
            validate_schema(schema, "output_schema")
        return schema


@dataclass(frozen=True)
class SubmissionPlan:
    """The requests of one submission, and which of these requests are new."""

    rows: tuple[Result, ...]
    """One row for each submitted request, in order."""
    new: tuple[Result, ...]
    """The rows that are not in the result set yet."""


def find_result_set(
    sets: "ResultSetStore",
    collection: Collection,
    submission: RequestOptions,
    requests: Sequence[LLMRequest],
    created_at: str,
) -> ResultSet:
    """Return the stored result set, or a new one if it does not exist.

    The id of a new result set is derived from the collection and the name.
    """
    name = submission.name or _derived_name(submission, requests)
    return sets.find(collection.id, name) or ResultSet(
        id=_id("result set", collection.id, name),
        collection_id=collection.id,
        name=name,
        output_schema=submission.output_schema,
        created_at=created_at,
    )


def plan_submission(
    result_set: ResultSet,
    stored_results: Sequence[Result],
    submission: RequestOptions,
    requests: Sequence[LLMRequest],
    created_at: str,
) -> SubmissionPlan:
    """Match the submitted requests with the stored results.

    Raises `UsageError` if the stored answers have a different schema, or if the result set has different requests and
    `exists_ok` is false.
    """
    digests = [_digest(submission, request) for request in requests]
    if stored_results:
        _check_same_requests(result_set, stored_results, submission, digests)
    stored_by_digest = defaultdict[str, list[Result]](list)
    # The results are reversed because `pop` below takes the last element, and equal requests must be matched in their
    # original order.
    for result in reversed(stored_results):
        stored_by_digest[result.request].append(result)
    rows, new = list[Result](), list[Result]()
    for request, digest in zip(requests, digests, strict=True):
        if stored_by_digest[digest]:
            rows.append(stored_by_digest[digest].pop())
            continue
        new.append(_new_result(result_set, len(stored_results) + len(new), request, digest, submission, created_at))
        rows.append(new[-1])
    return SubmissionPlan(rows=tuple(rows), new=tuple(new))


def _check_same_requests(
    result_set: ResultSet, stored_results: Sequence[Result], submission: RequestOptions, digests: Sequence[str]
) -> None:
    if result_set.output_schema != submission.output_schema:
        raise UsageError(
            f"result set {result_set.name!r} has answers with a different output_schema.\n"
            "Use another name for the new set."
        )
    if submission.exists_ok or [result.request for result in stored_results] == list(digests):
        return
    raise UsageError(
        f"result set {result_set.name!r} already has {pluralise(len(stored_results), 'request')}, and the "
        f"{len(digests)} submitted now differ (in prompts, metadata or model).\n"
        "Use another name, or exists_ok=True to add the new requests."
    )


def _new_result(
    result_set: ResultSet, number: int, request: LLMRequest, digest: str, submission: RequestOptions, created_at: str
) -> Result:
    return Result(
        id=_id("result", result_set.id, str(number)),
        result_set_id=result_set.id,
        number=number,
        request=digest,
        prompt=request.prompt.segments,
        user_metadata=request.metadata,
        model=submission.model,
        effort=submission.reasoning_effort,
        created_at=created_at,
    )


def _digest(submission: RequestOptions, request: LLMRequest) -> str:
    return content_id([request, submission.model, submission.reasoning_effort])


def _derived_name(submission: RequestOptions, requests: Sequence[LLMRequest]) -> str:
    """Derive a name from the requests.

    A script that runs again with the same requests gets the same name, so that it continues its result set.
    """
    digest = content_id([[_digest(submission, request) for request in requests], submission.output_schema])
    return f"{UNNAMED}/{digest.removeprefix('sha256:')[:12]}"


def _id(*parts: str) -> str:
    """Derive an id from the parts. The same parts always give the same id."""
    return str(uuid5(NAMESPACE_URL, canonical_json(["evalscribe", *parts])))


MAX_SETS_NAMED = 10


def list_result_sets(
    sets: "ResultSetStore", collection: Collection, prefix: str | None = None
) -> tuple[tuple[ResultSet, ResultCounts], ...]:
    """List the result sets of a collection. With a prefix, list only the sets whose names begin with that folder.

    Names are paths: the prefix `failures` matches `failures` and `failures/v1`, but not `failures-2`.
    """
    result_sets = sets.sets(collection.id)
    if not prefix or not (folder := prefix.rstrip("/")):
        return result_sets
    return tuple(entry for entry in result_sets if entry[0].name == folder or entry[0].name.startswith(f"{folder}/"))


def result_set_named(sets: "ResultSetStore", collection: Collection, name: str) -> ResultSet:
    """Find a result set by name or id.

    Raises `NotFoundError` if it does not exist. The message lists other names, the most similar first.
    """
    if result_set := sets.find(collection.id, name):
        return result_set
    result_sets = {item.id: item for item, _ in sets.sets(collection.id)}
    if id := find_by_prefix("result set", name, result_sets):
        return result_sets[id]
    names = [item.name for item in result_sets.values()]
    similar = [*get_close_matches(name, names, n=3, cutoff=0.5)]
    suggestions = list(dict.fromkeys((*similar, *names)))
    hint = f"result sets: {join_first(suggestions, MAX_SETS_NAMED)}" if names else "it has none yet"
    raise NotFoundError(f"result set {name!r} not found in collection {collection.name!r}; {hint}")


def count_results(sets: "ResultSetStore", result_set: ResultSet) -> ResultCounts:
    return next(
        (counts for other, counts in sets.sets(result_set.collection_id) if other.id == result_set.id), ResultCounts()
    )


def complete_results(
    sets: "ResultSetStore", result_set: ResultSet, *, include_incomplete: bool = False
) -> tuple[Result, ...]:
    """Return the results that have an answer, or all results if `include_incomplete` is true."""
    return tuple(result for result in sets.results(result_set.id) if include_incomplete or result.output is not None)


STAGE = "request"


def _utc_now() -> datetime:
    return datetime.now(UTC)


ShowAnswer = Callable[[Result, bool], None]
"""Receives a result, and a flag that is True if the answer was cached, so that no model was called."""
BeginRequests = Callable[[str, int, int], ShowAnswer]
"""Receives the result set's name, the number of requests that have an answer, and the number of all requests.

Returns the function that receives each answer.
"""


class SubmittedRequests(Frozen):
    """Outcome of one call of `answer_requests`."""

    result_set: ResultSet
    counts: ResultCounts
    sent: int
    """Number of requests that this call sent to the model. The other answers were cached."""
    citations: CitationCounts
    spent: Usage
    """Usage of the model calls that were made by this call."""


async def answer_requests(
    workspace: Workspace,
    models: Models,
    collection: Collection,
    submission: RequestOptions,
    begin: BeginRequests,
    *,
    concurrency: int | None = None,
    clock: Callable[[], datetime] = _utc_now,
) -> SubmittedRequests:
    """Send the requests that have no answer yet. An error about a single request is stored in its result.

    Args:
        workspace: Workspace for results.
        models: Models that answer.
        collection: Collection whose objects the prompts refer to.
        submission: The model and options of the requests.
        begin: Called before the first model call; returns a function that receives each answer.
        concurrency: Maximum number of concurrent requests; None for the configured number.
        clock: Source of the times stored with results.

    Raises:
        UsageError: The submission is invalid; nothing was sent.
        NotFoundError: Prompts refer to missing objects; nothing was sent.
        EvalscribeError: An error affects all requests. Results that were finished before the error are stored.
    """
    sets = workspace.store.results
    model = models.open(submission.model, STAGE)
    questioner = RequestModel(model, workspace.prompts, submission.output_schema, submission.reasoning_effort)
    references = References(workspace.store.runs, sets, collection)
    requests = references.prepare(submission.requests)
    created_at = _timestamp(clock())
    # The id of a result set is derived from its name, so a set can be locked before it exists.
    with sets.lock(find_result_set(sets, collection, submission, requests, created_at).id):
        # Read the set again under the lock, because another process may have created or extended it in the meantime.
        result_set = find_result_set(sets, collection, submission, requests, created_at)
        plan = plan_submission(result_set, sets.results(result_set.id), submission, requests, created_at)
        await references.check((n, row.prompt) for n, row in enumerate(plan.rows) if row.open)
        # All rows are stored before the first call. If the process is killed, the rows without an answer show what is
        # left.
        sets.add(result_set, plan.new)
        show = begin(result_set.name, sum(not row.open for row in plan.rows), len(plan.rows))
        work = _Work(sets, clock, questioner, references, show)
        limit = concurrency or workspace.settings.concurrency.value
        await run_concurrently((row for row in plan.rows if row.open), work.do, limit)
    return work.summary(result_set, tuple(work.done.get(row.id, row) for row in plan.rows))


class _Work:
    """Answers the requests of one call of `answer_requests`."""

    def __init__(
        self,
        sets: "ResultSetStore",
        clock: Callable[[], datetime],
        questioner: RequestModel,
        references: References,
        show: ShowAnswer,
    ) -> None:
        self.done: dict[str, Result] = {}
        self._sets = sets
        self._clock = clock
        self._questioner = questioner
        self._references = references
        self._show = show
        self._sent = 0
        self._spent = Usage()
        self._locks = WeakValueDictionary[str, asyncio.Lock]()
        """Locks, keyed by question.

        If two workers have the same question, the second worker waits for the first worker's answer.
        """

    async def do(self, row: Result) -> None:
        question = RequestPrompt.of(row.prompt, self._references.load(row.prompt))
        request = self._questioner.request(question)
        key = self._questioner.key(request)
        async with self._locks.setdefault(key, asyncio.Lock()):
            cached = self._sets.answered(key)
            if cached:
                result = _with_cached_answer(row, cached, self._questioner.again(cached.output or {}, question))
            else:
                answer = await self._questioner.ask(question, request)
                self._count(answer)
                result = _with_answer(row, key, answer)
            result = result.model_copy(update={"created_at": _timestamp(self._clock())})
            self._sets.put(result)
        self.done[result.id] = result
        self._show(result, cached is not None)
        await asyncio.sleep(0)  # a worker that finds only cached answers would never let signal handlers run

    def summary(self, result_set: ResultSet, results: tuple[Result, ...]) -> SubmittedRequests:
        counts = ResultCounts(
            requests=len(results),
            results=sum(result.output is not None for result in results),
            errors=sum(result.error is not None for result in results),
        )
        citations = sum((result.citations for result in results), CitationCounts())
        return SubmittedRequests(
            result_set=result_set, counts=counts, sent=self._sent, citations=citations, spent=self._spent
        )

    def _count(self, answer: RequestAnswer) -> None:
        self._sent += answer.usage.calls > 0
        self._spent += answer.usage


def _with_answer(row: Result, key: str, answer: RequestAnswer) -> Result:
    return row.model_copy(
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


def _with_cached_answer(row: Result, cached: Result, output: dict[str, object]) -> Result:
    """Copy the answer of a cached result. Its cost is left out so that it is not counted twice."""
    tokens = {name: getattr(cached, name) for name in ("input_tokens", "output_tokens")}
    return row.model_copy(update={"key": cached.key, "output": output, "error": None, "final": False, **tokens})


def _timestamp(time: datetime) -> str:
    return time.isoformat(timespec="milliseconds")
