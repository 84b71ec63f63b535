"""MCP tools that start, read, compare and cancel runs of experiments."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Annotated, Literal

from mcp.server.mcpserver import Context
from pydantic import Field, JsonValue

from evalscribe.errors import NotFoundError, UsageError
from evalscribe.experiments.compare import compare_runs
from evalscribe.experiments.control import (
    PlannedRun,
    cancel_run,
    launch_notes,
    launch_run,
    plan_run,
    resume_run,
    start_run,
    wait_for_run,
)
from evalscribe.experiments.gate import headline
from evalscribe.experiments.lookup import experiment_named, experiment_of, run_named, version_of_run
from evalscribe.experiments.results import TrialPage, called_models, dataset_line, report_run, target_line, trial_page
from evalscribe.experiments.run_text import explains_failure, word
from evalscribe.experiments.sample import create_sample
from evalscribe.experiments.scorers.stored import own_prompts
from evalscribe.ids import Frozen
from evalscribe.mcp import tool
from evalscribe.mcp.context import NO_EXPERIMENT, SAMPLE, ServerWorkspace
from evalscribe.mcp.progress import ProgressReporter, run_in_thread, with_progress
from evalscribe.mcp.tool import NOTICE, excerpt, first_fitting, replace_commands, require_within
from evalscribe.model.comparison import RunComparison
from evalscribe.model.experiment import (
    Experiment,
    ExperimentRun,
    ExperimentVersion,
    Gate,
    ItemVerdict,
    RunReport,
    RunSummary,
    TrialCounts,
    TrialDetail,
)
from evalscribe.model.score import Score
from evalscribe.settings import Options
from evalscribe.text import pluralise
from evalscribe.workspace import Workspace

MOST_CHARACTERS = 40_000
"""Maximum total number of characters of the trials in one answer."""
MOST_OF_CHANGES = {"regressed": 16_000, "fixed": 8_000, "flaky": 6_000}
"""Maximum total number of characters of the changed items in one answer, keyed by kind of change."""
MOST_NAMED = 50
Wanted = Literal["not passed", "failed", "error", "unscored", "all"]


class ScoreLine(Frozen):
    id: str
    scorer: str
    required: bool
    result: str
    """Result of the scorer: `passed`, `failed`, `broke` or `abstained`."""
    value: float | None
    label: str | None
    explanation: str
    rests_on: str | None = None
    """Evidence on which the explanation is based; cut if it is long. Null if the score passed."""


class TryLine(Frozen):
    """One trial of an item. Long texts are cut; the tool get_eval returns them in full."""

    item: str
    repetition: int
    eval_id: str | None
    """Id of the trial, for the tool get_eval, which returns its log and every message."""
    split: str | None
    verdict: str
    error: str | None
    """Reason why the target gave no answer; null if it gave one."""
    input: str
    expected_output: str | None
    output: str | None
    scores: tuple[ScoreLine, ...]


class ExperimentRunDetails(Frozen):
    summary: RunSummary | None
    """Summary of the run. Null on all pages but the first, and if the call had the argument `item`."""
    gate: Gate | None
    """The result of the gate.

    Null before the run has ended, on all pages but the first, and if the call had the argument `item`.
    """
    message: str
    """Text that states the status of the run and what to do next."""
    tries: tuple[TryLine, ...]
    tries_total: int
    """Total number of listed trials, on all pages."""
    next_offset: int | None
    notes: tuple[str, ...] = ()
    notice: str = NOTICE.replace("`text`", "What `tries` quote")


class ComparedExperimentRuns(RunComparison):
    left_out: dict[str, int] = Field(default_factory=dict)
    """Number of changed items that did not fit into the answer, keyed by kind of change."""
    notice: str = NOTICE.replace("`text`", "What changed items quote")


@dataclass(frozen=True)
class ExperimentRunTools:
    server_workspace: ServerWorkspace

    async def get_experiment_run(
        self,
        run: tool.ExperimentRun,
        ctx: Context,
        wanted: Annotated[
            Wanted, Field(description="Which trials to list: by default those that did not pass, for any reason.")
        ] = "not passed",
        item: Annotated[str | None, Field(description="Only trials of this item, including passed ones.")] = None,
        characters: Annotated[
            int, Field(ge=50, le=20_000, description="Maximum characters of an input, output or explanation.")
        ] = 500,
        limit: Annotated[int, Field(ge=0, le=100, description="Maximum number of trials.")] = 10,
        offset: tool.Offset = 0,
        wait_seconds: tool.WaitSeconds = 0,
    ) -> ExperimentRunDetails:
        """Read a run of an experiment: status, pass rate with its interval, scorers, clauses of the gate, and failures
        with input, expected output, output and the scorers' explanations.

        `failed` trials count against the target. In `error` and `unscored` trials, the target or a scorer broke, so
        they say nothing about quality.
        """
        if wait_seconds:
            await with_progress(ctx, lambda progress: _wait_for(self.server_workspace, run, wait_seconds, progress))
        verdicts: tuple[ItemVerdict, ...] = () if item is not None else VERDICTS[wanted]
        page = TrialPage(verdicts=verdicts, item=item, offset=offset, limit=limit)
        # Only functions that are not async are run in a thread by `tool`, and this one is async because it can wait.
        return await run_in_thread(lambda: self._details(run, page, characters))

    def compare_experiment_runs(
        self,
        base: tool.ExperimentRun,
        candidate: tool.ExperimentRun,
        allow_mismatch: Annotated[
            bool, Field(description="Compare the items and scorers that both runs share, and list what is left out.")
        ] = False,
    ) -> ComparedExperimentRuns:
        """Compare two finished runs on the same dataset version. The verdict (exact paired test) is regressed,
        improved, no detectable change, inconclusive or not comparable. Also returned are the change of each scorer,
        and the items that regressed, were fixed or are flaky, with the outputs of both runs. get_experiment_run with
        `item` returns these trials in full.

        Nothing is written.
        """
        with self.server_workspace.experiments() as workspace:
            comparison = compare_runs(workspace, base, candidate, allow_mismatch=allow_mismatch)
        changes = {
            kind: first_fitting(getattr(comparison, kind), max_characters)
            for kind, max_characters in MOST_OF_CHANGES.items()
        }
        omitted = {kind: len(getattr(comparison, kind)) - len(items) for kind, items in changes.items()}
        update = {**changes, "mismatches": comparison.mismatches[:MOST_NAMED]}
        return ComparedExperimentRuns(
            **{**dict(comparison), **update}, left_out={kind: number for kind, number in omitted.items() if number}
        )

    def _details(self, run_name: str, page: TrialPage, characters: int) -> ExperimentRunDetails:
        first = page.offset == 0 and page.item is None
        with self.server_workspace.experiments() as workspace:
            run = run_named(workspace, run_name)
            trials, total = trial_page(workspace, run, page)
            lines = first_fitting((_trial_line(workspace, detail, characters) for detail in trials), MOST_CHARACTERS)
            report = report_run(workspace, run) if first else None
        end = page.offset + len(lines)
        details = ExperimentRunDetails(
            summary=None,
            gate=None,
            message=f"Run {run.id} is {run.state}.",
            tries=lines,
            tries_total=total,
            next_offset=end if lines and end < total else None,
        )
        return details if report is None else details.model_copy(update=_report_fields(run, report))


VERDICTS: dict[Wanted, tuple[ItemVerdict, ...]] = {
    "not passed": ("failed", "error", "unscored"),
    "failed": ("failed",),
    "error": ("error",),
    "unscored": ("unscored",),
    "all": (),
}


async def _wait_for(server_workspace: ServerWorkspace, run_name: str, seconds: int, progress: ProgressReporter) -> None:
    """Wait until the run ends. Raises `UnavailableError` if the run's worker no longer exists."""
    with server_workspace.experiments() as workspace:
        await wait_for_run(workspace.store.experiment_runs, run_named(workspace, run_name).id, seconds, progress.tried)


def run_status(run: ExperimentRun, report: RunReport) -> str:
    """Describe the status of a run and the next step in one or two sentences."""
    reason = replace_commands(report.summary.reason or "")
    if report.gate is None:
        waits = "get_experiment_run with `wait_seconds` waits for it, cancel_experiment_run ends it"
        return f"Run {run.id} is {run.state}: {reason or waits}."
    if run.state != "completed":
        return f"Run {run.id} is {run.state}{f' ({reason})' if reason else ''}: resume_experiment_run continues it."
    faults = " analyze with this run's id finds the cause of its failures." if report.summary.failed_items else ""
    return f"Run {run.id}: {headline(report.gate)}.{faults}"


def _report_fields(run: ExperimentRun, report: RunReport) -> dict[str, object]:
    bounded, notes = bound_report(report)
    return {"summary": bounded.summary, "gate": bounded.gate, "message": run_status(run, report), "notes": notes}


def bound_report(report: RunReport) -> tuple[RunReport, tuple[str, ...]]:
    """Shorten the lists in a run's report. Also returns notes on what was left out."""
    summary, notes = report.summary, []
    updates: dict[str, object] = {"reason": summary.reason and replace_commands(summary.reason)}
    for name, items in (("flaky", summary.flaky), ("splits", summary.splits)):
        updates[name] = items[:MOST_NAMED]
        notes += _omitted_note(name, len(items))
    gate = report.gate
    if gate is not None:
        notes += [
            note for clause in gate.clauses for note in _omitted_note(f"items of {clause.name}", len(clause.items))
        ]
        clauses = tuple(clause.model_copy(update={"items": clause.items[:MOST_NAMED]}) for clause in gate.clauses)
        gate = gate.model_copy(update={"clauses": clauses, "reason": gate.reason and replace_commands(gate.reason)})
    labels = summary.labels
    if labels is not None:
        notes += _omitted_note("labels", len(labels.rows))
        rows = tuple(
            row.model_copy(update={"predicted": dict(islice(row.predicted.items(), MOST_NAMED))})
            for row in labels.rows[:MOST_NAMED]
        )
        updates["labels"] = labels.model_copy(update={"rows": rows})
    return RunReport(summary=summary.model_copy(update=updates), gate=gate), tuple(notes)


def _omitted_note(kind: str, number: int) -> list[str]:
    return [f"{kind}: {number - MOST_NAMED:,} more are not listed"] if number > MOST_NAMED else []


def _trial_line(workspace: Workspace, trial: TrialDetail, characters: int) -> TryLine:
    return TryLine(
        item=trial.item_key,
        repetition=trial.repetition,
        eval_id=trial.run_item_id,
        split=trial.split,
        verdict=trial.verdict,
        error=None if trial.error is None else excerpt(trial.error, characters),
        input=excerpt(trial.input, characters),
        expected_output=None if trial.expected_output is None else excerpt(trial.expected_output, characters),
        output=None if trial.error is not None else excerpt(trial.output, characters),
        scores=tuple(_score(workspace, score, characters) for score in trial.scores),
    )


def _score(workspace: Workspace, score: Score, characters: int) -> ScoreLine:
    evidence = workspace.store.experiment_runs.evidence(score.id) if explains_failure(score) else None
    return ScoreLine(
        id=score.id,
        scorer=score.scorer,
        required=score.required,
        result=word(score),
        value=score.value,
        label=score.label,
        explanation=excerpt(score.explanation, characters),
        rests_on=None if evidence is None or evidence.evidence is None else excerpt(evidence.evidence, characters),
    )


class RunStarted(Frozen):
    started: bool
    message: str
    """Text that states the outcome and what to do next."""
    run_id: str | None = None
    """Id of the run, for the tool get_experiment_run. Null if no run was started."""
    state: str | None = None
    experiment: str
    version: int
    target: str
    dataset: str
    deployment_id: str | None
    """Id of the deployment (the build) that is tested; null if the target is not a deployment."""
    tries: int
    """Number of trials, which is the number of items times the number of repetitions."""
    asks_models: tuple[str, ...] = ()
    """Names of the models that the target and the scorers call. These calls cost money."""
    counts: TrialCounts | None = None
    """Number of trials with each verdict; null if nothing was started."""
    gate: Gate | None = None
    """The result of the gate; null unless the run was started and has ended."""
    notes: tuple[str, ...] = ()


class RunCancelled(Frozen):
    run_id: str
    state: str
    tries: int
    done: int
    """Number of trials that were finished."""
    message: str


class _RunRequest(Frozen):
    """Arguments that the requests to start and to resume a run have in common."""

    budget_usd: float
    max_tokens: int | None
    start: bool
    wait_seconds: int

    @property
    def options(self) -> Options:
        return Options(max_tokens=self.max_tokens)


@dataclass(frozen=True)
class RunTools:
    server_workspace: ServerWorkspace

    async def run_experiment(
        self,
        experiment: Annotated[
            str,
            Field(min_length=1, description="An experiment, by name or id; `sample` is created if missing."),
        ],
        ctx: Context,
        start: tool.Start = False,
        name: Annotated[
            str | None, Field(description="A label such as a commit or pr-1234; can replace the run's id.")
        ] = None,
        deployment_id: Annotated[
            str | None, Field(description="The build to test, by id or name. Default: the experiment's own.")
        ] = None,
        version: Annotated[
            str | None, Field(description="The experiment's version, by number or id. Default: the latest.")
        ] = None,
        repetitions: Annotated[int | None, Field(ge=1, le=100, description="Number of trials of each item.")] = None,
        config: Annotated[
            dict[str, JsonValue] | None,
            Field(
                description=(
                    'Keys of the config to override in this run, such as {"no_new_failures_vs": "RUN"}; null resets a '
                    "key."
                )
            ),
        ] = None,
        budget_usd: tool.RunBudget = 0.0,
        max_tokens: tool.MaxTokens = None,
        wait_seconds: tool.WaitSeconds = 0,
    ) -> RunStarted:
        """Run an experiment: every item of its dataset is run and scored, and the gate decides whether the run passes.

        Without start=true, the tool only returns what would be run. A started run continues in its own process. Its id
        is returned at once; get_experiment_run reads the run. A second call starts a second run.
        """
        plan = partial(
            plan_run,
            name=name,
            version=version,
            deployment=deployment_id,
            repetitions=repetitions,
            budget_usd=budget_usd,
            config=None if config is None else json.dumps(config),
        )
        request = _RunRequest(budget_usd=budget_usd, max_tokens=max_tokens, start=start, wait_seconds=wait_seconds)
        return await with_progress(
            ctx, lambda progress: _run(self.server_workspace, experiment, plan, request, progress)
        )

    async def resume_experiment_run(
        self,
        run: tool.ExperimentRun,
        ctx: Context,
        start: tool.Start = False,
        budget_usd: tool.RunBudget = 0.0,
        max_tokens: tool.MaxTokens = None,
        wait_seconds: tool.WaitSeconds = 0,
    ) -> RunStarted:
        """Resume a run that failed, was cancelled or lost its worker.

        Finished trials are not repeated. Without start=true, the tool only returns how many trials are left.
        """
        request = _RunRequest(budget_usd=budget_usd, max_tokens=max_tokens, start=start, wait_seconds=wait_seconds)
        return await with_progress(ctx, lambda progress: _resume(self.server_workspace, run, request, progress))

    async def cancel_experiment_run(self, run: tool.ExperimentRun, ctx: Context) -> RunCancelled:
        """Cancel a run in progress. Finished trials are kept, and resume_experiment_run can continue the run."""
        return await with_progress(ctx, lambda _: _cancel(self.server_workspace, run))


async def _run(
    server_workspace: ServerWorkspace,
    experiment_name: str,
    plan: Callable[[Workspace, Experiment], PlannedRun],
    request: _RunRequest,
    progress: ProgressReporter,
) -> RunStarted:
    with Workspace(request.options) as workspace:
        require_within(request.budget_usd, workspace.settings)
        if experiment_name == SAMPLE and request.start:
            await create_sample(workspace)  # an existing experiment with that name is not changed
        elif experiment_name == SAMPLE:
            server_workspace.require_sample()
        elif not workspace.has_store:
            raise NotFoundError(NO_EXPERIMENT)
        experiment = experiment_named(workspace, experiment_name)
        planned = plan(workspace, experiment)
        answer = _plan(workspace, planned.run, planned.version, request)
        if not request.start:
            return answer
        run = launch_run(workspace, planned)
        answer = answer.model_copy(update={"notes": (*answer.notes, *launch_notes(planned, run))})
        start_run(workspace, run)
    return await _started_run(server_workspace, run, answer, request, progress)


async def _resume(
    server_workspace: ServerWorkspace, run_name: str, request: _RunRequest, progress: ProgressReporter
) -> RunStarted:
    with server_workspace.experiments(request.options) as workspace:
        require_within(request.budget_usd, workspace.settings)
        run = run_named(workspace, run_name)
        answer = _plan(workspace, run, version_of_run(workspace, run), request)
        remaining = run.tries - sum(workspace.store.experiment_runs.tally(run.id).values())
        if not request.start:
            trials = pluralise(run.tries, "trial")
            message = f"Nothing was started: {remaining:,} of {trials} are left. Call again with start=true."
            return answer.model_copy(update={"message": message, "state": run.state})
        run = resume_run(workspace, run, request.budget_usd or None)
        start_run(workspace, run)
    return await _started_run(server_workspace, run, answer, request, progress)


def _plan(workspace: Workspace, run: ExperimentRun, version: ExperimentVersion, request: _RunRequest) -> RunStarted:
    """Describe what a run would do.

    Raises `UsageError` if the run should be started, calls models and has no budget.
    """
    models = called_models(version)
    if models and request.start and not request.budget_usd:
        raise UsageError(f"the run calls {', '.join(models)} in {pluralise(run.tries, 'trial')}: set budget_usd")
    own_templates = own_prompts(version.bindings, workspace.prompts)
    return RunStarted(
        started=False,
        message=f"Nothing was started: the run has {pluralise(run.tries, 'trial')}. {_start_advice(models)}",
        experiment=experiment_of(workspace, run).name,
        version=version.number,
        target=target_line(version.target),
        dataset=dataset_line(workspace, version),
        deployment_id=run.deployment_id,
        tries=run.tries,
        asks_models=models,
        notes=(f"scorers use the workspace's own prompts: {', '.join(own_templates)}",) if own_templates else (),
    )


def _start_advice(models: Sequence[str]) -> str:
    return f"Call again with start=true{' and budget_usd, because the run calls models' if models else ''}."


async def _started_run(
    server_workspace: ServerWorkspace,
    run: ExperimentRun,
    answer: RunStarted,
    request: _RunRequest,
    progress: ProgressReporter,
) -> RunStarted:
    """Complete the answer for a run that was started. If the request has `wait_seconds`, wait for the run first."""
    if request.wait_seconds:
        await _wait_for(server_workspace, run.id, request.wait_seconds, progress)
    with server_workspace.experiments() as workspace:
        run = run_named(workspace, run.id)
        report, notes = bound_report(report_run(workspace, run))
    run_fields = {"started": True, "run_id": run.id, "state": run.state, "message": run_status(run, report)}
    result_fields = {"counts": report.summary.counts, "gate": report.gate, "notes": (*answer.notes, *notes)}
    return answer.model_copy(update={**run_fields, **result_fields})


async def _cancel(server_workspace: ServerWorkspace, run_name: str) -> RunCancelled:
    with server_workspace.experiments() as workspace:
        run = run_named(workspace, run_name)
        already_ended = run.terminal
        run = run if already_ended else await cancel_run(workspace, run)
        done = sum(workspace.store.experiment_runs.tally(run.id).values())
    message = f"Run {run.id} {'had ended already' if already_ended else 'is'}: {run.state}."
    if not run.terminal:
        message = f"The worker of run {run.id} ({run.worker}) has not responded yet; it was asked to stop."
    return RunCancelled(run_id=run.id, state=run.state, tries=run.tries, done=done, message=message)
