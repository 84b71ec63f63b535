"""Judges as targets: they judge what an item holds and nothing else, no earlier reports and no other models' runs."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import get_args

from pydantic import JsonValue

from evalscribe.agent_run.parse import parse_agent_run
from evalscribe.app.judging.judges import Loaded, LoadedJudge
from evalscribe.app.judging.subjects import of_frozen, of_run
from evalscribe.chat import Usage
from evalscribe.classify import Terms, classify
from evalscribe.errors import DataError
from evalscribe.evidence import CitationStatus, Evidence
from evalscribe.finding import Case, Group, Unclassified, Verdict
from evalscribe.frozen_evidence import FrozenEvidence
from evalscribe.gather import pack
from evalscribe.judge_result import JudgeResult, ResultType
from evalscribe.ports import Judge, Store
from evalscribe.prose import one_line
from evalscribe.target import TargetCall, TargetFailed, TargetReply


@dataclass(frozen=True)
class FailureTarget:
    """The judge of an analysis, asked about the evidence alone. What the store knows is not asked again, but for
    repetitions: each of them is an answer of its own."""

    first: Judge
    again: Judge
    """Whom repetitions from the second on are asked of: forgets what was said before."""
    store: Store

    async def answer(self, call: TargetCall) -> TargetReply | TargetFailed:
        try:
            evidence = FrozenEvidence.read(call.input).evidence
        except DataError as error:
            return TargetFailed(reason=str(error))
        return await _timed(call, lambda: self._judged(call, evidence))

    async def _judged(self, call: TargetCall, evidence: Evidence) -> TargetReply | TargetFailed:
        case = Case(evidence=evidence, packed=pack(evidence))
        group = Group(id=evidence.digest, eval_ids=(evidence.eval.id,))
        fresh = call.repetition > 1
        judge = self.again if fresh else self.first
        answer = await classify(group, lambda _: case, judge, self.store, Terms(timeout_s=None, fresh=fresh))
        # Every repetition needs its own answer, so a stored one cannot replace it.
        if answer.cached and answer.undecided is not None:
            return TargetFailed(reason=one_line(answer.undecided.reason), usage=answer.undecided.usage)
        usage = Usage() if answer.cached else answer.verdict.usage
        if isinstance(answer.verdict, Unclassified):
            return TargetFailed(reason=one_line(answer.verdict.reason), usage=usage)
        return TargetReply(output=output_of(answer.verdict), usage=usage, model=answer.verdict.judge)

    async def close(self) -> None:
        return None


@dataclass(frozen=True)
class SubjectTarget:
    """A judge by any rubric, asked about agent runs or failed evals; its output is as the rubric has it."""

    first: LoadedJudge
    again: LoadedJudge
    """Whom repetitions from the second on are asked of: forgets what was said before."""
    knew: Callable[[JudgeResult], bool]
    _told: set[str] = field(default_factory=set)
    """Ids of results that an item of this run paid for: an equal one does not pay again."""

    async def answer(self, call: TargetCall) -> TargetReply | TargetFailed:
        try:
            loaded = subject_in(call.input)
        except DataError as error:
            return TargetFailed(reason=one_line(str(error)))
        return await _timed(call, lambda: self._judged(call, loaded))

    async def _judged(self, call: TargetCall, loaded: Loaded) -> TargetReply | TargetFailed:
        judge = self.again if call.repetition > 1 else self.first
        said = await judge.judge(loaded)
        known = judge is self.first and all(self.knew(one) or one.id in self._told for one in said.results)
        self._told.update(one.id for one in said.results)
        usage = Usage() if known else said.usage
        answered = next((one for one in said.results if one.result_type == ResultType.DIRECT_RESULT), None)
        if answered is None:
            reason = next((one.reason for one in said.results if one.reason), None)
            return TargetFailed(reason=one_line(reason or "the judge gave no answer"), usage=usage)
        return TargetReply(output=answered.output, usage=usage, model=judge.id)

    async def close(self) -> None:
        return None


def output_of(verdict: Verdict) -> dict[str, JsonValue]:
    """What scorers look at."""
    citations = Counter[str](citation.status for citation in verdict.citations)
    return {
        "classification": verdict.classification,
        "cause": verdict.cause,
        "cause_kind": verdict.cause_kind,
        "confidence": verdict.confidence,
        "uncertain": verdict.uncertain,
        "judge": verdict.judge,
        "citations": {status: citations[status] for status in get_args(CitationStatus)},
        "reasoning": verdict.reasoning,
    }


def subject_in(value: JsonValue) -> Loaded:
    """Of frozen evidence, `{"agent_run": …}` or an agent run. Raises `DataError` for anything else."""
    if isinstance(value, Mapping) and "evidence" in value:
        return of_frozen(value)
    run = value["agent_run"] if isinstance(value, Mapping) and "agent_run" in value else value
    if not isinstance(run, dict):
        raise DataError("the item's input is no agent run: it has to be an object with transcripts")
    loaded = of_run(parse_agent_run(run, "input")).load()
    if isinstance(loaded, str):
        raise DataError(loaded)
    return loaded


async def _timed(
    call: TargetCall, judged: Callable[[], Awaitable[TargetReply | TargetFailed]]
) -> TargetReply | TargetFailed:
    began = perf_counter()
    try:
        async with asyncio.timeout(call.timeout_s):
            given = await judged()
    except TimeoutError:
        given = TargetFailed(kind="timeout", reason=f"no verdict within {call.timeout_s:g} s")
    return given.model_copy(update={"duration_ms": (perf_counter() - began) * 1000})
