"""Tools that start runs of experiments, and end them."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

from mcp.server.mcpserver import Context
from pydantic import Field, JsonValue

from evalscribe.errors import NotFoundError, UsageError
from evalscribe.ids import Frozen
from evalscribe.mcp_server import fields
from evalscribe.mcp_server.asking import require_within
from evalscribe.mcp_server.experiment_runs import bounded, how_it_stands, waited_for
from evalscribe.mcp_server.place import NO_EXPERIMENT, SAMPLE, Place
from evalscribe.mcp_server.progress import Told, watched
from evalscribe.model.experiment import Gate, TrialCounts
from evalscribe.settings import Options
from evalscribe.text import pluralise

if TYPE_CHECKING:
    from evalscribe.app.experiments.launch import Planned
    from evalscribe.model.experiment import Experiment, ExperimentRun, ExperimentVersion
    from evalscribe.workspace import Workspace


class RunStarted(Frozen):
    started: bool
    message: str
    """What became of it, and what to do next."""
    run_id: str | None = None
    """For get_experiment_run; null where nothing was started."""
    state: str | None = None
    experiment: str
    version: int
    target: str
    dataset: str
    deployment_id: str | None
    """The build that is tried."""
    tries: int
    """Items, times repetitions."""
    asks_models: tuple[str, ...] = ()
    """Which its tries and scores are asked of, so that it costs money."""
    counts: TrialCounts | None = None
    """Of what is done, where it was waited for or gone on with."""
    gate: Gate | None = None
    """Where it was waited for and has ended."""
    notes: tuple[str, ...] = ()


class RunCancelled(Frozen):
    run_id: str
    state: str
    tries: int
    done: int
    """They are kept."""
    message: str


class _Asked(Frozen):
    """What both ways of starting have."""

    budget_usd: float
    max_tokens: int | None
    start: bool
    wait_seconds: int

    @property
    def options(self) -> Options:
        return Options(max_tokens=self.max_tokens)


@dataclass(frozen=True)
class Trying:
    place: Place

    async def run_experiment(
        self,
        experiment: Annotated[
            str,
            Field(min_length=1, description="An experiment, by name or id; `sample` is made where it is not there."),
        ],
        ctx: Context,
        start: fields.Start = False,
        name: Annotated[
            str | None, Field(description="A label such as a commit or pr-1234; usable as the run's id.")
        ] = None,
        deployment_id: Annotated[
            str | None, Field(description="The build to try, by id or name. Default: the experiment's own.")
        ] = None,
        version: Annotated[
            str | None, Field(description="The experiment's version, by number or id. Default: the latest.")
        ] = None,
        repetitions: Annotated[int | None, Field(ge=1, le=100, description="Try each item so often.")] = None,
        config: Annotated[
            dict[str, JsonValue] | None,
            Field(
                description="Keys of the config that are others in this run, such as "
                '{"no_new_failures_vs": "RUN"}; null takes one back.'
            ),
        ] = None,
        budget_usd: fields.RunBudget = 0.0,
        max_tokens: fields.MaxTokens = None,
        wait_seconds: fields.WaitSeconds = 0,
    ) -> RunStarted:
        """Run an experiment: every item of its dataset is tried and scored, and the gate decides. Without start=true
        it only tells what would be run. It goes on in a process of its own; the run's id is told at once, and
        get_experiment_run reads it. Calling twice starts two runs."""
        from evalscribe.app.experiments.launch import planned

        plan = partial(
            planned,
            name=name,
            version=version,
            deployment=deployment_id,
            repetitions=repetitions,
            budget_usd=budget_usd,
            config=None if config is None else json.dumps(config),
        )
        asked = _Asked(budget_usd=budget_usd, max_tokens=max_tokens, start=start, wait_seconds=wait_seconds)
        return await watched(ctx, lambda told: _ran(self.place, experiment, plan, asked, told))

    async def resume_experiment_run(
        self,
        run: fields.ExperimentRun,
        ctx: Context,
        start: fields.Start = False,
        budget_usd: fields.RunBudget = 0.0,
        max_tokens: fields.MaxTokens = None,
        wait_seconds: fields.WaitSeconds = 0,
    ) -> RunStarted:
        """Let a run go on that failed, was cancelled or lost its worker: what was done is not done again. Without
        start=true it only tells how much is left."""
        asked = _Asked(budget_usd=budget_usd, max_tokens=max_tokens, start=start, wait_seconds=wait_seconds)
        return await watched(ctx, lambda told: _resumed(self.place, run, asked, told))

    async def cancel_experiment_run(self, run: fields.ExperimentRun, ctx: Context) -> RunCancelled:
        """End a run that is going on. What it did is kept, and resume_experiment_run goes on with it."""
        return await watched(ctx, lambda _: _cancelled(self.place, run))


async def _ran(
    place: Place, named: str, plan: "Callable[[Workspace, Experiment], Planned]", asked: _Asked, told: Told
) -> RunStarted:
    from evalscribe.app.experiments.find import experiment_named
    from evalscribe.app.experiments.launch import launched, start_run
    from evalscribe.app.experiments.sample import sampled
    from evalscribe.workspace import Workspace

    with Workspace(asked.options) as workspace:
        require_within(asked.budget_usd, workspace.settings)
        if named == SAMPLE and asked.start:
            await sampled(workspace)  # one of that name that is there is left as it is
        elif named == SAMPLE:
            place.require_sample()
        elif not workspace.has_store:
            raise NotFoundError(NO_EXPERIMENT)
        experiment = experiment_named(workspace, named)
        wanted = plan(workspace, experiment)
        answer = _plan(workspace, wanted.run, wanted.version, asked)
        if not asked.start:
            return answer
        run = launched(workspace, wanted)
        start_run(workspace, run)
    return await _on_its_way(place, run, answer, asked, told)


async def _resumed(place: Place, named: str, asked: _Asked, told: Told) -> RunStarted:
    from evalscribe.app.experiments.find import run_named, version_of_run
    from evalscribe.app.experiments.launch import start_run
    from evalscribe.app.experiments.resume import resumed

    with place.experiments(asked.options) as workspace:
        require_within(asked.budget_usd, workspace.settings)
        run = run_named(workspace, named)
        answer = _plan(workspace, run, version_of_run(workspace, run), asked)
        left = run.tries - sum(workspace.store.experiment_runs.tally(run.id).values())
        if not asked.start:
            message = (
                f"Nothing was started: {left:,} of {pluralise(run.tries, 'try')} are left. Call again with start=true."
            )
            return answer.model_copy(update={"message": message, "state": run.state})
        run = resumed(workspace, run, asked.budget_usd or None)
        start_run(workspace, run)
    return await _on_its_way(place, run, answer, asked, told)


def _plan(workspace: "Workspace", run: "ExperimentRun", version: "ExperimentVersion", asked: _Asked) -> RunStarted:
    """What would be started. Raises `UsageError` where it is to be started and nothing may be spent on its models."""
    from evalscribe.app.experiments.find import experiment_of
    from evalscribe.app.experiments.listing import dataset_line, models_asked, target_line
    from evalscribe.app.scorers import own_prompts

    models = models_asked(version)
    if models and asked.start and not asked.budget_usd:
        raise UsageError(
            f"this asks {', '.join(models)} in {pluralise(run.tries, 'try')}: say in budget_usd what it may spend"
        )
    own = own_prompts(version.bindings, workspace.prompts)
    return RunStarted(
        started=False,
        message=f"Nothing was started: it would be {pluralise(run.tries, 'try')}. {_what_to_say(models)}",
        experiment=experiment_of(workspace, run).name,
        version=version.number,
        target=target_line(version.target),
        dataset=dataset_line(workspace, version),
        deployment_id=run.deployment_id,
        tries=run.tries,
        asks_models=models,
        notes=(f"scorers ask by the workspace's own prompts: {', '.join(own)}",) if own else (),
    )


def _what_to_say(models: Sequence[str]) -> str:
    return f"Call again with start=true{' and budget_usd, since models are asked' if models else ''}."


async def _on_its_way(place: Place, run: "ExperimentRun", answer: RunStarted, asked: _Asked, told: Told) -> RunStarted:
    """Waited for, where that is wanted."""
    from evalscribe.app.experiments.find import run_named
    from evalscribe.app.experiments.gate import reported

    if asked.wait_seconds:
        await waited_for(place, run.id, asked.wait_seconds, told)
    with place.experiments() as workspace:
        run = run_named(workspace, run.id)
        report, notes = bounded(reported(workspace, run))
    now = {"started": True, "run_id": run.id, "state": run.state, "message": how_it_stands(run, report)}
    seen = {"counts": report.summary.counts, "gate": report.gate, "notes": (*answer.notes, *notes)}
    return answer.model_copy(update={**now, **seen})


async def _cancelled(place: Place, named: str) -> RunCancelled:
    from evalscribe.app.experiments.cancel import cancelled
    from evalscribe.app.experiments.find import run_named

    with place.experiments() as workspace:
        run = run_named(workspace, named)
        ended = run.terminal
        run = run if ended else await cancelled(workspace, run)
        done = sum(workspace.store.experiment_runs.tally(run.id).values())
    message = f"Run {run.id} {'had ended already' if ended else 'is'}: {run.state}."
    if not run.terminal:
        message = f"The worker of run {run.id} ({run.worker}) does not hear yet; it was asked to stop."
    return RunCancelled(run_id=run.id, state=run.state, tries=run.tries, done=done, message=message)
