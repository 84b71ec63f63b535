"""Judge subjects by a rubric. A subject is an agent run, or a failed eval of a run."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

from pydantic import Field

from evalscribe.collections.lookup import choose_collection
from evalscribe.collections.subjects import PendingSubject, ReachedSubject, SubjectFinder, collection_members
from evalscribe.errors import EvalscribeError, NotFoundError
from evalscribe.ids import Frozen
from evalscribe.judging.builder import CASCADE, JudgeBuilder, open_engine_judge
from evalscribe.judging.judges import JudgeOutput, LoadedJudge, LoadedSubject, not_judged
from evalscribe.judging.result_text import headline
from evalscribe.judging.rubric_judge import JudgeResultWithCitations
from evalscribe.judging.rubrics import DEFAULT_COLLECTION, parse_rubric_name
from evalscribe.judging.verdicts import AnalysisWatcher, main_cause, no_answer_error
from evalscribe.judging.worker_pool import run_concurrently
from evalscribe.model.cascade import Stage
from evalscribe.model.chat import Usage
from evalscribe.model.output_schema import agreement_keys
from evalscribe.model.protocols import Estimate
from evalscribe.model.result import CitationCounts, JudgeResult, ResultType
from evalscribe.model.rubric import Rubric
from evalscribe.redaction.redact import redact
from evalscribe.settings import RULES
from evalscribe.text import pluralise
from evalscribe.workspace import Workspace

REASON_LENGTH = 300
BATCH_LANES = 10_000
"""Maximum number of subjects that wait for message batches at the same time. Waiting subjects stay in memory."""
MOST_LOADED = 5_000_000
"""Maximum estimated tokens of the subjects that stay loaded between estimate and judging.

This number of tokens is about 20 MB of text.
"""


class Judgement(JudgeResultWithCitations):
    """A judge's result with resolved citations, and how the result was obtained."""

    stage: Stage = "judge"
    """Stage of the cascade that produced the result. It is always `judge` if the judge is not a cascade."""
    label: dict[str, Any] = Field(default_factory=dict)
    """The boolean and enum fields of the judge's output, which are compared between trials."""
    cached: bool = False
    """True if the result was cached before this command, so that no model was called."""


class Judgements(Frozen):
    """Results of all subjects, in the order of the subjects."""

    results: tuple[Judgement, ...]
    spent: Mapping[str, Usage]
    """Usage of this command, keyed by stage."""

    @property
    def failures(self) -> tuple[Judgement, ...]:
        return tuple(judgement for judgement in self.results if judgement.result_type == ResultType.FAILURE)

    @property
    def citations(self) -> CitationCounts:
        return sum((judgement.citations for judgement in self.results), CitationCounts())

    @property
    def error(self) -> EvalscribeError | None:
        """The error to raise if no subject could be judged; None if at least one was judged."""
        if not self.results or len(self.failures) < len(self.results):
            return None
        cause = main_cause(judgement.failure_cause for judgement in self.failures)
        reason = next(judgement.reason for judgement in self.failures if judgement.failure_cause == cause)
        return no_answer_error(cause, f"nothing could be judged: {reason}; earlier results are not changed")


class JudgedSubjects(Frozen):
    """Results for one subject. A cascade can give several results; any other judge gives one."""

    results: tuple[Judgement, ...]
    usage: Usage = Usage()
    """Usage of all stages. It includes the usage of earlier commands whose results were reused."""


class JudgeOutcome(Frozen):
    """Result of a request to judge."""

    rubric: str
    """Name and version of the rubric, such as `failure@2`."""
    judge: str
    subjects: int
    left_out: int = 0
    """Number of subjects left out because the requested maximum was reached."""
    estimate: Estimate | None = None
    """Estimate of the maximum usage, which occurs if no result is cached. None unless the request was a dry run."""
    judgements: Judgements | None = None
    """Results of the judge; None after a dry run."""
    notes: tuple[str, ...] = ()
    """Notes for the user about the rubrics."""


async def judge(
    workspace: Workspace,
    rubric: str,
    names: Sequence[str],
    watcher: AnalysisWatcher,
    *,
    judge: str | None = None,
    collection: str | None = None,
    where: str | None = None,
    most: int | None = None,
    dry_run: bool = False,
) -> JudgeOutcome:
    """Judge subjects by a rubric.

    Args:
        workspace: Workspace for results; needs `async with`.
        rubric: `NAME`, `NAME@VERSION` or a YAML file.
        names: Files of agent runs, runs, and names of evals. An eval must come after its run. If empty, all agent runs
            of the collection are judged.
        watcher: Receives progress.
        judge: `rules`, `cascade`, `provider/model`, or None for the rubric's own model.
        collection: Name or id of the collection that contains the rubric and the agent runs. If None, the rubric is a
            shared one, and the agent runs are those of the configured or only collection.
        where: SQL condition on the collection's table `agent_runs`. It selects agent runs if `names` is empty.
        most: Maximum number of subjects to judge.
        dry_run: True to only estimate the cost.

    Raises:
        EvalscribeError: A name is unknown, or an error affects all subjects. Results that were finished before
            the error are stored.
    """
    if dry_run:
        workspace.estimate_only()
    async with AsyncExitStack() as stack:
        builder = JudgeBuilder(workspace, await stack.enter_async_context(open_engine_judge(workspace)))
        chosen_rubric = rubric_of(workspace, builder, rubric, collection)
        # Open the judge last, so that a wrong name is reported before a missing key.
        if names:
            available = await SubjectFinder(workspace.store.analyses, ReachedSubject(workspace, stack), watcher).find(
                names
            )
        else:
            available = tuple(collection_members(workspace, collection, where).values())
        chosen_judge = builder.loaded(chosen_rubric, judge, fresh=workspace.options.fresh)
        models = builder.model_names(chosen_rubric, judge)
        if judge not in (None, CASCADE):
            workspace.consent.name(*models)
        if not dry_run:
            workspace.consent.check(*models)
        for note in builder.notes:
            watcher.say(note)
        subjects = available[:most]
        outcome = JudgeOutcome(
            rubric=f"{chosen_rubric.id}@{chosen_rubric.version}",
            judge=chosen_judge.id,
            subjects=len(subjects),
            left_out=len(available) - len(subjects),
            notes=builder.notes,
        )
        estimate = Estimate() if judge == RULES else estimate_judging(chosen_judge, subjects)
        if dry_run:
            return outcome.model_copy(update={"estimate": estimate})
        if estimate.input_tokens:
            count = pluralise(len(subjects), "subject")
            watcher.say(f"{chosen_judge.id} for {count}: {estimate.summary}, less cached answers")
            workspace.consent.require(*models, estimate=estimate)
        was_cached, limit = builder.results.knew, concurrency(workspace)
        results = await judge_all(chosen_judge, subjects, watcher, was_cached=was_cached, concurrency=limit)
        spent = dict(workspace.models.spent())
    return outcome.model_copy(update={"judgements": Judgements(results=results, spent=spent)})


def rubric_of(workspace: Workspace, builder: JudgeBuilder, name: str, collection: str | None) -> Rubric:
    """Find a rubric in the collection by its name or id.

    If the collection has no such rubric, or if `collection` is None, find a shared rubric by its name.
    """
    if collection is None or collection == DEFAULT_COLLECTION:
        return builder.rubric(name)
    chosen_collection = choose_collection(workspace, collection)
    try:
        return workspace.store.collections.rubric(chosen_collection.id, *parse_rubric_name(name))
    except EvalscribeError as error:
        try:
            return builder.rubric(name)
        except NotFoundError as shared:
            # The first error lists the collection's rubrics, which helps only if the collection has any.
            raise error if workspace.store.collections.rubrics(chosen_collection.id) else shared from None


def concurrency(workspace: Workspace) -> int:
    """Return the maximum number of subjects judged at once.

    With message batches, this number includes the subjects that wait for a batch.
    """
    return BATCH_LANES if workspace.options.batch else workspace.settings.concurrency.value


async def judge_all(
    judge: LoadedJudge,
    subjects: Sequence[PendingSubject],
    watcher: AnalysisWatcher,
    *,
    was_cached: Callable[[JudgeResult], bool],
    concurrency: int = 4,
) -> tuple[Judgement, ...]:
    """Judge all subjects concurrently and store each result at once.

    An error about a single subject becomes a `FAILURE` result of that subject. Raises `EvalscribeError` for errors that
    affect all subjects. Results that were finished before the error stay stored.
    """
    results: dict[int, tuple[Judgement, ...]] = {}

    async def judge_one(numbered: tuple[int, PendingSubject]) -> None:
        number, subject = numbered
        results[number] = (await judge_subjects(judge, subject, was_cached)).results
        n = f"{len(results):>{len(str(len(subjects)))}}/{len(subjects)}"
        for result in results[number]:
            watcher.say(f"{n}  {headline(result, result.label)}{'  (cached)' if result.cached else ''}")
        await asyncio.sleep(0)  # a worker that finds only cached answers would never let signal handlers run

    await run_concurrently(enumerate(subjects), judge_one, min(concurrency, len(subjects) or 1))
    return tuple(result for number in sorted(results) for result in results[number])


async def judge_subjects(
    judge: LoadedJudge, subject: PendingSubject, was_cached: Callable[[JudgeResult], bool]
) -> JudgedSubjects:
    """Judge one subject. Only this function converts an unexpected error into a `FAILURE` result of the subject.

    Args:
        was_cached: Returns True if a result was already cached before this command started.
    """
    try:
        loaded = subject.take()
        if isinstance(loaded, str):
            return _failure(judge, subject, loaded)
        return _judged_subjects(await judge.judge(loaded), was_cached)
    except EvalscribeError:
        raise
    # An unexpected error about one subject must not stop the judging of the others.
    except Exception as error:
        message = " ".join(redact(str(error)).split())
        return _failure(judge, subject, f"the judge broke: {type(error).__name__}: {message}"[:REASON_LENGTH])


def estimate_judging(judge: LoadedJudge, subjects: Sequence[PendingSubject]) -> Estimate:
    """Return the maximum usage of judging the subjects. The maximum is reached if no result is cached.

    The first subjects, up to `MOST_LOADED` tokens in total, stay in memory until they are judged.
    """
    total = Estimate()
    for subject in subjects:
        if isinstance(loaded := subject.load(), LoadedSubject):
            total += judge.estimate(loaded)
            if total.input_tokens <= MOST_LOADED:
                subject.keep(loaded)
    return total


def _judged_subjects(output: JudgeOutput, was_cached: Callable[[JudgeResult], bool]) -> JudgedSubjects:
    results = (
        _judgement(result, rubric, output).model_copy(update={"cached": was_cached(result)})
        for result, rubric in zip(output.results, output.rubrics, strict=True)
    )
    return JudgedSubjects(results=tuple(results), usage=output.usage)


def _judgement(result: JudgeResult, rubric: Rubric, output: JudgeOutput) -> Judgement:
    cited = Judgement.from_judge_result(result, rubric.output_schema, output.subject)
    return Judgement(**{**dict(cited), "stage": output.stage, "label": _label(result, rubric)})


def _label(result: JudgeResult, rubric: Rubric) -> dict[str, Any]:
    return {key: result.output[key] for key in agreement_keys(rubric.output_schema) if key in result.output}


def _failure(judge: LoadedJudge, subject: PendingSubject, reason: str) -> JudgedSubjects:
    result = not_judged(subject.name, judge.rubric, judge.id, reason)
    return JudgedSubjects(results=(Judgement(**dict(result)),))
