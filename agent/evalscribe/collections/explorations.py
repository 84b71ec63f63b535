"""Answer a question about a collection, and write the page.

The answer comes from a model, or without a model from the causes of the failures alone.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from pydantic import ValidationError

from evalscribe.collections import clusters, observations
from evalscribe.collections import clusters as answer
from evalscribe.collections import observations as observing
from evalscribe.collections.clusters import (
    CausedFailure,
    answer_subject,
    build_clusters,
    cluster_observations,
    parse_answer,
    unmentioned_runs,
)
from evalscribe.collections.exploration_page import exploration_page, same_question
from evalscribe.collections.lookup import choose_collection
from evalscribe.collections.observations import ObservedBatch
from evalscribe.collections.query import MOST_ROWS, run_query, select_agent_runs
from evalscribe.collections.runs import load_record
from evalscribe.errors import NotFoundError, UsageError
from evalscribe.evidence.locate import signature
from evalscribe.evidence.log import is_stock, normalise_error
from evalscribe.git.report_folder import ReportsFolder
from evalscribe.ids import Frozen, content_id, model_folder, path_part
from evalscribe.json_data import clean_text
from evalscribe.judging.judges import JudgeMaker
from evalscribe.judging.pack import case_of
from evalscribe.judging.rubric_judge import RecordedResults, RubricJudge
from evalscribe.judging.rules.engine import ID as RULES_ID
from evalscribe.judging.rules.engine import RulesJudge
from evalscribe.judging.verdicts import AnalysisWatcher, main_cause, no_answer_error
from evalscribe.judging.worker_pool import run_concurrently
from evalscribe.model.analysis import FindingSummary
from evalscribe.model.chat import Usage
from evalscribe.model.evidence import Citation
from evalscribe.model.exploration import Cluster, Exploration, Gap, Member, Observation, Passage
from evalscribe.model.finding import NoVerdictCause
from evalscribe.model.protocols import Estimate, Tables
from evalscribe.model.record import Record, evidence_of
from evalscribe.model.result import JudgeResult, ResultType
from evalscribe.redaction.redact import redact
from evalscribe.reports.documents import PlacedDocument, place_document
from evalscribe.settings import RULES
from evalscribe.text import cut, one_line, pluralise, slug
from evalscribe.workspace import Workspace

OWN_PROMPTS = "The model was asked with the workspace's own prompts."
NOT_STORED = "not in the store"

Read = Callable[[Member], Record | None]
Batch = tuple[Member, ...]


@dataclass(frozen=True)
class ExploreJudges:
    """The judges for the steps of an exploration. They use one model and three rubrics."""

    name: str
    """Id of the model."""
    observer: RubricJudge
    clusterer: RubricJudge
    answerer: RubricJudge
    window: int
    """Size of the model's context window in tokens, for prompt and answer together."""
    concurrency: int
    was_cached: Callable[[JudgeResult], bool]
    """Returns True if a result was already cached before this command started."""
    notes: tuple[str, ...] = ()
    """Notes for the user about customised prompts."""


def open_explore_judges(workspace: Workspace, name: str, question: str) -> ExploreJudges:
    """Create one judge for each step of an exploration. All judges use the named model."""
    prompts, models = workspace.prompts, workspace.models
    results = RecordedResults(workspace.store.collections)
    maker = JudgeMaker(models, prompts, results, fresh=workspace.options.fresh)
    steps = {
        "observe": observing.observing_rubric,
        "cluster": observing.clustering_rubric,
        "answer": observing.answering_rubric,
    }
    observer, clusterer, answerer = (
        maker.judge(rubric(prompts, question), models.open(name, step)) for step, rubric in steps.items()
    )
    return ExploreJudges(
        name=name,
        observer=observer,
        clusterer=clusterer,
        answerer=answerer,
        window=models.open(name, "observe").context_tokens,
        concurrency=workspace.settings.concurrency.value,
        was_cached=results.knew,
        notes=(OWN_PROMPTS,) if prompts.overrides(observing.FOLDER) else (),
    )


@dataclass(frozen=True)
class ExplorationPlan:
    """Batches of agent runs to read. Each batch fits into one prompt, and its contents are loaded when it is used."""

    batches: tuple[Batch, ...]
    gaps: tuple[Gap, ...]
    estimate: Estimate
    """Maximum usage of all steps. It is reached if no answer is cached."""

    @property
    def calls(self) -> int:
        """Return the expected number of calls to the model."""
        return len(self.batches) + 2 if self.batches else 0


@dataclass(frozen=True)
class ExplorationAnswer:
    """Result of an exploration by a model or by rules. Its citations have been checked."""

    observations: tuple[Observation, ...]
    unverified: tuple[Observation, ...] = ()
    clusters: tuple[Cluster, ...] = ()
    other: tuple[str, ...] = ()
    answer: str | None = None
    gaps: tuple[Gap, ...] = ()
    notes: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)


async def plan_exploration(judges: ExploreJudges, members: Sequence[Member], read_record: Read) -> ExplorationPlan:
    """Plan the batches and estimate their cost. Every agent run is read, but only one batch is in memory at a time."""
    missing, batches, estimate = list[str](), list[Batch](), Estimate()

    def stored_records() -> Iterator[tuple[Member, Record]]:
        for member in members:
            if (record := read_record(member)) is None:
                missing.append(member.id)
            else:
                yield member, record

    for batch in observing.pack_batches(stored_records(), observing.batch_tokens(judges.window)):
        estimate += judges.observer.estimate(ObservedBatch.of(batch).subject)
        batches.append(tuple(member for member, _ in batch))
        await asyncio.sleep(0)  # there can be thousands of runs, so let signal handlers run
    gaps = (Gap(agent_runs=tuple(missing), reason=NOT_STORED),) if missing else ()
    if batches:
        estimated = clusters.estimate_subject(len(batches))
        estimate += judges.clusterer.estimate(estimated) + judges.answerer.estimate(estimated)
    return ExplorationPlan(tuple(batches), gaps, estimate)


async def explore_by_model(
    judges: ExploreJudges, plan: ExplorationPlan, members: Sequence[Member], read_record: Read, watcher: AnalysisWatcher
) -> ExplorationAnswer:
    """Run every step with the model. Each answer is stored as soon as it arrives, and cached answers are reused.

    Raises:
        EvalscribeError: No agent run could be read, or an error affects all questions.
    """
    observed = await _observe(judges, plan, read_record, watcher)
    clustering = await cluster_observations(
        judges.clusterer.judge, observed.observations, observing.batch_tokens(judges.window), judges.concurrency
    )
    clusters = build_clusters(clustering.clusters, members)
    watcher.say(f"{pluralise(len(observed.observations), 'observation')} in {pluralise(len(clusters), 'cluster')}")
    answer, notes, usage = await _answer_question(judges, clusters, len(members), watcher)
    return ExplorationAnswer(
        observations=observed.observations,
        unverified=observed.unverified,
        clusters=clusters,
        other=tuple(observation.id for observation in clustering.other),
        answer=answer,
        gaps=observed.gaps,
        notes=(*judges.notes, *clustering.notes, *notes),
        usage=observed.usage + clustering.usage + usage,
    )


async def _observe(
    judges: ExploreJudges, plan: ExplorationPlan, read_record: Read, watcher: AnalysisWatcher
) -> ExplorationAnswer:
    outcomes: dict[int, tuple[Observation, ...] | str] = {}
    causes: list[NoVerdictCause] = []
    usage = Usage()

    async def observe(numbered: tuple[int, Batch]) -> None:
        nonlocal usage
        number, batch = numbered
        outcomes[number], result = await _observe_batch(judges, batch, read_record)
        usage += result.usage if result else Usage()
        outcome = outcomes[number]
        if isinstance(outcome, str):
            causes.append(result.failure_cause if result else "evidence")
        text = f"not read: {outcome}" if isinstance(outcome, str) else pluralise(len(outcome), "observation")
        cached_note = "  (cached)" if result and judges.was_cached(result) else ""
        n = f"{len(outcomes):>{len(str(len(plan.batches)))}}/{len(plan.batches)}"
        watcher.say(f"{n}  {pluralise(len(batch), 'agent run')} starting with {batch[0].eval}: {text}{cached_note}")
        await asyncio.sleep(0)  # a worker that finds only cached answers would never let signal handlers run

    await run_concurrently(enumerate(plan.batches), observe, max(1, min(judges.concurrency, len(plan.batches))))
    gaps = (*plan.gaps, *_gaps(plan.batches, outcomes))
    if plan.batches and all(isinstance(outcome, str) for outcome in outcomes.values()):
        cause = main_cause(causes)
        raise no_answer_error(cause, f"no agent run could be read: {gaps[-1].reason}")
    # Use the order of the batches, not the order in which answers arrived. The next questions are then the same each
    # time, and their answers are found in the cache.
    batches = [outcome for _, outcome in sorted(outcomes.items()) if not isinstance(outcome, str)]
    observations, unverified = observing.number_observations(batches)
    return ExplorationAnswer(observations=observations, unverified=unverified, gaps=gaps, usage=usage)


async def _observe_batch(
    judges: ExploreJudges, batch: Batch, read_record: Read
) -> tuple[tuple[Observation, ...] | str, JudgeResult | None]:
    """Return the observations of a batch, or the reason why there are none, together with the judge's result."""
    # Planning has already read these records, but only the batches that are being judged are kept in memory.
    records = [(member, record) for member in batch if (record := read_record(member))]
    if not records:
        return NOT_STORED, None
    observed = ObservedBatch.of(records)
    result = await judges.observer.judge(observed.subject)
    if result.result_type is ResultType.FAILURE:
        return result.reason or "no answer", result
    return observations.parse_observations(result, judges.observer.rubric, observed), result


def _gaps(batches: Sequence[Batch], outcomes: dict[int, tuple[Observation, ...] | str]) -> Iterator[Gap]:
    """Yield one gap for each distinct reason why agent runs could not be read."""
    unread = defaultdict[str, list[str]](list)
    for number, outcome in sorted(outcomes.items()):
        if isinstance(outcome, str):
            unread[outcome] += [member.id for member in batches[number]]
    yield from (Gap(agent_runs=tuple(runs), reason=reason) for reason, runs in unread.items())


async def _answer_question(
    judges: ExploreJudges, clusters: Sequence[Cluster], explored: int, watcher: AnalysisWatcher
) -> tuple[str | None, tuple[str, ...], Usage]:
    """Return the answer to the question, notes and the usage.

    The answer is None if there are no clusters or the model does not answer.
    """
    if not clusters:
        return None, (), Usage()
    subject = answer_subject(clusters, explored)
    result = await judges.answerer.judge(subject)
    if result.result_type is ResultType.FAILURE:
        watcher.say(f"No answer: {result.reason}")
        return None, (f"The question was not answered: {result.reason}",), result.usage
    text, unresolved = parse_answer(result, judges.answerer.rubric, subject)
    notes = (
        f"{pluralise(unresolved, 'citation')} of the answer could not be resolved and "
        f"{'is' if unresolved == 1 else 'are'} left out.",
    )
    return text, notes if unresolved else (), result.usage


LONGEST_PASSAGE = 600
_FINDINGS = """\
SELECT agent_run_id, finding_json FROM findings WHERE cause IS NOT NULL
ORDER BY agent_run_id LIMIT {limit} OFFSET {offset}"""


async def explore_by_rules(
    tables: Tables, collection_id: str, members: Sequence[Member], read_record: Read, watcher: AnalysisWatcher
) -> ExplorationAnswer:
    """Group failed agent runs by cause, and skip agent runs that passed.

    The cause comes from the report on the run to which the agent run belongs. A failure without a cause in a report is
    judged by rules.
    """
    findings = _findings(tables, collection_id)
    failures, missing = list[CausedFailure](), list[str]()
    failed = [member for member in members if member.failed]
    for n, member in enumerate(failed, 1):
        failure = (
            _reported_failure(member, findings[member.id])
            if member.id in findings
            else _judged_failure(member, read_record)
        )
        if failure is None:
            missing.append(member.id)
        else:
            failures.append(failure)
        watcher.fetched(n, len(failed))
        await asyncio.sleep(0)  # there can be thousands of failures, so let signal handlers run
    observations = answer.cause_observations(failures)
    clusters = build_clusters(answer.cluster_by_cause(failures, observations), members)
    clustered = {id for cluster in clusters for id in cluster.observations}
    reported = sum(member.id in findings for member in failed)
    notes = (f"{pluralise(reported, 'failure')} taken from the report of its run.",) if reported else ()
    return ExplorationAnswer(
        observations=observations,
        clusters=clusters,
        other=tuple(observation.id for observation in observations if observation.id not in clustered),
        answer=answer.describe_figures(clusters, len(failed), len(members)),
        gaps=(Gap(agent_runs=tuple(missing), reason=NOT_STORED),) if missing else (),
        notes=notes,
    )


def _findings(tables: Tables, collection_id: str) -> dict[str, FindingSummary]:
    findings: dict[str, FindingSummary] = {}
    offset, more = 0, True
    while more:
        rows = run_query(tables, collection_id, _FINDINGS.format(limit=MOST_ROWS, offset=offset)).rows
        findings |= {str(id): finding for id, value in rows if (finding := _finding(value)) is not None}
        offset += len(rows)
        more = len(rows) == MOST_ROWS
    return findings


def _finding(value: object) -> FindingSummary | None:
    """Parse a stored finding.

    Returns None if the finding was cut or written by another version. Its failure is then judged by rules.
    """
    try:
        return FindingSummary.model_validate(value)
    except ValidationError:
        return None


def _reported_failure(member: Member, finding: FindingSummary) -> CausedFailure:
    error = finding.error or ""
    quoted = [Citation(**citation.model_dump()) for citation in finding.citations]
    return CausedFailure(
        member=member,
        cause=finding.cause or "unnamed",
        kind=finding.cause_kind or "unknown",
        why=finding.reasoning or error,
        error=error,
        signature=None if not error or is_stock(error) else normalise_error(error),
        uncertain=bool(finding.uncertain),
        passages=_passages(member, quoted),
    )


def _judged_failure(member: Member, read_record: Read) -> CausedFailure | None:
    record = read_record(member)
    if record is None:
        return None
    evidence = evidence_of(record)
    case = case_of(evidence)
    verdict = RulesJudge().decide(case)
    located = case.diagnosis.located if case.diagnosis else None
    return CausedFailure(
        member=member,
        cause=verdict.cause,
        kind=verdict.cause_kind,
        why=verdict.why,
        error=verdict.error,
        signature=signature(evidence.eval.failed_step, located),
        uncertain=verdict.uncertain,
        passages=_passages(member, verdict.citations),
    )


def _passages(member: Member, citations: Sequence[Citation]) -> tuple[Passage, ...]:
    """Return the passages of the citations that could be resolved."""
    return tuple(
        Passage(
            agent_run_id=member.id,
            run_id=member.run_id,
            eval=member.eval,
            place=f"{citation.role} {citation.path}:{citation.first}"
            + (f"-{citation.last}" if citation.last > citation.first else ""),
            text=cut(citation.text, LONGEST_PASSAGE),
            status="relocated" if citation.status == "relocated" else "verified",
        )
        for citation in citations
        if citation.status != "unverified"
    )


COLLECTIONS = "collections"
"""Folder for pages that are about agent runs of several models."""
LONGEST_NAME = 50
"""Maximum number of characters of the question in a file name."""


def put_exploration(library: ReportsFolder, exploration: Exploration, text: str) -> PlacedDocument:
    """Write the page into the folder of the model, or into a common folder if several models were explored.

    A question has a separate page for each combination of condition, limit and judge.
    """
    facts = [
        exploration.collection_id,
        exploration.question,
        exploration.where,
        exploration.max_runs,
        exploration.judge,
    ]
    digest = content_id(facts).removeprefix("sha256:")
    stem = f"{_folder(exploration)}/explore_{_name(exploration.question)}_"
    return place_document(
        library, "exploration", stem + digest[:8], stem + digest[:24], text, partial(same_question, text)
    )


def _folder(exploration: Exploration) -> str:
    folders = {model_folder(member.provider, member.model) for member in exploration.members}
    return "/".join(folders.pop()) if len(folders) == 1 else f"{COLLECTIONS}/{path_part(exploration.collection)}"


def _name(question: str) -> str:
    # Keep one extra character, so that the next line does not drop a last word that fits exactly.
    short = slug(question).lower()[: LONGEST_NAME + 1]
    shortened = short if len(short) <= LONGEST_NAME else short.rpartition("-")[0]
    return path_part(shortened or short)


LONGEST_QUESTION = 4000


class ExplorationResult(Frozen):
    """Result of an exploration."""

    exploration: Exploration | None
    """The exploration; None after a dry run."""
    text: str = ""
    """Text of the page about the exploration."""
    put: PlacedDocument | None = None
    estimate: Estimate | None = None
    """Maximum cost of the model calls; None if no model would be called."""


async def explore(
    workspace: Workspace,
    question: str,
    watcher: AnalysisWatcher,
    *,
    collection: str | None = None,
    where: str | None = None,
    max_runs: int | None = None,
    dry_run: bool = False,
    writes: bool = True,
) -> ExplorationResult:
    """Answer one question about many agent runs.

    Args:
        workspace: Workspace for answers and the page; needs `async with`.
        question: The question.
        watcher: Receives progress.
        collection: Name or id of the collection; None for the configured collection, or else the only one.
        where: SQL condition on the table `agent_runs`, or a SELECT that returns the ids of agent runs in a column `id`.
        max_runs: Maximum number of agent runs, taken in order of id.
        dry_run: Only estimate the cost; call no model and write nothing.
        writes: Whether to write the page into the reports folder.

    Raises:
        UsageError: The question or the condition is invalid.
        NotFoundError: No agent run matches.
        EvalscribeError: Nothing could be read, or the exploration failed, for example because the judge is unavailable.
            Answers received by then are stored, and an earlier page is not changed.
    """
    if dry_run:
        workspace.estimate_only()
    name = workspace.settings.judge_name
    if name != RULES:
        # The model is opened here only to report an unknown model or a missing key before agent runs are read.
        workspace.models.open(name, "observe")
        if not dry_run:
            workspace.consent.check(name)
    chosen_collection = choose_collection(workspace, collection)
    question = _question(question)
    matching = select_agent_runs(workspace.tables, chosen_collection.id, where)
    members = matching[:max_runs]
    if not members:
        suffix = " matches the condition" if where else ""
        raise NotFoundError(
            f"no agent run of collection {chosen_collection.name!r}{suffix}: there is nothing to explore"
        )
    watcher.say(f"{pluralise(len(members), 'agent run')} of collection {chosen_collection.name}")

    def read(member: Member) -> Record | None:
        return load_record(workspace.store.runs, workspace.store.analyses, member.run_id, member.id)

    if name == RULES:
        if dry_run:
            return ExplorationResult(exploration=None)
        judge, estimate = RULES_ID, None
        result = await explore_by_rules(workspace.tables, chosen_collection.id, members, read, watcher)
    else:
        judges = open_explore_judges(workspace, name, question)
        plan = await plan_exploration(judges, members, read)
        judge, estimate = judges.name, plan.estimate
        watcher.say(f"{judge} in about {pluralise(plan.calls, 'call')}: {estimate.summary}, less cached answers")
        if dry_run:
            return ExplorationResult(exploration=None, estimate=estimate)
        workspace.consent.require(name, estimate=estimate)
        result = await explore_by_model(judges, plan, members, read, watcher)
    unread = [run for gap in result.gaps for run in gap.agent_runs]
    exploration = Exploration(
        question=question,
        collection=chosen_collection.name,
        collection_id=chosen_collection.id,
        # The page shows the condition, which can contain a secret.
        where=one_line(redact(clean_text(where))) if where else None,
        max_runs=max_runs,
        judge=judge,
        members=tuple(members),
        left_out=len(matching) - len(members),
        answer=result.answer,
        clusters=result.clusters,
        observations=result.observations,
        unverified=result.unverified,
        other=result.other,
        silent=unmentioned_runs(members, result.observations, unread),
        gaps=result.gaps,
        notes=result.notes,
        usage=result.usage,
    )
    text = exploration_page(exploration)
    placed = put_exploration(workspace.reports, exploration, text) if writes else None
    return ExplorationResult(exploration=exploration, text=text, put=placed, estimate=estimate)


def _question(text: str) -> str:
    """Return the question with secrets redacted, because it is stored.

    Raises `UsageError` if the question is empty or too long.
    """
    question = redact(clean_text(text)).strip()
    if not question:
        raise UsageError('missing question: `evalscribe explore "what do the failures have in common?"`')
    if len(question) > LONGEST_QUESTION:
        raise UsageError(f"the question has {len(question)} characters; the maximum is {LONGEST_QUESTION}")
    return question
