"""Analyse a run: read its failures, judge them, and write the report."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, closing, nullcontext
from dataclasses import dataclass
from datetime import date as calendar_date

from evalscribe.analysis.estimates import (
    AnalysisPlan,
    AnalysisResult,
    NothingFailed,
    analysis_advice,
    announce_plan,
    describe_saving,
    plan_analysis,
)
from evalscribe.analysis.prepare import (
    PreparedRun,
    Spent,
    judge_queue,
    open_run_source,
    past_reports,
    prepare,
    rules_may_judge,
    usage_by_stage,
    with_context,
)
from evalscribe.analysis.running import AnalysisProgress
from evalscribe.analysis.write import keep_current_verdicts, report_target, undecided_error, write_report
from evalscribe.collections.runs import SAMPLE
from evalscribe.errors import ConsentError
from evalscribe.failures.collate import collate
from evalscribe.git.report_folder import ReportsFolder
from evalscribe.ids import share_field_names
from evalscribe.judging.builder import FailureJudge
from evalscribe.judging.verdicts import AnalysisWatcher, JudgedGroup, JudgeQueue
from evalscribe.model.cascade import CascadeSaving
from evalscribe.model.finding import (
    Collation,
    Correction,
    Finding,
    FollowUp,
    ReplayOptions,
    Verdict,
    by_model,
    undecided,
)
from evalscribe.model.protocols import RunSource
from evalscribe.model.report import Report
from evalscribe.model.run import UNKNOWN, Run
from evalscribe.reports.accuracy import CASCADE, judge_agreement
from evalscribe.reports.history import ReportHistory, follow_up_actions
from evalscribe.reports.outline import compose_report
from evalscribe.sample import earlier_reports
from evalscribe.text import join_first
from evalscribe.workspace import Workspace


async def analyze(
    workspace: Workspace,
    run: str,
    watcher: AnalysisWatcher,
    *,
    rubric: str | None = None,
    cascade: bool = False,
    date: str | None = None,
    dry_run: bool = False,
    writes: bool = True,
    provider: str | None = None,
    model: str | None = None,
    replay: ReplayOptions | None = None,
) -> AnalysisResult | AnalysisPlan | NothingFailed:
    """Judge every failure of a run and write the report.

    Args:
        workspace: Workspace for verdicts and reports; needs `async with`.
        run: Run to analyse: a run id, the first characters of an id, an address, a file of runs, a snapshot folder, or
            `sample`.
        watcher: Receives progress.
        rubric: Rubric for failures, as `NAME` or `NAME@VERSION`; None for the default rubric.
        cascade: Use the rules and a cheap model first, and ask the judge only about failures that remain unsettled.
        date: ISO date of the analysis; None for today.
        dry_run: Return the plan instead of judging.
        writes: Write the report. If False, the report is neither written nor added to the store.
        provider: Provider of the model under test; overrides the provider that the source names.
        model: Name of the model under test; overrides the name that the source gives.
        replay: How to replay the failures before they are judged. If None, no failure is replayed, and only proofs of
            earlier replays are used.

    Returns:
        The result with the report; for a dry run, the plan; for a run without failures, a `NothingFailed`.

    Raises:
        EvalscribeError: The analysis failed as a whole. Verdicts that had already been reached stay in the store.
    """
    if dry_run:
        workspace.estimate_only()
    async with open_analysis(
        workspace,
        run,
        watcher,
        rubric=rubric,
        cascade=cascade,
        date=date,
        writes=writes and not dry_run,
        provider=provider,
        model=model,
        replay=None if dry_run else replay,
    ) as analysis:
        loaded = await analysis.load()
        if not loaded.failures:
            return NothingFailed(run=loaded, message=nothing_failed(loaded))
        if dry_run:
            return plan_analysis(await analysis.prepared())
        from evalscribe.analysis.graph import run_graph  # importing LangGraph takes more than a second

        await run_graph(analysis, loaded.id, workspace.checkpoints)
        return analysis.result


class RunAnalysis:
    """The analysis of one run, as an implementation of `graph.AnalysisStages`.

    Each stage of the analysis is computed only once.
    """

    def __init__(
        self,
        workspace: Workspace,
        analyst: FailureJudge,
        source: RunSource,
        watcher: AnalysisWatcher,
        *,
        date: str | None = None,
        sample: bool = False,
        writes: bool = True,
        rules_instead: bool = False,
        provider: str | None = None,
        model: str | None = None,
        replay: ReplayOptions | None = None,
    ) -> None:
        """Initialise the analysis without reading anything.

        Args:
            workspace: Workspace for verdicts and reports.
            analyst: The judge.
            source: Source of the run.
            watcher: Receives progress.
            date: ISO date of the analysis; None for today.
            sample: Also write the earlier reports that belong to the sample, if `writes` is true.
            writes: Write the report.
            rules_instead: If the user does not consent to calling the model, let the rules judge instead.
            provider: Provider of the model under test; overrides the provider that the source names.
            model: Name of the model under test; overrides the name that the source gives.
            replay: How to replay the failures before they are judged. If None, no failure is replayed, and only proofs
                of earlier replays are used.
        """
        self._workspace = workspace
        self._analyst = analyst
        self._source = source
        self._watcher = watcher
        self._date = date or calendar_date.today().isoformat()
        self._sample = sample
        self._writes = writes
        self._rules_instead = rules_instead
        self._provider = provider
        self._model = model
        self._replay = replay
        self._opened = ExitStack()
        self._progress: AnalysisProgress | None = None
        self._turn = asyncio.Lock()
        self._run: Run | None = None
        self._history: ReportHistory | None = None
        self._prepared: PreparedRun | None = None
        self._queue: JudgeQueue | None = None
        self._collated: CollatedRun | None = None
        self._result: AnalysisResult | None = None

    @property
    def result(self) -> AnalysisResult:
        """The outcome of the analysis, which is only available after `write`."""
        assert self._result is not None, "the report is not written yet"
        return self._result

    def close(self) -> None:
        """Unlock the run, so that other processes can analyse it."""
        # The page in the browser sees by the lock that the analysis is running, so the lock is released last.
        with self._opened:
            if self._progress is not None:
                self._progress.close(done=self._result is not None or self._queue is None)

    def _judged(self, event: JudgedGroup) -> None:
        if self._progress is not None:
            self._progress.judged(event)
        self._watcher.judged(event)

    async def load(self) -> Run:
        """Read the run and store it.

        If the run has failures, other processes cannot analyse it until `close` is called.
        """
        if self._run is None:
            store = self._workspace.store.analyses  # if the store's server is down, fail before writing any report
            if self._sample and self._writes:
                _add_sample_reports(self._workspace.reports)
            run = _renamed(await self._source.run(), self._provider, self._model)
            if run.failures:
                self._watcher.started(run)
                self._opened.enter_context(store.lock(run.id))
            store.put_run(run)
            if run.failures:
                self._progress = AnalysisProgress(store, run)
            for eval in run.failures:
                share_field_names(eval)
            self._run = run
        return self._run

    async def history(self) -> ReportHistory:
        """Read the earlier reports on the model."""
        if self._history is None:
            self._history = await asyncio.to_thread(past_reports, self._workspace, await self.load())
        return self._history

    async def prepared(self) -> PreparedRun:
        """Read the evidence and store the fingerprint of every failure.

        The fingerprints are used to compare the failures with failures of other runs.
        """
        # If a process resumes an analysis after the node `prepare`, all workers call this at once. The evidence must be
        # read only once.
        async with self._turn:
            if self._prepared is None:
                run, past, store = await self.load(), await self.history(), self._workspace.store.analyses
                prepared = await prepare(self._workspace, self._analyst, self._source, run, past, self._watcher)
                if prepared.run != run:
                    store.put_run(prepared.run)
                store.put_sightings(run.id, prepared.fingerprints)
                if self._replay is not None:
                    from evalscribe.analysis.replay import prove_failures  # loads 24 modules that few analyses need

                    failures = prepared.run.failures
                    prepared = await prove_failures(prepared, failures, self._watcher, self._replay)
                self._prepared = prepared
        return self._prepared

    async def prepare(self) -> JudgeQueue:
        """Queue the groups of failures, and announce the cost of judging them."""
        prepared = await self.prepared()
        # Nothing is awaited inside this block, so all workers get the same queue and the user is asked only once.
        if self._queue is None:
            if self._analyst.own_prompts:
                self._watcher.say("The workspace's own prompts are used in place of the shipped ones.")
            self._prepared = announce_plan(prepared, self._watcher, rules_instead=self._rules_instead)
            if self._prepared.analyst != self._analyst:
                self._require_no_model_verdicts(self._prepared)
                self._analyst = self._prepared.analyst
            self._queue = judge_queue(self._prepared, self._judged)
            if self._progress is not None:
                self._progress.judging(self._queue)
        return self._queue

    def _require_no_model_verdicts(self, prepared: PreparedRun) -> None:
        """Raise `ConsentError` if the rules would replace verdicts of a model."""
        verdicts = report_target(self._workspace, prepared.run, self._date).current_verdicts()
        models = {verdict.judge for verdict in verdicts.values() if by_model(verdict.judge)}
        if self._writes and models:
            judges = join_first(sorted(models), 3)
            raise ConsentError(
                f"the report on this run has verdicts of {judges}, which the rules would replace. "
                "Set `yes` to call the model, or set `judge` to `rules` to replace them. Nothing was sent or written.",
                fields=("yes", "judge"),
            )

    async def collate(self) -> tuple[Finding, ...]:
        """Compare the findings with each other and with earlier reports, to find what they have in common.

        Raises:
            EvalscribeError: No failure could be judged. An existing report stays unchanged.
        """
        if self._collated is None:
            queue = await self.prepare()
            await queue.work()  # after a resume, all verdicts might already be in the store
            self._collated = _collate(await self.prepared(), queue, self._date, writes=self._writes)
        return self._collated.findings

    async def write(self) -> str | None:
        """Write the report and keep people's edits in it.

        Returns the report's name, or None if the report is not written.
        """
        await self.collate()
        assert self._collated is not None
        if self._result is None:
            self._result = write_collated(self._collated, self._date, writes=self._writes)
        return self._result.name if self._writes else None


@asynccontextmanager
async def open_analysis(
    workspace: Workspace,
    run: str,
    watcher: AnalysisWatcher,
    *,
    rubric: str | None = None,
    cascade: bool = False,
    date: str | None = None,
    writes: bool = True,
    provider: str | None = None,
    model: str | None = None,
    replay: ReplayOptions | None = None,
) -> AsyncIterator[RunAnalysis]:
    """Open the judge and the run's source, without reading the run.

    The arguments have the same meaning as for `analyze`.
    """
    async with open_run_source(
        workspace,
        run,
        watcher,
        rubric=rubric,
        cascade=cascade,
        provider=provider,
        model=model,
        replays=replay is not None,
    ) as (
        analyst,
        source,
    ):
        analysis = RunAnalysis(
            workspace,
            analyst,
            source,
            watcher,
            date=date,
            sample=run == SAMPLE,
            writes=writes,
            rules_instead=rules_may_judge(workspace, rubric=rubric, cascade=cascade),
            provider=provider,
            model=model,
            replay=replay,
        )
        with closing(analysis):
            yield analysis


def _add_sample_reports(reports: ReportsFolder) -> None:
    """Write the earlier reports that belong to the sample, if they are missing."""
    names = {report.name for report in reports.all()}
    for name, text in earlier_reports():
        if name not in names:
            reports.write(name, text)


def nothing_failed(run: Run) -> str:
    """Describe a run without failures.

    The text says that all evals passed only if the run completed and every eval in it passed.
    """
    if run.all_passed:
        return f"All {run.total} evals passed. Nothing was written."
    so_far = _so_far(run)
    if run.failed:
        return f"The source counts {run.failed} failed evals but lists none of them ({so_far}). Nothing was written."
    state = f"{_STATES[run.status]}: {run.status_reason}" if run.status_reason else _STATES[run.status]
    return f"{state.rstrip('.')}. No failed eval is listed ({so_far}). Nothing was written."


_STATES = {
    "completed": "The run is completed",
    "failed": "The run did not complete",
    "running": "The run has not ended",
    "unknown": "It is not known whether the run has completed",
    "importing": "Only a part of the run was imported",
}


def _so_far(run: Run) -> str:
    """Describe how many evals have passed so far.

    In an unfinished run, the total only includes evals that have been started.
    """
    if not run.total:
        return "no eval was started"
    of = f"{run.total} evals" if run.status == "completed" else f"the {run.total} evals that were started"
    unfinished = "have not ended" if run.status == "running" else "never completed"
    return f"{run.passed} of {of} passed" + (f", {run.incomplete} {unfinished}" if run.incomplete else "")


def _renamed(run: Run, provider: str | None, model: str | None) -> Run:
    before, slash, after = (model or "").partition("/")
    # A model given as `vendor/name` also names the provider, unless the source names another one.
    if slash and after and not provider and run.provider in (UNKNOWN, before):
        provider, model = before, after
    changes = {"provider": provider, "model": model}
    return run.model_copy(update={name: value for name, value in changes.items() if value})


@dataclass(frozen=True)
class CollatedRun:
    """The findings of a run with the patterns among them, ready to be merged with the existing report."""

    prepared: PreparedRun
    findings: tuple[Finding, ...]
    collation: Collation
    """Patterns and recommendations that follow from the judge's verdicts alone, before people's corrections in the
    existing report are applied.
    """
    follow_ups: tuple[FollowUp, ...]
    spent: Spent
    saving: CascadeSaving | None
    """What the cascade cost, and what it saved compared with using only its expensive judge. None without a cascade."""
    with_earlier_verdict: tuple[str, ...]
    """Paths of the evals that keep an earlier verdict because the judge reached no verdict this time."""


def _collate(prepared: PreparedRun, queue: JudgeQueue, date: str, *, writes: bool) -> CollatedRun:
    findings = with_context(prepared, queue.findings())
    costs = usage_by_stage(prepared, queue.usage)
    place = report_target(prepared.workspace, prepared.run, date)
    overwrites = writes and place.where.current is not None
    error = undecided_error(prepared.run, queue, costs)
    # If the judge decided nothing, a report in which everything is unclassified would replace a good one.
    if error and (overwrites or not any(finding.judged for finding in findings)):
        raise error
    return collate_findings(prepared, findings, place.current_verdicts(), costs, date)


def collate_findings(
    prepared: PreparedRun, findings: tuple[Finding, ...], current: Mapping[str, Verdict], costs: Spent, date: str
) -> CollatedRun:
    """Find patterns and recommendations, follow up on earlier actions, and compute what a cascade saved.

    If a finding has no verdict, the verdict in the existing report is used, if that report has one. `current` maps eval
    paths to the verdicts in the existing report.
    """
    workspace, past = prepared.workspace, prepared.history
    missing = [finding for finding in findings if undecided(finding.verdict) is not None]
    completed = keep_current_verdicts(findings, current)
    follow_ups = follow_up_actions(
        workspace.store.analyses, workspace.reports, prepared.run, date, past, completed, prepared.fingerprints
    )
    return CollatedRun(
        prepared=prepared,
        findings=completed,
        collation=_collation(prepared, completed, follow_ups),
        follow_ups=follow_ups,
        spent=costs,
        saving=describe_saving(prepared, findings),
        with_earlier_verdict=tuple(path for finding in missing for path in finding.paths if path in current),
    )


def _collation(
    prepared: PreparedRun,
    findings: Sequence[Finding],
    follow_ups: tuple[FollowUp, ...],
    corrections: Mapping[str, Correction] | None = None,
) -> Collation:
    past = prepared.history
    newest = past.reports[0].name if past.reports else None
    return collate(prepared.run, findings, past.precedents, newest, corrections, follow_ups)


def write_collated(
    collated: CollatedRun, date: str, *, writes: bool, judges: tuple[str, ...] | None = None
) -> AnalysisResult:
    """Compose and write the report.

    `judges` are the ids of the judges that the report should name; by default, the judges of this analysis. The
    report also names the judges of its findings, even if they are not in `judges`.
    """
    prepared, findings = collated.prepared, collated.findings
    analyst, past = prepared.analyst, prepared.history
    judge_ids = analyst.judges if judges is None else judges
    judges = tuple(dict.fromkeys([*judge_ids, *(f.judged.judge for f in findings if f.judged)]))

    measured = [*judges, *(CASCADE for f in findings if f.judged and f.judged.stage)]
    workspace = prepared.workspace
    agreement = judge_agreement(workspace.reports, workspace.store.analyses)

    def composed(corrections: Mapping[str, Correction]) -> tuple[Report, Collation]:
        collation = collated.collation
        if corrections:
            collation = _collation(prepared, findings, collated.follow_ups, corrections)
        report = compose_report(
            prepared.run,
            collation,
            judges=judges,
            date=date,
            evidence=prepared.digests,
            earlier=[report.name for report in past.reports],
            own_prompts=analyst.own_prompts,
            cascade=collated.saving,
            agreement=[row for row in agreement if row.judge in measured],
            page_url=workspace.settings.page_url.value,
        )
        return report, collation

    with workspace.reports.locked() if writes else nullcontext():
        # Read the existing report again, because a reviewer might have changed it while the findings were collated.
        target = report_target(workspace, prepared.run, date)
        done = write_report(workspace, prepared.run, target, composed, collated.spent, writes=writes)
    unsure = {path for entry in done.report.entries if entry.uncertain for path in entry.paths}
    kept_note = (
        (f"not judged this time, earlier verdict kept: {join_first(collated.with_earlier_verdict, 5)}",)
        if collated.with_earlier_verdict
        else ()
    )
    return done.model_copy(
        update={
            "notes": (*analyst.notes, *past.notes, *done.notes, *kept_note),
            "uncertain": tuple(eval.path for eval in prepared.run.failures if eval.path in unsure),
            "unclassified": tuple(path for finding in findings if finding.judged is None for path in finding.paths),
            "advice": analysis_advice(
                prepared, [finding for finding in findings if unsure.intersection(finding.paths)]
            ),
        }
    )
