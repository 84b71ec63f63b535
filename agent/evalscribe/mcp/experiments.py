"""Tools that list experiments and record deployments."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from mcp.server.mcpserver import Context
from pydantic import Field, JsonValue

from evalscribe.ids import Frozen
from evalscribe.mcp import tool
from evalscribe.mcp.context import NO_EXPERIMENT, ServerWorkspace
from evalscribe.mcp.progress import with_progress
from evalscribe.mcp.tool import excerpt, first_fitting, page_of
from evalscribe.model.experiment import TrialCounts

if TYPE_CHECKING:
    from evalscribe.experiments.results import ListedExperiment, ListedRun
    from evalscribe.model.experiment import Experiment, ExperimentVersion
    from evalscribe.model.target import Deployment
    from evalscribe.workspace import Workspace


MOST_CHARACTERS = 40_000
LONGEST = 300
MOST_BUILDS = 20
LATEST_RUNS = 3


class ExperimentRunLine(Frozen):
    id: str
    name: str | None
    state: str
    worker_gone: bool
    """True if it has not ended and has no worker: resume_experiment_run continues it."""
    version: int
    """Number of the experiment's version."""
    dataset: str
    """`name@number`, or `name@number:split`."""
    deployment_id: str | None
    """The build that ran."""
    tries: int
    counts: TrialCounts
    pass_rate: float
    """Pass rate over all trials."""
    gate: Literal["passed", "failed"] | None
    """Null before the run has ended."""
    created_at: str


class ExperimentLine(Frozen):
    id: str
    name: str
    type: str
    status: str
    version: int
    """The latest."""
    target: str
    dataset: str
    scorers: tuple[str, ...]
    runs: int
    latest_runs: tuple[ExperimentRunLine, ...]
    """Newest first."""


class ExperimentList(Frozen):
    experiments: tuple[ExperimentLine, ...]
    next_offset: int | None
    next: str | None = None
    """What to do if there is none."""


class BuildLine(Frozen):
    id: str
    name: str
    source: str
    """The commit, or a note that it is not in git; `(dirty)` means uncommitted changes."""
    created_at: str


class ExperimentDetails(Frozen):
    id: str
    name: str
    type: str
    status: str
    collection: str
    """Collection with its runs, for list_evals, get_eval and execute_sql."""
    version: int
    version_id: str
    versions: int
    """Number of runs."""
    target: str
    asks_models: tuple[str, ...]
    """Models that its target and scorers call: a run needs `budget_usd`. Models called by a component are unknown."""
    dataset: str
    dataset_version_id: str
    scorers: tuple[str, ...]
    config: dict[str, JsonValue]
    """Configuration of runs and of the gate; without a gate, every item must pass."""
    builds: tuple[BuildLine, ...]
    """Deployments that have the component, newest first: candidates for run_experiment."""
    runs: tuple[ExperimentRunLine, ...]
    """Newest first."""
    runs_total: int
    next_offset: int | None


@dataclass(frozen=True)
class ExperimentTools:
    place: ServerWorkspace

    def list_experiments(
        self,
        dataset: Annotated[str | None, Field(description="Only experiments on this dataset, by name or id.")] = None,
        limit: Annotated[int, Field(ge=1, le=100, description="Maximum number of experiments.")] = 20,
        offset: tool.Offset = 0,
    ) -> ExperimentList:
        """List experiments, oldest first: target (a build, a prompt or a judge), dataset, scorers, and the latest runs
        with their pass rate and whether the gate passed.
        """
        from evalscribe.experiments.results import list_experiments

        if not self.place.has_store():
            return ExperimentList(experiments=(), next_offset=None, next=NO_EXPERIMENT)
        with self.place.experiments() as workspace:
            there = list_experiments(workspace, dataset=dataset, page_size=offset + limit + 1)
            chosen, _ = page_of(there, offset, limit)
            kept = first_fitting((_line(workspace, one) for one in chosen), MOST_CHARACTERS)
        end = offset + len(kept)
        following = end if end < len(there) else None
        return ExperimentList(experiments=kept, next_offset=following, next=None if there or dataset else NO_EXPERIMENT)

    def get_experiment(
        self,
        experiment: tool.Experiment,
        version: Annotated[str | None, Field(description="A version's number or id. Default: the latest.")] = None,
        limit: Annotated[int, Field(ge=1, le=100, description="Maximum number of runs.")] = 10,
        offset: tool.Offset = 0,
    ) -> ExperimentDetails:
        """Show an experiment: target, dataset, scorers, gate, builds that can be run, and its runs, newest first."""
        from evalscribe.experiments.lookup import experiment_named, version_named
        from evalscribe.experiments.results import listed_run

        with self.place.experiments() as workspace:
            found = experiment_named(workspace, experiment)
            runs = workspace.store.experiment_runs.runs(found.id)[::-1]
            chosen, following = page_of(runs, offset, limit)
            lines = tuple(_run_line(listed_run(workspace, run)) for run in chosen)
            told = _told(workspace, found, version_named(workspace, found, version))
        return told.model_copy(update={"runs": lines, "runs_total": len(runs), "next_offset": following})


def _line(workspace: "Workspace", one: "ListedExperiment") -> ExperimentLine:
    from evalscribe.experiments.results import listed_run

    newest = workspace.store.experiment_runs.runs(one.experiment.id)[: -LATEST_RUNS - 1 : -1]
    return ExperimentLine(
        id=one.experiment.id,
        name=one.experiment.name,
        type=one.experiment.type,
        status=one.experiment.status,
        version=one.version,
        target=one.target,
        dataset=one.dataset,
        scorers=one.scorers,
        runs=one.runs,
        latest_runs=tuple(_run_line(listed_run(workspace, run)) for run in newest),
    )


def _run_line(one: "ListedRun") -> ExperimentRunLine:
    run = one.run
    return ExperimentRunLine(
        id=run.id,
        name=run.name,
        state=run.state,
        worker_gone=one.worker_gone,
        version=one.version,
        dataset=one.dataset,
        deployment_id=run.deployment_id,
        tries=run.tries,
        counts=one.counts,
        pass_rate=one.pass_rate,
        gate=None if one.gate is None else "passed" if one.gate else "failed",
        created_at=run.created_at,
    )


def _told(workspace: "Workspace", one: "Experiment", version: "ExperimentVersion") -> ExperimentDetails:
    """Return the details of an experiment, without its runs."""
    from evalscribe.experiments.results import binding_line, dataset_line, models_asked, target_line

    return ExperimentDetails(
        id=one.id,
        name=one.name,
        type=one.type,
        status=one.status,
        collection=one.collection_id,
        version=version.number,
        version_id=version.id,
        versions=len(workspace.store.experiments.experiment_versions(one.id)),
        target=target_line(version.target),
        asks_models=models_asked(version),
        dataset=dataset_line(workspace, version),
        dataset_version_id=version.dataset_version_id,
        scorers=tuple(excerpt(binding_line(binding), LONGEST) for binding in version.bindings),
        config=version.config.model_dump(mode="json", exclude_none=True),
        builds=tuple(map(_build, _builds(workspace, version)))[:MOST_BUILDS],
        runs=(),
        runs_total=0,
        next_offset=None,
    )


def _builds(workspace: "Workspace", version: "ExperimentVersion") -> "Iterator[Deployment]":
    if version.target.type != "component":
        return
    wanted = version.target.component
    for deployment in reversed(workspace.store.experiments.deployments()):
        component = deployment.component(wanted.name)
        if component is not None and component.type == wanted.type:
            yield deployment


def _build(one: "Deployment") -> BuildLine:
    return BuildLine(id=one.id, name=one.name, source=one.build, created_at=one.created_at)


class RecordedDeployment(Frozen):
    written: bool
    message: str
    id: str | None
    """Id for run_experiment; null if nothing was recorded."""
    name: str
    components: tuple[str, ...]
    folder: str
    source: str | None = None
    """The commit, or a note that it is not in git; `(dirty)` means uncommitted changes."""


@dataclass(frozen=True)
class DeploymentTools:
    place: ServerWorkspace

    async def create_deployment(
        self,
        name: Annotated[str, Field(min_length=1, description="Name of the new build, such as a commit.")],
        like: Annotated[
            str, Field(min_length=1, description="The deployment with the same components, by id or name.")
        ],
        ctx: Context,
        write: Annotated[
            bool,
            Field(
                description=(
                    "Record it: import functions and call addresses. Default: false, which only shows what would be "
                    "recorded."
                )
            ),
        ] = False,
    ) -> RecordedDeployment:
        """Record the current source as a new build of components that were deployed before, so that run_experiment can
        test a change. For new components the user runs `evalscribe deployments create`.
        """
        return await with_progress(ctx, lambda _: _recorded(self.place, name, like, write=write))


async def _recorded(place: ServerWorkspace, name: str, like: str, *, write: bool) -> RecordedDeployment:
    from evalscribe.experiments.deployments import create_deployment, find_deployment

    with place.experiments() as workspace:
        before = find_deployment(workspace.store.experiments, like)
        told = RecordedDeployment(
            written=False,
            message="Nothing was recorded. Call again with write=true.",
            id=None,
            name=name,
            components=tuple(f"{one.name}={one.shown}" for one in before.components),
            folder=before.folder,
        )
        if not write:
            return told
        made = await create_deployment(workspace, before.components, folder=Path(before.folder), name=name)
    done = {"written": True, "id": made.deployment.id, "source": made.deployment.build}
    message = f"Recorded; test it in run_experiment with deployment_id `{name}`."
    return told.model_copy(update={**done, "message": message if made.new else f"It already exists. {message}"})
