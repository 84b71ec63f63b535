"""Judge a subject by a rubric. Return the stored result, or ask a model and resolve the citations of its answer."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from evalscribe.ids import content_id
from evalscribe.judging.citations import resolve_citations, resolve_output
from evalscribe.judging.long_subjects import SubjectReading, reader_digest
from evalscribe.judging.rollout import (
    PanelDecision,
    RolloutPanel,
    as_seen_by_judge,
    build_request,
    decide,
    has_reflection,
    no_decision,
    prompt_tokens,
)
from evalscribe.judging.subjects import Subject, redacted_run_subject
from evalscribe.model.chat import CallFailed, Request, Usage
from evalscribe.model.output_schema import cited_strings
from evalscribe.model.protocols import Estimate, Model
from evalscribe.model.result import CitationCounts, JudgeResult, ResultType
from evalscribe.model.rubric import Rubric
from evalscribe.model.transcript import AgentRun
from evalscribe.prompts.templates import Prompts

if TYPE_CHECKING:
    from evalscribe.store.collections import CollectionStore


def count_citations(output: dict[str, Any], schema: dict[str, Any], subject: Subject) -> CitationCounts:
    """Count the verified, relocated and unverified citations of an answer."""
    texts = (text for _, text in cited_strings(output, schema))
    counts = Counter(citation.status for text in texts for citation in resolve_citations(text, subject).citations)
    return CitationCounts(verified=counts["verified"], relocated=counts["relocated"], unverified=counts["unverified"])


class JudgeResultWithCitations(JudgeResult):
    """A result with resolved citations.

    Each string that can contain citations is replaced by `{"text": …, "citations": [{start_idx, end_idx, quote, status,
    target}]}`.
    """

    @classmethod
    def from_judge_result(
        cls, result: JudgeResult, schema: dict[str, Any], subject: AgentRun | Subject
    ) -> "JudgeResultWithCitations":
        """Resolve the citations of a result.

        `subject`: the judged run, or the judged `Subject` if the judge also saw earlier results.
        """
        judged_subject = as_seen_by_judge(
            redacted_run_subject(subject) if isinstance(subject, AgentRun) else subject, result
        )
        fields = {name: getattr(result, name) for name in JudgeResult.model_fields}
        return cls(**{**fields, "output": resolve_output(result.output, schema, judged_subject)})


ANSWER_SHARE = 0.5
"""Maximum share of a context window for the answer."""
LEAST_ROOM = 1_000
"""Minimum tokens that must remain for observations about a subject. If fewer remain, the subject is not judged."""
LEAST_WINDOW = 2_000
"""Minimum tokens for question and answer.

If a question was too long for the model, the question is shortened and asked again, as long as at least
`LEAST_WINDOW` tokens remain.
"""
NO_ROOM = "the rubric leaves no room for a subject in the model's window"


def whole_request(rubric: Rubric, subject: Subject, max_tokens: int, window: int) -> Request:
    """Return the request that shows the whole subject, even if the request exceeds the context window.

    `window`: context window of the model in tokens.
    """
    return build_request(rubric, subject, min(max_tokens, int(ANSWER_SHARE * window)))


def request_tokens(request: Request) -> int:
    """Return the estimated tokens of the prompt plus the maximum tokens of the answer."""
    return prompt_tokens(request) + request.max_tokens


@dataclass(frozen=True)
class JudgeSetup:
    """The rubric, the models and the prompts of a judge."""

    rubric: Rubric
    model: Model
    observer: Model
    """Model that reads subjects in parts if they are too long for `model`."""
    prompts: Prompts


class SubjectSession:
    """Judges one subject. Each instance is used only once."""

    def __init__(self, setup: JudgeSetup, subject: Subject, full_request: Request, timeout_s: float | None) -> None:
        """Prepare the session.

        `full_request` is the request with the whole subject; `timeout_s` is the time limit of one rollout in seconds.
        """
        self._setup = setup
        self._subject = subject
        self._full_request = full_request
        self._timeout_s = timeout_s
        self._reading: SubjectReading | None = None

    async def decide(self) -> PanelDecision:
        """Judge the subject. Raises `EvalscribeError` for errors that affect all subjects."""
        usage, decision, window = Usage(), None, self._setup.model.context_tokens
        while decision is None or (decision.too_long and window >= LEAST_WINDOW):
            try:
                request = await self._request(window)
            except CallFailed as error:
                decision = no_decision(self._subject, error.reason)
                break
            if request is None:
                decision = decision or no_decision(self._subject, NO_ROOM, final=True)
                break
            panel = RolloutPanel(self._setup.model, self._setup.rubric, self._subject, request, self._timeout_s)
            decision = await decide(panel)
            # If this prompt was too long, the window is smaller than stated. The next prompt is half as long.
            usage, window = usage + decision.usage, request_tokens(request) // 2
        return self._with_reading(decision, usage)

    async def _request(self, window: int) -> Request | None:
        """Return a request that fits in the context window; None if not even a condensed subject would fit.

        Raises `CallFailed` if reading the subject in parts fails.
        """
        longest = min(self._full_request.max_tokens, int(ANSWER_SHARE * window))
        request = self._full_request.model_copy(update={"max_tokens": longest})
        if request_tokens(request) <= window:
            return request
        room = window - request_tokens(self._request_with_text(request, ""))
        if room < LEAST_ROOM:
            return None
        observed = await self._open_reading(window).condensed(room)
        return self._request_with_text(request, observed.subject.text())

    def _request_with_text(self, request: Request, text: str) -> Request:
        return build_request(self._setup.rubric, self._subject, request.max_tokens, subject_text=text)

    def _open_reading(self, window: int) -> SubjectReading:
        """Return the reading of the subject.

        The reading is created only once, so shorter prompts use the same observations.
        """
        if self._reading is None:
            setup = self._setup
            same_model = setup.observer.id == setup.model.id
            # `window` might have been reduced for the judge's model. A different reader model has its own window.
            self._reading = SubjectReading(
                self._subject, setup.rubric, setup.observer, setup.prompts, window=window if same_model else None
            )
        return self._reading

    def _with_reading(self, decision: PanelDecision, usage: Usage) -> PanelDecision:
        """Add the total usage to the decision and, if the subject was read in parts, a description of the reading."""
        if self._reading is None:
            return decision.model_copy(update={"usage": usage})
        metadata = {**decision.metadata, **self._reading.metadata}
        return decision.model_copy(update={"metadata": metadata, "usage": usage + self._reading.usage})


VERSION = 1
"""Version number that is part of the key of every result.

Increase it by hand when questions, parsing or voting change.
"""
LIKELY_ANSWER = 1_200
"""Expected number of tokens of one answer, including thinking."""
TIMEOUT_S = 180.0
"""Time limit of one rollout in seconds. Batches have no time limit."""
MOST_KEPT = 5_000_000
"""Maximum total tokens (about 20 MB) of the questions that are kept in memory between estimate and call."""
OBSERVED = 10
"""Expected ratio of a long subject's tokens to the tokens of its observations."""


class RecordedResults:
    """Stores judge results, and records which results are new."""

    def __init__(self, results: "CollectionStore") -> None:
        self._results = results
        self._read_ids: set[str] = set()
        self._stored_ids: set[str] = set()

    def put_result(self, key: str, result: JudgeResult) -> None:
        """Store a result immediately."""
        self._results.put_result(key, result)
        self._stored_ids.add(result.id)

    def get_result(self, key: str) -> JudgeResult | None:
        result = self._results.get_result(key)
        if result is not None:
            self._read_ids.add(result.id)
        return result

    def knew(self, result: JudgeResult) -> bool:
        return result.id in self._read_ids and result.id not in self._stored_ids


DecideRemotely = Callable[[Subject, int, float | None], Awaitable[PanelDecision]]
"""Function that lets a worker judge a subject.

The arguments are the subject, the maximum tokens of an answer, and the time limit of one rollout in seconds.
"""


class RubricJudge:
    """Judges subjects with one rubric and one model."""

    def __init__(
        self,
        rubric: Rubric,
        model: Model,
        *,
        results: "CollectionStore | RecordedResults | None" = None,
        observer: Model | None = None,
        cost: Callable[[Usage], float] | None = None,
        timeout_s: float | None = TIMEOUT_S,
        max_tokens: int = 16384,
        fresh: bool = False,
        prompts: Prompts | None = None,
        remote: DecideRemotely | None = None,
    ) -> None:
        """Initialise the judge without asking a model.

        Args:
            rubric: The rubric to judge by.
            model: The model to ask.
            results: Store of results; None to store nothing.
            observer: Model that reads subjects in parts if they are too long; None to use `model`.
            cost: Function that returns the price of one call in US dollars, for estimates.
            timeout_s: Time limit of one rollout in seconds.
            max_tokens: Maximum tokens of one answer.
            fresh: Ignore stored results.
            prompts: Templates for reading subjects in parts.
            remote: Function that lets a worker judge subjects; None to judge in this process.
        """
        self.id = f"{model.id} with {rubric.id}@{rubric.version}"
        self.rubric = rubric
        self._model = model
        self._results = results
        self._setup = JudgeSetup(rubric, model, observer or model, prompts or Prompts())
        self._cost = cost
        self._timeout_s = timeout_s
        self._max_tokens = max_tokens
        self._fresh = fresh
        self._remote = remote
        self._locks = WeakValueDictionary[str, asyncio.Lock]()
        """Locks by key of the question. Concurrent callers with the same question wait for a single answer."""
        self._estimated: dict[str, tuple[Request, int]] = {}
        """Questions that were estimated but not asked yet, each with its number of tokens, by digest of the subject."""
        self._room = MOST_KEPT

    def key(self, subject: Subject) -> str:
        """Return the content id of the question: rubric (without its id), prompt, model, parameters and subject."""
        return self._key(subject, self._request(subject, self._max_tokens))

    def estimate(self, subject: Subject) -> Estimate:
        """Estimate the usage of all rollouts.

        If the subject exceeds the context window, the estimate includes the usage of reading the subject once in parts.
        """
        request = self._request(subject, self._max_tokens)
        tokens, answer = prompt_tokens(request), min(LIKELY_ANSWER, request.max_tokens)
        if tokens <= self._room:
            self._estimated[subject.digest] = request, tokens
            self._room -= tokens
        n, shown_tokens = self.rubric.n_rollouts_per_input, min(tokens, self._model.context_tokens - request.max_tokens)
        calls = [(shown_tokens, answer)] * n
        if has_reflection(self.rubric):
            calls += [(shown_tokens + n * answer, answer)] * n
        if not self._fits(request):
            calls.append((tokens, tokens // OBSERVED))
        usages = [
            Usage(calls=1, input_tokens=input_tokens, output_tokens=output_tokens)
            for input_tokens, output_tokens in calls
        ]
        return Estimate(
            input_tokens=sum(usage.input_tokens for usage in usages),
            output_tokens=sum(usage.output_tokens for usage in usages),
            cost_usd=sum(map(self._cost, usages)) if self._cost else None,
        )

    async def judge(self, subject: Subject) -> JudgeResult:
        """Return the stored result of the same question. If no result is stored, judge the subject.

        If the subject cannot be judged, the result has the type `FAILURE`.

        Raises `EvalscribeError` for errors that affect all subjects.
        """
        return await self._judge(subject, self._max_tokens, self._timeout_s)

    async def __call__(
        self,
        agent_run: AgentRun | Subject,
        *,
        max_new_tokens: int = 16384,
        timeout: float | None = TIMEOUT_S,  # noqa: ASYNC109
    ) -> JudgeResult:
        """Judge a run or a subject like `judge`, with different limits.

        `max_new_tokens`: maximum tokens of one answer. `timeout`: time limit of one rollout in seconds.
        """
        subject = redacted_run_subject(agent_run) if isinstance(agent_run, AgentRun) else agent_run
        return await self._judge(subject, max_new_tokens, timeout)

    async def panel_decision(self, subject: Subject, max_tokens: int, timeout_s: float | None) -> PanelDecision:
        """Judge the subject without reading or storing results."""
        return await self._decide(subject, self._request(subject, max_tokens), timeout_s)

    async def _decide(self, subject: Subject, request: Request, timeout_s: float | None) -> PanelDecision:
        return await SubjectSession(self._setup, subject, request, timeout_s).decide()

    def _request(self, subject: Subject, max_tokens: int) -> Request:
        """Return the request that was built for the estimate. If no request was built, build a new request."""
        request, tokens = self._estimated.pop(subject.digest, (None, 0))
        self._room += tokens
        if request is not None and max_tokens == self._max_tokens:
            return request
        return whole_request(self.rubric, subject, max_tokens, self._model.context_tokens)

    async def _judge(self, subject: Subject, max_tokens: int, timeout_s: float | None) -> JudgeResult:
        request = self._request(subject, max_tokens)
        key = self._key(subject, request)
        async with self._question_lock(key):
            if stored := self._stored_result(key, subject):
                return stored
            if self._remote is None:
                decision = await self._decide(subject, request, timeout_s)
            else:
                decision = await self._remote(subject, max_tokens, timeout_s)
            result = self._result(key, decision)
            # A failure that might not occur again is not stored, so that the question is asked again.
            if self._results is not None and (decision.election or decision.final):
                self._results.put_result(key, result)
            return result

    def _question_lock(self, key: str) -> AbstractAsyncContextManager[object]:
        """Return a lock on the question.

        If stored results are not used, return a context manager that does nothing.
        """
        if self._results is None or self._fresh:
            return nullcontext()
        return self._locks.setdefault(key, asyncio.Lock())

    def _stored_result(self, key: str, subject: Subject) -> JudgeResult | None:
        """Return the stored result of a question, with the ids of this rubric and this subject.

        These ids replace the stored ids, because a rubric or a subject with the same content can have a different id.
        """
        stored = None if self._results is None or self._fresh else self._results.get_result(key)
        if stored is None or self._has_other_reader(stored):
            return None
        return stored.model_copy(update=self._names(subject))

    def _has_other_reader(self, stored: JudgeResult) -> bool:
        """Return whether a stored result's subject was read in parts by a different model or with different templates.

        The key of a result depends on the reader model and templates only if the subject was expected to be too long.
        """
        reader = (stored.result_metadata or {}).get("read_by")
        return reader is not None and reader != self._reader_id()

    def _names(self, subject: Subject) -> dict[str, Any]:
        return {"agent_run_id": subject.id, "rubric_id": self.rubric.id, "rubric_version": self.rubric.version}

    def _result(self, key: str, decision: PanelDecision) -> JudgeResult:
        election = decision.election
        output = (election and election.winner.output) or {}
        return JudgeResult(
            id=content_id([key, decision.metadata]),
            **self._names(decision.subject),
            output=output,
            result_metadata=decision.metadata,
            result_type=ResultType.DIRECT_RESULT if election else ResultType.FAILURE,
            reason=decision.reason,
            citations=count_citations(output, self.rubric.output_schema, decision.subject),
            confidence=election.confidence if election else None,
            judge=self._model.id,
            usage=decision.usage,
        )

    def _key(self, subject: Subject, request: Request) -> str:
        reading = None if self._fits(request) else self._reader_id()
        return content_id([VERSION, self.rubric.digest, request, self._model.id, reading, subject.digest])

    def _reader_id(self) -> str:
        return reader_digest(self._setup.observer, self._setup.prompts)

    def _fits(self, request: Request) -> bool:
        return request_tokens(request) <= self._model.context_tokens
