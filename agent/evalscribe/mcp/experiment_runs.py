"""Tools that start, read, compare and cancel runs of experiments."""

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
"""Maximum characters of the trials in one answer."""
MOST_OF_CHANGES = {"regressed": 16_000, "fixed": 8_000, "flaky": 6_000}
"""Maximum characters for each kind of change."""
MOST_NAMED = 50
Wanted = Literal["not passed", "failed", "error", "unscored", "all"]


class ScoreLine(Frozen):
    id: str
    scorer: str
    required: bool
    said: str
    """`passed`, `failed`, `broke` or `abstained`."""
    value: float | None
    label: str | None
    explanation: str
    rests_on: str | None = None
    """Evidence for the explanation of a score that did not pass; cut."""


class TryLine(Frozen):
    """One trial of an item; long texts are cut, get_eval has them in full."""

    item: str
    repetition: int
    eval_id: str | None
    """Id for get_eval, which has the log and every message."""
    split: str | None
    verdict: str
    error: str | None
    """Why the target gave no answer."""
    input: str
    expected_output: str | None
    output: str | None
    scores: tuple[ScoreLine, ...]


class ExperimentRunDetails(Frozen):
    summary: RunSummary | None
    """Null on later pages, and for a call with `item`."""
    gate: Gate | None
    """Null on later pages, for a call with `item`, and before the run has ended."""
    message: str
    """Status, and what to do next."""
    tries: tuple[TryLine, ...]
    tries_total: int
    """Number of trials on all pages."""
    next_offset: int | None
    notes: tuple[str, ...] = ()
    notice: str = NOTICE.replace("`text`", "What `tries` quote")


class ComparedExperimentRuns(RunComparison):
    left_out: dict[str, int] = Field(default_factory=dict)
    """Number of changed items left out, by kind."""
    notice: str = NOTICE.replace("`text`", "What changed items quote")


@dataclass(frozen=True)
class ExperimentRunTools:
    place: ServerWorkspace

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
        with input, expected output, output and the scorers' explanations. `failed` trials count against the target; in
        `error` and `unscored` trials the target or a scorer broke, which says nothing about quality.
        """
        if wait_seconds:
            await with_progress(ctx, lambda told: _wait_for(self.place, run, wait_seconds, told))
        verdicts: tuple[ItemVerdict, ...] = () if item is not None else VERDICTS[wanted]
        page = TrialPage(verdicts=verdicts, item=item, offset=offset, limit=limit)
        return await run_in_thread(lambda: self._told(run, page, characters))

    def compare_experiment_runs(
        self,
        base: tool.ExperimentRun,
        candidate: tool.ExperimentRun,
        allow_mismatch: Annotated[
            bool, Field(description="Compare the items and scorers that both runs share, and list what is left out.")
        ] = False,
    ) -> ComparedExperimentRuns:
        """Compare two finished runs over the same dataset version: regressed, improved, no detectable change,
        inconclusive or not comparable (exact paired test), each scorer, and items that regressed, were fixed or are
        flaky, with the outputs of both runs. get_experiment_run with `item` has these trials in full. Nothing is
        written.
        """
        with self.place.experiments() as workspace:
            found = compare_runs(workspace, base, candidate, allow_mismatch=allow_mismatch)
        told = {kind: first_fitting(getattr(found, kind), most) for kind, most in MOST_OF_CHANGES.items()}
        left = {kind: len(getattr(found, kind)) - len(kept) for kind, kept in told.items()}
        update = {**told, "mismatches": found.mismatches[:MOST_NAMED]}
        return ComparedExperimentRuns(
            **{**dict(found), **update}, left_out={kind: number for kind, number in left.items() if number}
        )

    def _told(self, named: str, page: TrialPage, characters: int) -> ExperimentRunDetails:
        first = page.offset == 0 and page.item is None
        with self.place.experiments() as workspace:
            run = run_named(workspace, named)
            chosen, total = trial_page(workspace, run, page)
            tries = first_fitting((_try(workspace, one, characters) for one in chosen), MOST_CHARACTERS)
            report = report_run(workspace, run) if first else None
        end = page.offset + len(tries)
        told = ExperimentRunDetails(
            summary=None,
            gate=None,
            message=f"Run {run.id} is {run.state}.",
            tries=tries,
            tries_total=total,
            next_offset=end if tries and end < total else None,
        )
        return told if report is None else told.model_copy(update=_in_full(run, report))


VERDICTS: dict[Wanted, tuple[ItemVerdict, ...]] = {
    "not passed": ("failed", "error", "unscored"),
    "failed": ("failed",),
    "error": ("error",),
    "unscored": ("unscored",),
    "all": (),
}


async def _wait_for(place: ServerWorkspace, named: str, seconds: int, told: ProgressReporter) -> None:
    """Wait for the run. Raises `UnavailableError` if its worker is gone."""
    with place.experiments() as workspace:
        await wait_for_run(workspace.store.experiment_runs, run_named(workspace, named).id, seconds, told.tried)


def run_status(run: ExperimentRun, report: RunReport) -> str:
    """Describe a run's status and the next step in one sentence."""
    why = replace_commands(report.summary.reason or "")
    if report.gate is None:
        waits = "get_experiment_run with `wait_seconds` waits for it, cancel_experiment_run ends it"
        return f"Run {run.id} is {run.state}: {why or waits}."
    if run.state != "completed":
        return f"Run {run.id} is {run.state}{f' ({why})' if why else ''}: resume_experiment_run continues it."
    faults = " analyze with this run's id finds the cause of its failures." if report.summary.failed_items else ""
    return f"Run {run.id}: {headline(report.gate)}.{faults}"


def _in_full(run: ExperimentRun, report: RunReport) -> dict[str, object]:
    kept, notes = bound_report(report)
    return {"summary": kept.summary, "gate": kept.gate, "message": run_status(run, report), "notes": notes}


def bound_report(report: RunReport) -> tuple[RunReport, tuple[str, ...]]:
    """Shorten the report's lists, and say what was omitted."""
    found, notes = report.summary, []
    cut: dict[str, object] = {"reason": found.reason and replace_commands(found.reason)}
    for name, there in (("flaky", found.flaky), ("splits", found.splits)):
        cut[name] = there[:MOST_NAMED]
        notes += _left(name, len(there))
    gate = report.gate
    if gate is not None:
        notes += [note for clause in gate.clauses for note in _left(f"items of {clause.name}", len(clause.items))]
        clauses = tuple(one.model_copy(update={"items": one.items[:MOST_NAMED]}) for one in gate.clauses)
        gate = gate.model_copy(update={"clauses": clauses, "reason": gate.reason and replace_commands(gate.reason)})
    labels = found.labels
    if labels is not None:
        notes += _left("labels", len(labels.rows))
        rows = tuple(
            row.model_copy(update={"given": dict(islice(row.given.items(), MOST_NAMED))})
            for row in labels.rows[:MOST_NAMED]
        )
        cut["labels"] = labels.model_copy(update={"rows": rows})
    return RunReport(summary=found.model_copy(update=cut), gate=gate), tuple(notes)


def _left(what: str, number: int) -> list[str]:
    return [f"{what}: {number - MOST_NAMED:,} more are not listed"] if number > MOST_NAMED else []


def _try(workspace: Workspace, one: TrialDetail, characters: int) -> TryLine:
    return TryLine(
        item=one.item_key,
        repetition=one.repetition,
        eval_id=one.run_item_id,
        split=one.split,
        verdict=one.verdict,
        error=None if one.error is None else excerpt(one.error, characters),
        input=excerpt(one.input, characters),
        expected_output=None if one.expected_output is None else excerpt(one.expected_output, characters),
        output=None if one.error is not None else excerpt(one.output, characters),
        scores=tuple(_score(workspace, score, characters) for score in one.scores),
    )


def _score(workspace: Workspace, score: Score, characters: int) -> ScoreLine:
    seen = workspace.store.experiment_runs.evidence(score.id) if explains_failure(score) else None
    return ScoreLine(
        id=score.id,
        scorer=score.scorer,
        required=score.required,
        said=word(score),
        value=score.value,
        label=score.label,
        explanation=excerpt(score.explanation, characters),
        rests_on=None if seen is None or seen.evidence is None else excerpt(seen.evidence, characters),
    )


class RunStarted(Frozen):
    started: bool
    message: str
    """Outcome, and what to do next."""
    run_id: str | None = None
    """Id for get_experiment_run; null if nothing was started."""
    state: str | None = None
    experiment: str
    version: int
    target: str
    dataset: str
    deployment_id: str | None
    """The tested build."""
    tries: int
    """Number of trials: items times repetitions."""
    asks_models: tuple[str, ...] = ()
    """Models that the target and the scorers call, which costs money."""
    counts: TrialCounts | None = None
    """Summary of the finished trials, if the run was waited for or resumed."""
    gate: Gate | None = None
    """The gate, if the run was waited for and has ended."""
    notes: tuple[str, ...] = ()


class RunCancelled(Frozen):
    run_id: str
    state: str
    tries: int
    done: int
    """Tasks that start runs, kept so that they are not garbage collected."""
    message: str


class _Asked(Frozen):
    """Shared parts of starting and resuming a run."""

    budget_usd: float
    max_tokens: int | None
    start: bool
    wait_seconds: int

    @property
    def options(self) -> Options:
        return Options(max_tokens=self.max_tokens)


@dataclass(frozen=True)
class RunTools:
    place: ServerWorkspace

    async def run_experiment(
        self,
        experiment: Annotated[
            str,
            Field(min_length=1, description="An experiment, by name or id; `sample` is created if missing."),
        ],
        ctx: Context,
        start: tool.Start = False,
        name: Annotated[
            str | None, Field(description="A label such as a commit or pr-1234; usable as the run's id.")
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
        """Run an experiment: every item of its dataset is run and scored, and the gate decides.

        Without start=true it only returns what would be run. The run continues in its own process; its id is returned
        at once, and get_experiment_run reads it. Calling twice starts two runs.
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
        asked = _Asked(budget_usd=budget_usd, max_tokens=max_tokens, start=start, wait_seconds=wait_seconds)
        return await with_progress(ctx, lambda told: _ran(self.place, experiment, plan, asked, told))

    async def resume_experiment_run(
        self,
        run: tool.ExperimentRun,
        ctx: Context,
        start: tool.Start = False,
        budget_usd: tool.RunBudget = 0.0,
        max_tokens: tool.MaxTokens = None,
        wait_seconds: tool.WaitSeconds = 0,
    ) -> RunStarted:
        """Resume a run that failed, was cancelled or lost its worker: finished trials are not repeated.

        Without start=true it only returns how much is left.
        """
        asked = _Asked(budget_usd=budget_usd, max_tokens=max_tokens, start=start, wait_seconds=wait_seconds)
        return await with_progress(ctx, lambda told: _resumed(self.place, run, asked, told))

    async def cancel_experiment_run(self, run: tool.ExperimentRun, ctx: Context) -> RunCancelled:
        """Cancel a run in progress. Finished trials are kept, and resume_experiment_run continues it."""
        return await with_progress(ctx, lambda _: _cancelled(self.place, run))


async def _ran(
    place: ServerWorkspace,
    named: str,
    plan: Callable[[Workspace, Experiment], PlannedRun],
    asked: _Asked,
    told: ProgressReporter,
) -> RunStarted:
    with Workspace(asked.options) as workspace:
        require_within(asked.budget_usd, workspace.settings)
        if named == SAMPLE and asked.start:
            await create_sample(workspace)  # an existing experiment of that name is left unchanged
        elif named == SAMPLE:
            place.require_sample()
        elif not workspace.has_store:
            raise NotFoundError(NO_EXPERIMENT)
        experiment = experiment_named(workspace, named)
        wanted = plan(workspace, experiment)
        answer = _plan(workspace, wanted.run, wanted.version, asked)
        if not asked.start:
            return answer
        run = launch_run(workspace, wanted)
        answer = answer.model_copy(update={"notes": (*answer.notes, *launch_notes(wanted, run))})
        start_run(workspace, run)
    return await _on_its_way(place, run, answer, asked, told)


async def _resumed(place: ServerWorkspace, named: str, asked: _Asked, told: ProgressReporter) -> RunStarted:
    with place.experiments(asked.options) as workspace:
        require_within(asked.budget_usd, workspace.settings)
        run = run_named(workspace, named)
        answer = _plan(workspace, run, version_of_run(workspace, run), asked)
        left = run.tries - sum(workspace.store.experiment_runs.tally(run.id).values())
        if not asked.start:
            trials = pluralise(run.tries, "trial")
            message = f"Nothing was started: {left:,} of {trials} are left. Call again with start=true."
            return answer.model_copy(update={"message": message, "state": run.state})
        run = resume_run(workspace, run, asked.budget_usd or None)
        start_run(workspace, run)
    return await _on_its_way(place, run, answer, asked, told)


def _plan(workspace: Workspace, run: ExperimentRun, version: ExperimentVersion, asked: _Asked) -> RunStarted:
    """Return the plan of a run. Raises `UsageError` if it is to start without a budget for its models."""
    models = called_models(version)
    if models and asked.start and not asked.budget_usd:
        raise UsageError(f"the run calls {', '.join(models)} in {pluralise(run.tries, 'trial')}: set budget_usd")
    own = own_prompts(version.bindings, workspace.prompts)
    return RunStarted(
        started=False,
        message=f"Nothing was started: the run has {pluralise(run.tries, 'trial')}. {_what_to_say(models)}",
        experiment=experiment_of(workspace, run).name,
        version=version.number,
        target=target_line(version.target),
        dataset=dataset_line(workspace, version),
        deployment_id=run.deployment_id,
        tries=run.tries,
        asks_models=models,
        notes=(f"scorers use the workspace's own prompts: {', '.join(own)}",) if own else (),
    )


def _what_to_say(models: Sequence[str]) -> str:
    return f"Call again with start=true{' and budget_usd, since models are asked' if models else ''}."


async def _on_its_way(
    place: ServerWorkspace, run: ExperimentRun, answer: RunStarted, asked: _Asked, told: ProgressReporter
) -> RunStarted:
    """Wait for the run, if requested."""
    if asked.wait_seconds:
        await _wait_for(place, run.id, asked.wait_seconds, told)
    with place.experiments() as workspace:
        run = run_named(workspace, run.id)
        report, notes = bound_report(report_run(workspace, run))
    now = {"started": True, "run_id": run.id, "state": run.state, "message": run_status(run, report)}
    seen = {"counts": report.summary.counts, "gate": report.gate, "notes": (*answer.notes, *notes)}
    return answer.model_copy(update={**now, **seen})


async def _cancelled(place: ServerWorkspace, named: str) -> RunCancelled:
    with place.experiments() as workspace:
        run = run_named(workspace, named)
        ended = run.terminal
        run = run if ended else await cancel_run(workspace, run)
        done = sum(workspace.store.experiment_runs.tally(run.id).values())
    message = f"Run {run.id} {'had ended already' if ended else 'is'}: {run.state}."
    if not run.terminal:
        message = f"The worker of run {run.id} ({run.worker}) has not responded yet; it was asked to stop."
    return RunCancelled(run_id=run.id, state=run.state, tries=run.tries, done=done, message=message)
