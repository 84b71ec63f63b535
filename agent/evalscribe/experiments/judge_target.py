"""Targets that run a judge on items; the judge sees neither earlier reports nor other models' runs."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, get_args

from pydantic import JsonValue

from evalscribe.collections.subjects import load_snapshot, pending_agent_run
from evalscribe.errors import DataError, UsageError
from evalscribe.judging.builder import CASCADE, FOR_ANALYSES, JudgeBuilder
from evalscribe.judging.judges import LoadedJudge, LoadedSubject
from evalscribe.judging.pack import case_of
from evalscribe.judging.rubrics import DEFAULT_RUBRIC, failure_labels, store_rubric
from evalscribe.judging.verdicts import JudgingOptions, classify
from evalscribe.model.cascade import CascadeParts
from evalscribe.model.chat import Usage
from evalscribe.model.evidence import CitationStatus, Evidence, EvidenceSnapshot
from evalscribe.model.experiment import JudgeTarget
from evalscribe.model.finding import Unclassified, Verdict
from evalscribe.model.protocols import Judge, Models
from evalscribe.model.result import JudgeResult, ResultType
from evalscribe.model.rubric import Rubric
from evalscribe.model.target import TargetCall, TargetFailure, TargetReply
from evalscribe.model.transcript import parse_agent_run
from evalscribe.settings import RULES, Settings
from evalscribe.settings.config import COMMAND_LINE, CascadeTable, Origin, SettingValue, TagTable
from evalscribe.text import one_line
from evalscribe.workspace import Workspace

if TYPE_CHECKING:
    from evalscribe.store.analyses import AnalysisStore


@dataclass(frozen=True)
class FailureTarget:
    """Target that judges a failed eval like `analyze`, but only by its evidence.

    Only the first repetition reuses stored answers; each further one needs a new answer.
    """

    first: Judge
    again: Judge
    """Judge of the second and further repetitions; it ignores cached answers."""
    store: "AnalysisStore"

    async def answer(self, call: TargetCall) -> TargetReply | TargetFailure:
        try:
            evidence = EvidenceSnapshot.read(call.input).evidence
        except DataError as error:
            return TargetFailure(reason=str(error))
        return await _timed(call, lambda: self._judged(call, evidence))

    async def _judged(self, call: TargetCall, evidence: Evidence) -> TargetReply | TargetFailure:
        fresh = call.repetition > 1
        judge = self.again if fresh else self.first
        answer = await classify(case_of(evidence), judge, self.store, JudgingOptions(timeout_s=None, fresh=fresh))
        # Every repetition needs its own answer, so a stored answer cannot replace a failed one.
        if answer.cached and answer.undecided is not None:
            return TargetFailure(reason=one_line(answer.undecided.reason), usage=answer.undecided.usage)
        usage = Usage() if answer.cached else answer.verdict.usage
        if isinstance(answer.verdict, Unclassified):
            return TargetFailure(reason=one_line(answer.verdict.reason), usage=usage)
        return TargetReply(output=output_of(answer.verdict), usage=usage, model=answer.verdict.judge)

    async def close(self) -> None:
        return None


@dataclass(frozen=True)
class SubjectTarget:
    """Target that judges agent runs or failed evals by any rubric. Its output follows the rubric's schema."""

    first: LoadedJudge
    again: LoadedJudge
    """Judge of the second and further repetitions; it ignores cached answers."""
    knew: Callable[[JudgeResult], bool]
    _told: set[str] = field(default_factory=set)
    """Ids of results whose usage was already counted in this run, because equal items share one answer."""

    async def answer(self, call: TargetCall) -> TargetReply | TargetFailure:
        try:
            loaded = subject_in(call.input)
        except DataError as error:
            return TargetFailure(reason=one_line(str(error)))
        return await _timed(call, lambda: self._judged(call, loaded))

    async def _judged(self, call: TargetCall, loaded: LoadedSubject) -> TargetReply | TargetFailure:
        judge = self.again if call.repetition > 1 else self.first
        said = await judge.judge(loaded)
        known = judge is self.first and all(self.knew(one) or one.id in self._told for one in said.results)
        self._told.update(one.id for one in said.results)
        usage = Usage() if known else said.usage
        answered = next((one for one in said.results if one.result_type == ResultType.DIRECT_RESULT), None)
        if answered is None:
            reason = next((one.reason for one in said.results if one.reason), None)
            return TargetFailure(reason=one_line(reason or "the judge gave no answer"), usage=usage)
        return TargetReply(output=answered.output, usage=usage, model=judge.id)

    async def close(self) -> None:
        return None


def output_of(verdict: Verdict) -> dict[str, JsonValue]:
    """Convert a verdict to a target's output, which scorers read."""
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


def subject_in(value: JsonValue) -> LoadedSubject:
    """Parse a subject: frozen evidence, `{"agent_run": …}` or an agent run. Raises `DataError` for anything else."""
    if isinstance(value, Mapping) and "evidence" in value:
        return load_snapshot(value)
    run = value["agent_run"] if isinstance(value, Mapping) and "agent_run" in value else value
    if not isinstance(run, dict):
        raise DataError("the item's input is not an agent run: expected an object with transcripts")
    loaded = pending_agent_run(parse_agent_run(run, "input")).load()
    if isinstance(loaded, str):
        raise DataError(loaded)
    return loaded


async def _timed(
    call: TargetCall, judged: Callable[[], Awaitable[TargetReply | TargetFailure]]
) -> TargetReply | TargetFailure:
    began = perf_counter()
    try:
        async with asyncio.timeout(call.timeout_s):
            given = await judged()
    except TimeoutError:
        given = TargetFailure(kind="timeout", reason=f"no verdict within {call.timeout_s:g} s")
    return given.model_copy(update={"duration_ms": (perf_counter() - began) * 1000})


def judge_target(workspace: Workspace, target: JudgeTarget, models: Models) -> FailureTarget | SubjectTarget:
    """Open a judge of `analyze` or `judge` as the target of an experiment.

    Args:
        workspace: Workspace whose store has cached results.
        target: The judge and the rubric.
        models: Models that the judge calls.

    Raises:
        EvalscribeError: The judge cannot be used, or the rubric does not exist.
    """
    builder = JudgeBuilder(workspace, settings=_judged_by(workspace.settings, target), models=models)
    rubric = builder.rubric(target.rubric)
    if _judges_failures(target, rubric):
        return _failures(builder, target, workspace.store.analyses)
    return _subjects(builder, target, rubric)


def _judges_failures(target: JudgeTarget, rubric: Rubric) -> bool:
    """Return whether `analyze` uses this rubric for failed evals."""
    return rubric.id == DEFAULT_RUBRIC if target.judge == RULES else _labels_failures(rubric)


def _labels_failures(rubric: Rubric) -> bool:
    """Return whether the rubric classifies failed evals."""
    try:
        failure_labels(rubric)
    except UsageError:
        return False
    return True


def cascade_parts(workspace: Workspace, question: Rubric) -> CascadeParts:
    """Build the parts of a cascade from evalscribe.toml, with its rubrics pinned to their current versions.

    Raises `EvalscribeError` for a tag without a rubric.
    """
    table = workspace.settings.cascade
    tags = FOR_ANALYSES if table.tags is None and _labels_failures(question) else table.issues()
    versions = [(tag, store_rubric(workspace.store.collections, workspace.prompts, tag.rubric)) for tag in tags]
    named = tuple(tag.model_copy(update={"rubric": f"{by.id}@{by.version}"}) for tag, by in versions)
    return CascadeParts(tag=table.tag, judge=table.judge, rules=table.rules, tags=named)


def _failures(builder: JudgeBuilder, target: JudgeTarget, store: "AnalysisStore") -> FailureTarget:
    models = builder.models(cascade=target.judge == CASCADE)
    rubric = target.rubric if models else None
    first, again = (builder.analyst(models, rubric, fresh=fresh).judge for fresh in (False, True))
    return FailureTarget(first, again, store)


def _subjects(builder: JudgeBuilder, target: JudgeTarget, rubric: Rubric) -> SubjectTarget:
    first, again = (builder.loaded(rubric, target.judge, fresh=fresh) for fresh in (False, True))
    return SubjectTarget(first, again, builder.results.knew)


def _judged_by(settings: Settings, target: JudgeTarget) -> Settings:
    """Return the settings with their judge replaced by the experiment's.

    A cascade has the parts that the experiment's version records.
    """
    if target.judge == CASCADE:
        nobody = SettingValue[str | None](value=None, origin=Origin(where="the experiment", trust=0))
        return settings.model_copy(update={"judge": nobody, "cascade": _table(target.cascade)})
    judge = SettingValue[str | None](value=target.judge, origin=Origin(where="the experiment", trust=COMMAND_LINE))
    return settings.model_copy(update={"judge": judge})


def _table(parts: CascadeParts | None) -> CascadeTable:
    if parts is None:
        raise UsageError(
            "this version does not record the models of its cascade: create one that does with `evalscribe "
            "experiments update EXPERIMENT --judge cascade`"
        )
    tags = {tag.name: TagTable(about=tag.about, rubric=tag.rubric) for tag in parts.tags}
    return CascadeTable(tag=parts.tag, judge=parts.judge, rules=parts.rules, tags=tags)
