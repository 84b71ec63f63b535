"""The judge of a rubric: one subject in, one result out, asked for only once."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Protocol
from weakref import WeakValueDictionary

from evalscribe.ids import content_id
from evalscribe.judging.rubric.cited import count
from evalscribe.judging.rubric.hearing import Court, Hearing, taken, whole_request
from evalscribe.judging.rubric.parts import read_by
from evalscribe.judging.rubric.question import tokens_of
from evalscribe.judging.rubric.variants import Decision, reflects
from evalscribe.judging.subject.agent_runs import of_own_run
from evalscribe.judging.subject.item import Subject
from evalscribe.model.chat import Request, Usage
from evalscribe.model.protocols import Estimate, Model
from evalscribe.model.result import JudgeResult, ResultType
from evalscribe.model.rubric import Rubric
from evalscribe.model.transcript import AgentRun
from evalscribe.prompts.templates import Prompts

VERSION = 1
"""Raised when the same question is asked, read or voted upon in another way than its key shows."""
LIKELY_ANSWER = 1_200
"""Tokens of one answer, thinking included."""
TIMEOUT_S = 180.0
"""Of one rollout that waits for no batch."""
MOST_KEPT = 5_000_000
"""Tokens of questions that are kept between an estimate and the call: about 20 MB of text."""
OBSERVED = 10
"""Tokens of a subject beyond the window for each token that is observed in it."""


class Results(Protocol):
    """Where results are kept by the question that they answer; every `Shelf` is one."""

    def put_result(self, key: str, result: JudgeResult) -> None: ...
    def get_result(self, key: str) -> JudgeResult | None: ...


Hear = Callable[[Subject, int, float | None], Awaitable[Decision]]
"""Has a subject decided elsewhere: with the tokens of one answer and the seconds of one rollout."""


class RubricJudge:
    """Applies one rubric with one model."""

    def __init__(
        self,
        rubric: Rubric,
        model: Model,
        *,
        results: Results | None = None,
        observer: Model | None = None,
        cost: Callable[[Usage], float] | None = None,
        timeout_s: float | None = TIMEOUT_S,
        max_tokens: int = 16384,
        fresh: bool = False,
        prompts: Prompts | None = None,
        afar: Hear | None = None,
    ) -> None:
        """`results`: what is known and kept; `fresh`: ask again, whatever is known.

        `observer` reads a subject beyond the window in parts, by the templates of `prompts`; without one the judge
        does. `cost` prices one call in dollars, for estimates; `timeout_s` bounds one rollout, `max_tokens` one answer.
        `afar`: where subjects are heard, if not here.
        """
        self.id = f"{model.id} with {rubric.id}@{rubric.version}"
        self.rubric = rubric
        self._model = model
        self._results = results
        self._court = Court(rubric, model, observer or model, prompts or Prompts())
        self._cost = cost
        self._timeout_s = timeout_s
        self._max_tokens = max_tokens
        self._fresh = fresh
        self._afar = afar
        self._asking = WeakValueDictionary[str, asyncio.Lock]()
        """By key: who asks the same at the same time waits for the answer."""
        self._estimated: dict[str, tuple[Request, int]] = {}
        """Questions that were estimated and not asked yet, with their tokens, by the subject's digest."""
        self._room = MOST_KEPT

    def key(self, subject: Subject) -> str:
        """Content id of the question: rubric, prompt, model, parameters and subject; not of the rubric's id."""
        return self._key(subject, self._request(subject, self._max_tokens))

    def estimate(self, subject: Subject) -> Estimate:
        """What all rollouts are likely to take; a subject beyond the window is read once before them."""
        request = self._request(subject, self._max_tokens)
        whole, answer = tokens_of(request), min(LIKELY_ANSWER, request.max_tokens)
        if whole <= self._room:
            self._estimated[subject.digest] = request, whole
            self._room -= whole
        n, shown = self.rubric.n_rollouts_per_input, min(whole, self._model.context_tokens - request.max_tokens)
        calls = [(shown, answer)] * n
        if reflects(self.rubric):
            calls += [(shown + n * answer, answer)] * n
        if not self._fits(request):
            calls.append((whole, whole // OBSERVED))
        usages = [Usage(calls=1, input_tokens=sent, output_tokens=said) for sent, said in calls]
        return Estimate(
            input_tokens=sum(usage.input_tokens for usage in usages),
            output_tokens=sum(usage.output_tokens for usage in usages),
            cost_usd=sum(map(self._cost, usages)) if self._cost else None,
        )

    async def judge(self, subject: Subject) -> JudgeResult:
        """The known result of the same question, else a new one: a `FAILURE` for what concerns this subject.

        Raises `EvalscribeError` for what concerns all subjects.
        """
        return await self._judge(subject, self._max_tokens, self._timeout_s)

    async def __call__(
        self,
        agent_run: AgentRun | Subject,
        *,
        max_new_tokens: int = 16384,
        timeout: float | None = TIMEOUT_S,  # noqa: ASYNC109
    ) -> JudgeResult:
        """`judge`, with bounds of its own: tokens of one answer, seconds of one rollout."""
        subject = of_own_run(agent_run) if isinstance(agent_run, AgentRun) else agent_run
        return await self._judge(subject, max_new_tokens, timeout)

    async def hear(self, subject: Subject, max_tokens: int, timeout_s: float | None) -> Decision:
        """Ask, whatever is known, and keep nothing."""
        return await self._decide(subject, self._request(subject, max_tokens), timeout_s)

    async def _decide(self, subject: Subject, request: Request, timeout_s: float | None) -> Decision:
        return await Hearing(self._court, subject, request, timeout_s).decide()

    def _request(self, subject: Subject, max_tokens: int) -> Request:
        """Build the question, or take the one that the estimate was made of."""
        request, tokens = self._estimated.pop(subject.digest, (None, 0))
        self._room += tokens
        if request is not None and max_tokens == self._max_tokens:
            return request
        return whole_request(self.rubric, subject, max_tokens, self._model.context_tokens)

    async def _judge(self, subject: Subject, max_tokens: int, timeout_s: float | None) -> JudgeResult:
        request = self._request(subject, max_tokens)
        key = self._key(subject, request)
        async with self._alone(key):
            if known := self._known(key, subject):
                return known
            if self._afar is None:
                decision = await self._decide(subject, request, timeout_s)
            else:
                decision = await self._afar(subject, max_tokens, timeout_s)
            result = self._result(key, decision)
            if self._results is not None and (decision.election or decision.final):
                self._results.put_result(key, result)
            return result

    def _alone(self, key: str) -> AbstractAsyncContextManager[object]:
        """Where an answer would be known, nobody else asks for it meanwhile."""
        if self._results is None or self._fresh:
            return nullcontext()
        return self._asking.setdefault(key, asyncio.Lock())

    def _known(self, key: str, subject: Subject) -> JudgeResult | None:
        """Under the names that ask now: another rubric or subject of the same content may have asked before."""
        known = None if self._results is None or self._fresh else self._results.get_result(key)
        if known is None or self._was_read_otherwise(known):
            return None
        return known.model_copy(update=self._names(subject))

    def _was_read_otherwise(self, known: JudgeResult) -> bool:
        """Of a prompt that the model found too long only when it was asked: the key does not say how it was read."""
        told = (known.result_metadata or {}).get("read_by")
        return told is not None and told != self._read_by()

    def _names(self, subject: Subject) -> dict[str, Any]:
        return {"agent_run_id": subject.id, "rubric_id": self.rubric.id, "rubric_version": self.rubric.version}

    def _result(self, key: str, decision: Decision) -> JudgeResult:
        election = decision.election
        output = (election and election.winner.output) or {}
        return JudgeResult(
            id=content_id([key, decision.metadata]),
            **self._names(decision.subject),
            output=output,
            result_metadata=decision.metadata,
            result_type=ResultType.DIRECT_RESULT if election else ResultType.FAILURE,
            reason=decision.reason,
            citations=count(output, self.rubric.output_schema, decision.subject),
            confidence=election.confidence if election else None,
            judge=self._model.id,
            usage=decision.usage,
        )

    def _key(self, subject: Subject, request: Request) -> str:
        reading = None if self._fits(request) else self._read_by()
        return content_id([VERSION, self.rubric.digest, request, self._model.id, reading, subject.digest])

    def _read_by(self) -> str:
        return read_by(self._court.observer, self._court.prompts)

    def _fits(self, request: Request) -> bool:
        return taken(request) <= self._model.context_tokens
