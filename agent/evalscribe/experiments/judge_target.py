"""Targets that run a judge on items. The judge does not see earlier reports or the runs of other models."""

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
    """Target that judges a failed eval in the same way as `analyze`, but only from the eval's own evidence.

    Stored answers are reused only for the first repetition. Each further repetition needs a new answer.
    """

    first_judge: Judge
    repeat_judge: Judge
    """Judge of the second and any further repetition. Cached answers are ignored."""
    store: "AnalysisStore"

    async def answer(self, call: TargetCall) -> TargetReply | TargetFailure:
        try:
            evidence = EvidenceSnapshot.read(call.input).evidence
        except DataError as error:
            return TargetFailure(reason=str(error))
        return await _timed(call, lambda: self._judge(call, evidence))

    async def _judge(self, call: TargetCall, evidence: Evidence) -> TargetReply | TargetFailure:
        fresh = call.repetition > 1
        judge = self.repeat_judge if fresh else self.first_judge
        # Without a limit here, because `_timed` limits the whole call.
        answer = await classify(case_of(evidence), judge, self.store, JudgingOptions(timeout_s=None, fresh=fresh))
        # Each repetition needs its own answer, so an earlier answer must not replace an answer that failed.
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
    """Target that judges agent runs or failed evals by any rubric. The target's output follows the rubric's schema."""

    first_judge: LoadedJudge
    repeat_judge: LoadedJudge
    """Judge of the second and any further repetition. Cached answers are ignored."""
    is_cached: Callable[[JudgeResult], bool]
    _counted_ids: set[str] = field(default_factory=set)
    """Ids of the results whose usage was already counted in this run. Items with equal inputs share one result."""

    async def answer(self, call: TargetCall) -> TargetReply | TargetFailure:
        try:
            subject = parse_subject(call.input)
        except DataError as error:
            return TargetFailure(reason=one_line(str(error)))
        return await _timed(call, lambda: self._judge(call, subject))

    async def _judge(self, call: TargetCall, subject: LoadedSubject) -> TargetReply | TargetFailure:
        judge = self.repeat_judge if call.repetition > 1 else self.first_judge
        judgment = await judge.judge(subject)
        # The judge of repetitions ignores cached answers, so each of its results has a cost.
        cached = judge is self.first_judge and all(
            self.is_cached(result) or result.id in self._counted_ids for result in judgment.results
        )
        self._counted_ids.update(result.id for result in judgment.results)
        usage = Usage() if cached else judgment.usage
        answer = next((result for result in judgment.results if result.result_type == ResultType.DIRECT_RESULT), None)
        if answer is None:
            reason = next((result.reason for result in judgment.results if result.reason), None)
            return TargetFailure(reason=one_line(reason or "the judge gave no answer"), usage=usage)
        return TargetReply(output=answer.output, usage=usage, model=judge.id)

    async def close(self) -> None:
        return None


def output_of(verdict: Verdict) -> dict[str, JsonValue]:
    """Convert a verdict to a target's output, in the form that scorers read."""
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


def parse_subject(value: JsonValue) -> LoadedSubject:
    """Parse a subject: an evidence snapshot, an agent run, or `{"agent_run": …}`.

    Raises `DataError` for any other value.
    """
    if isinstance(value, Mapping) and "evidence" in value:
        return load_snapshot(value)
    run = value["agent_run"] if isinstance(value, Mapping) and "agent_run" in value else value
    if not isinstance(run, dict):
        raise DataError("the item's input is not an agent run: expected an object with transcripts")
    subject = pending_agent_run(parse_agent_run(run, "input")).load()
    if isinstance(subject, str):
        raise DataError(subject)
    return subject


async def _timed(
    call: TargetCall, judge: Callable[[], Awaitable[TargetReply | TargetFailure]]
) -> TargetReply | TargetFailure:
    start_time = perf_counter()
    try:
        async with asyncio.timeout(call.timeout_s):
            reply = await judge()
    except TimeoutError:
        reply = TargetFailure(kind="timeout", reason=f"no verdict within {call.timeout_s:g} s")
    return reply.model_copy(update={"duration_ms": (perf_counter() - start_time) * 1000})


def judge_target(workspace: Workspace, target: JudgeTarget, models: Models) -> FailureTarget | SubjectTarget:
    """Open a judge of `analyze` or `judge` as the target of an experiment.

    Args:
        workspace: Workspace whose store has cached results.
        target: The judge and the rubric.
        models: Models that the judge calls.

    Raises:
        EvalscribeError: The judge cannot be used, or the rubric does not exist.
    """
    builder = JudgeBuilder(workspace, settings=_settings_with_judge(workspace.settings, target), models=models)
    rubric = builder.rubric(target.rubric)
    if _judges_failures(target, rubric):
        return _failure_target(builder, target, workspace.store.analyses)
    return _subject_target(builder, target, rubric)


def _judges_failures(target: JudgeTarget, rubric: Rubric) -> bool:
    """Return whether `analyze` can use the rubric with this judge for failed evals."""
    return rubric.id == DEFAULT_RUBRIC if target.judge == RULES else _labels_failures(rubric)


def _labels_failures(rubric: Rubric) -> bool:
    """Return whether the rubric's labels are classifications of failed evals."""
    try:
        failure_labels(rubric)
    except UsageError:
        return False
    return True


def cascade_parts(workspace: Workspace, question: Rubric) -> CascadeParts:
    """Build the parts of a cascade from evalscribe.toml. The cascade's rubrics are pinned to their current versions.

    Raises `EvalscribeError` for a tag without a rubric.
    """
    table = workspace.settings.cascade
    tags = FOR_ANALYSES if table.tags is None and _labels_failures(question) else table.issues()
    versions = [(tag, store_rubric(workspace.store.collections, workspace.prompts, tag.rubric)) for tag in tags]
    pinned_tags = tuple(
        tag.model_copy(update={"rubric": f"{tag_rubric.id}@{tag_rubric.version}"}) for tag, tag_rubric in versions
    )
    return CascadeParts(tag=table.tag, judge=table.judge, rules=table.rules, tags=pinned_tags)


def _failure_target(builder: JudgeBuilder, target: JudgeTarget, store: "AnalysisStore") -> FailureTarget:
    models = builder.models(cascade=target.judge == CASCADE)
    # The rules have no rubric.
    rubric = target.rubric if models else None
    first_judge, repeat_judge = (builder.analyst(models, rubric, fresh=fresh).judge for fresh in (False, True))
    return FailureTarget(first_judge, repeat_judge, store)


def _subject_target(builder: JudgeBuilder, target: JudgeTarget, rubric: Rubric) -> SubjectTarget:
    first_judge, repeat_judge = (builder.loaded(rubric, target.judge, fresh=fresh) for fresh in (False, True))
    return SubjectTarget(first_judge, repeat_judge, builder.results.knew)


def _settings_with_judge(settings: Settings, target: JudgeTarget) -> Settings:
    """Return the settings with the experiment's judge instead of the configured judge.

    If the judge is a cascade, the configured cascade is replaced by the parts that the experiment's version records.
    """
    if target.judge == CASCADE:
        # This origin has less trust than the command line, so that the judge named in the cascade below is used.
        no_judge = SettingValue[str | None](value=None, origin=Origin(where="the experiment", trust=0))
        return settings.model_copy(update={"judge": no_judge, "cascade": _table(target.cascade)})
    judge = SettingValue[str | None](value=target.judge, origin=Origin(where="the experiment", trust=COMMAND_LINE))
    return settings.model_copy(update={"judge": judge})


def _table(parts: CascadeParts | None) -> CascadeTable:
    if parts is None:
        raise UsageError(
            "this experiment version does not record the models of its cascade: create a new version with `evalscribe "
            "experiments update EXPERIMENT --judge cascade`"
        )
    tags = {tag.name: TagTable(about=tag.about, rubric=tag.rubric) for tag in parts.tags}
    return CascadeTable(tag=parts.tag, judge=parts.judge, rules=parts.rules, tags=tags)
