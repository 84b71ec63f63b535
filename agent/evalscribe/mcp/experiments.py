"""MCP tools for experiments, deployments and datasets."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from mcp.server.mcpserver import Context
from pydantic import Field, JsonValue

from evalscribe.experiments.datasets import list_datasets, list_items, summarise_dataset
from evalscribe.experiments.deployments import check_build, find_deployment, record_build
from evalscribe.experiments.lookup import experiment_named, version_named
from evalscribe.experiments.regression import RegressionMade, create_regression_dataset
from evalscribe.experiments.results import (
    ListedExperiment,
    ListedRun,
    binding_line,
    called_models,
    dataset_line,
    list_experiments,
    listed_run,
    target_line,
)
from evalscribe.ids import Frozen
from evalscribe.mcp import tool
from evalscribe.mcp.context import NO_EXPERIMENT, ServerWorkspace
from evalscribe.mcp.progress import with_progress
from evalscribe.mcp.tool import NOTICE, excerpt, first_fitting, page_of, replace_commands
from evalscribe.model.dataset import Dataset, DatasetVersion, Item
from evalscribe.model.experiment import Experiment, ExperimentVersion, TrialCounts
from evalscribe.model.finding import Classification
from evalscribe.model.target import Deployment
from evalscribe.store.lookup import LATEST, find_dataset, find_dataset_version
from evalscribe.workspace import Workspace

if TYPE_CHECKING:
    from evalscribe.store.datasets import DatasetStore

MOST_CHARACTERS = 40_000
LONGEST = 300
MOST_BUILDS = 20
LATEST_RUNS = 3


class ExperimentRunLine(Frozen):
    id: str
    name: str | None
    state: str
    worker_gone: bool
    """True if the run has not ended, but its worker no longer exists.

    The tool resume_experiment_run continues such a run.
    """
    version: int
    """Number of the experiment's version that was run."""
    dataset: str
    """The dataset version that was used, as `name@number` or `name@number:split`."""
    deployment_id: str | None
    """Id of the deployment (the build) that was tested."""
    tries: int
    counts: TrialCounts
    pass_rate: float
    """Share of all trials that passed."""
    gate: Literal["passed", "failed"] | None
    """Result of the gate; null before the run has ended."""
    created_at: str


class ExperimentLine(Frozen):
    id: str
    name: str
    type: str
    status: str
    version: int
    """Number of the experiment's latest version."""
    target: str
    dataset: str
    scorers: tuple[str, ...]
    runs: int
    latest_runs: tuple[ExperimentRunLine, ...]
    """The latest runs, newest first."""


class ExperimentList(Frozen):
    experiments: tuple[ExperimentLine, ...]
    next_offset: int | None
    next: str | None = None
    """Next step if there is no experiment; otherwise null."""


class BuildLine(Frozen):
    id: str
    name: str
    source: str
    """The commit of the source, or a note that the source is not in git.

    `(dirty)` means that there were uncommitted changes.
    """
    created_at: str


class ExperimentDetails(Frozen):
    id: str
    name: str
    type: str
    status: str
    collection: str
    """Id of the collection that has the experiment's runs, for the tools list_evals, get_eval and execute_sql."""
    version: int
    version_id: str
    versions: int
    """Number of versions that the experiment has."""
    target: str
    asks_models: tuple[str, ...]
    """Names of the models that the target and the scorers call.

    Models that a component calls by itself are not included. If there are any names, `budget_usd` must be set to start
    a run.
    """
    dataset: str
    dataset_version_id: str
    scorers: tuple[str, ...]
    config: dict[str, JsonValue]
    """Configuration of the runs and of the gate. If no gate is configured, every item must pass."""
    builds: tuple[BuildLine, ...]
    """Deployments that have the experiment's component, newest first. The tool run_experiment can test any of them."""
    runs: tuple[ExperimentRunLine, ...]
    """The runs, newest first."""
    runs_total: int
    next_offset: int | None


@dataclass(frozen=True)
class ExperimentTools:
    server_workspace: ServerWorkspace

    def list_experiments(
        self,
        dataset: Annotated[str | None, Field(description="Only experiments on this dataset, by name or id.")] = None,
        limit: Annotated[int, Field(ge=1, le=100, description="Maximum number of experiments.")] = 20,
        offset: tool.Offset = 0,
    ) -> ExperimentList:
        """List experiments, oldest first: target (a build, a prompt or a judge), dataset, scorers, and the latest runs
        with their pass rate and whether the gate passed.
        """
        if not self.server_workspace.has_store():
            return ExperimentList(experiments=(), next_offset=None, next=NO_EXPERIMENT)
        with self.server_workspace.experiments() as workspace:
            # One more experiment than the page has tells whether there is a next page.
            experiments = list_experiments(workspace, dataset=dataset, page_size=offset + limit + 1)
            page, _ = page_of(experiments, offset, limit)
            lines = first_fitting((_line(workspace, experiment) for experiment in page), MOST_CHARACTERS)
        end = offset + len(lines)
        next_offset = end if end < len(experiments) else None
        return ExperimentList(
            experiments=lines, next_offset=next_offset, next=None if experiments or dataset else NO_EXPERIMENT
        )

    def get_experiment(
        self,
        experiment: tool.Experiment,
        version: Annotated[str | None, Field(description="A version's number or id. Default: the latest.")] = None,
        limit: Annotated[int, Field(ge=1, le=100, description="Maximum number of runs.")] = 10,
        offset: tool.Offset = 0,
    ) -> ExperimentDetails:
        """Show an experiment: target, dataset, scorers, gate, builds that can be run, and its runs, newest first."""
        with self.server_workspace.experiments() as workspace:
            stored_experiment = experiment_named(workspace, experiment)
            runs = workspace.store.experiment_runs.runs(stored_experiment.id)[::-1]
            page, next_offset = page_of(runs, offset, limit)
            lines = tuple(_run_line(listed_run(workspace, run)) for run in page)
            details = _details(workspace, stored_experiment, version_named(workspace, stored_experiment, version))
        return details.model_copy(update={"runs": lines, "runs_total": len(runs), "next_offset": next_offset})


def _line(workspace: Workspace, listed: ListedExperiment) -> ExperimentLine:
    # The store returns the oldest run first; the slice takes the last `LATEST_RUNS` runs in reverse.
    newest = workspace.store.experiment_runs.runs(listed.experiment.id)[: -LATEST_RUNS - 1 : -1]
    return ExperimentLine(
        id=listed.experiment.id,
        name=listed.experiment.name,
        type=listed.experiment.type,
        status=listed.experiment.status,
        version=listed.version,
        target=listed.target,
        dataset=listed.dataset,
        scorers=listed.scorers,
        runs=listed.runs,
        latest_runs=tuple(_run_line(listed_run(workspace, run)) for run in newest),
    )


def _run_line(listed: ListedRun) -> ExperimentRunLine:
    run = listed.run
    return ExperimentRunLine(
        id=run.id,
        name=run.name,
        state=run.state,
        worker_gone=listed.worker_gone,
        version=listed.version,
        dataset=listed.dataset,
        deployment_id=run.deployment_id,
        tries=run.tries,
        counts=listed.counts,
        pass_rate=listed.pass_rate,
        gate=None if listed.gate is None else "passed" if listed.gate else "failed",
        created_at=run.created_at,
    )


def _details(workspace: Workspace, experiment: Experiment, version: ExperimentVersion) -> ExperimentDetails:
    """Return the details of an experiment without its runs, which the caller adds."""
    return ExperimentDetails(
        id=experiment.id,
        name=experiment.name,
        type=experiment.type,
        status=experiment.status,
        collection=experiment.collection_id,
        version=version.number,
        version_id=version.id,
        versions=len(workspace.store.experiments.experiment_versions(experiment.id)),
        target=target_line(version.target),
        asks_models=called_models(version),
        dataset=dataset_line(workspace, version),
        dataset_version_id=version.dataset_version_id,
        scorers=tuple(excerpt(binding_line(binding), LONGEST) for binding in version.bindings),
        config=version.config.model_dump(mode="json", exclude_none=True),
        builds=tuple(map(_build, _builds(workspace, version)))[:MOST_BUILDS],
        runs=(),
        runs_total=0,
        next_offset=None,
    )


def _builds(workspace: Workspace, version: ExperimentVersion) -> Iterator[Deployment]:
    if version.target.type != "component":
        return
    target = version.target.component
    for deployment in reversed(workspace.store.experiments.deployments()):
        component = deployment.component(target.name)
        if component is not None and component.type == target.type:
            yield deployment


def _build(deployment: Deployment) -> BuildLine:
    return BuildLine(id=deployment.id, name=deployment.name, source=deployment.build, created_at=deployment.created_at)


class RecordedDeployment(Frozen):
    written: bool
    message: str
    id: str | None
    """Id of the deployment (the build), for the tool run_experiment. Null if nothing was recorded."""
    name: str
    components: tuple[str, ...]
    folder: str
    source: str | None = None
    """The commit of the source, or a note that the source is not in git.

    `(dirty)` means that there were uncommitted changes.
    """


@dataclass(frozen=True)
class DeploymentTools:
    server_workspace: ServerWorkspace

    async def create_deployment(
        self,
        name: Annotated[str, Field(min_length=1, description="Name of the new build, such as a commit.")],
        like: Annotated[str, Field(min_length=1, description="A deployment with the same components, by id or name.")],
        ctx: Context,
        write: Annotated[
            bool,
            Field(
                description=(
                    "Record the build, which imports its functions and calls its addresses. Default: false, which only "
                    "shows what would be recorded."
                )
            ),
        ] = False,
    ) -> RecordedDeployment:
        """Record the current source as a new build of components that were deployed before, so that run_experiment can
        test a change. For new components the user runs `evalscribe experiments deployments create`.
        """
        return await with_progress(ctx, lambda _: _record(self.server_workspace, name, like, write=write))


async def _record(server_workspace: ServerWorkspace, name: str, like: str, *, write: bool) -> RecordedDeployment:
    with server_workspace.experiments() as workspace:
        deployment = find_deployment(workspace.store.experiments, like)
        answer = RecordedDeployment(
            written=False,
            message="Nothing was recorded. Call again with write=true.",
            id=None,
            name=name,
            components=tuple(f"{component.name}={component.shown}" for component in deployment.components),
            folder=deployment.folder,
        )
        if not write:
            return answer
        checked = await check_build(workspace, deployment.components, folder=Path(deployment.folder), name=name)
        recorded = record_build(workspace, checked)
    fields = {"written": True, "id": recorded.deployment.id, "source": recorded.deployment.build}
    message = f"Recorded; test it in run_experiment with deployment_id `{name}`."
    return answer.model_copy(update={**fields, "message": message if recorded.new else f"It already exists. {message}"})


DRAFT = "draft"
MOST_VERSIONS = 20
MOST_SPLITS = 50


class DatasetLine(Frozen):
    id: str
    name: str
    description: str
    draft_items: int
    versions: int
    latest: DatasetVersion | None


class DatasetList(Frozen):
    datasets: tuple[DatasetLine, ...]
    total: int
    next_offset: int | None
    next: str | None = None
    """Next step if there is no dataset; otherwise null."""


class DatasetItemLine(Frozen):
    """An item of a dataset. Long values in it are cut."""

    key: str
    split: str | None
    cluster: str | None
    input: str
    expected_output: str | None
    metadata: str | None
    source: str | None
    """Origin of the item, such as a stored run."""
    events: int
    """Number of messages in the recorded trace of the item."""


class DatasetDetails(Frozen):
    id: str
    name: str
    description: str
    versions: tuple[DatasetVersion, ...]
    """The versions, newest first."""
    versions_total: int
    draft_items: int
    draft_is: int | None
    """Number of the version that has the same content as the draft; null if there is none."""
    draft_splits: dict[str, int]
    shown: str
    """The version whose items are listed, as its number or `draft`."""
    items: tuple[DatasetItemLine, ...]
    total: int
    """Total number of items in the requested split or, if no split was requested, in the version."""
    next_offset: int | None
    notice: str = NOTICE.replace("`text`", "What `items` hold")


class RegressionDataset(Frozen):
    written: bool
    message: str
    """Text that states the outcome and what to do next."""
    parent_run_id: str
    dataset_id: str | None
    dataset_version_id: str | None
    items: int
    """Number of items that were added or, if nothing was written, that would be added."""
    experiment_id: str | None
    """Id of the new experiment, in which every item must pass, for the tool run_experiment.

    Null if the run does not belong to an experiment.
    """
    left_out: dict[str, int]
    """Number of failures that were left out, keyed by reason."""
    notes: tuple[str, ...]


@dataclass(frozen=True)
class DatasetTools:
    server_workspace: ServerWorkspace

    def list_datasets(
        self,
        search: Annotated[
            str | None, Field(description="Only datasets with this text in their name or description.")
        ] = None,
        limit: tool.Limit = 50,
        offset: tool.Offset = 0,
    ) -> DatasetList:
        """List the datasets of experiments, with the number of items in the draft and the latest version of each."""
        if not self.server_workspace.has_store():
            return DatasetList(datasets=(), total=0, next_offset=None, next=NO_EXPERIMENT)
        with self.server_workspace.experiments() as workspace:
            datasets = tuple(list_datasets(workspace.store.datasets, search))
        page, next_offset = page_of(datasets, offset, limit)
        lines = (DatasetLine(**summary.model_dump(exclude={"created_at"})) for summary in page)
        return DatasetList(datasets=tuple(lines), total=len(datasets), next_offset=next_offset)

    def get_dataset(
        self,
        dataset: Annotated[str, Field(min_length=1, description="A dataset, by name or id.")],
        version: Annotated[
            str | None, Field(description="A version's number or id, or `draft`. Default: the latest version.")
        ] = None,
        split: Annotated[str | None, Field(description="Only items in this split.")] = None,
        item: Annotated[str | None, Field(description="Only the item with this key.")] = None,
        characters: Annotated[
            int, Field(ge=50, le=20_000, description="Maximum characters of an input, expected output or metadata.")
        ] = 500,
        limit: tool.Limit = 20,
        offset: tool.Offset = 0,
    ) -> DatasetDetails:
        """Read a dataset: its versions, and the items of one version with input and expected output."""
        with self.server_workspace.experiments() as workspace:
            stored_dataset = find_dataset(workspace.store.datasets, dataset)
            summary = summarise_dataset(workspace.store.datasets, stored_dataset)
            name, items = _version_items(workspace.store.datasets, stored_dataset, version)
            matches = [row for row in list_items(items, split) if item in (None, row.key)]
        lines = first_fitting(
            (_dataset_line(row, characters) for row in islice(matches, offset, offset + limit)),
            MOST_CHARACTERS,
        )
        end = offset + len(lines)
        return DatasetDetails(
            id=stored_dataset.id,
            name=stored_dataset.name,
            description=stored_dataset.description,
            versions=summary.versions[::-1][:MOST_VERSIONS],
            versions_total=len(summary.versions),
            draft_items=summary.draft_items,
            draft_is=summary.draft_is,
            draft_splits=dict(islice(summary.splits.items(), MOST_SPLITS)),
            shown=name,
            items=lines,
            total=len(matches),
            next_offset=end if lines and end < len(matches) else None,
        )

    def make_regression_dataset(
        self,
        run: Annotated[
            str, Field(min_length=1, description="A run of an experiment, by id or name, or an imported run.")
        ],
        name: Annotated[str, Field(min_length=1, description="Name of the new dataset and its experiment.")],
        write: Annotated[bool, Field(description="Create it. Default: false, which only counts the items.")] = False,
        run_item_id: Annotated[
            list[str] | None,
            Field(max_length=500, description="Use these trials (`eval_id`) instead of all failed ones."),
        ] = None,
        classification: Annotated[
            list[Classification] | None,
            Field(
                description=(
                    "Only failures with these classifications in the run's report; analyze with write_report creates "
                    "one."
                )
            ),
        ] = None,
        reviewed_only: Annotated[
            bool, Field(description="Only failures whose classification a person gave or confirmed.")
        ] = False,
    ) -> RegressionDataset:
        """Create a published dataset from the failures of a run, and an experiment with the same build and scorers in
        which every item must pass.

        Nothing is run, and without write=true nothing is created.
        """
        with self.server_workspace.experiments() as workspace:
            result, _ = create_regression_dataset(
                workspace,
                run,
                name=name,
                run_item_ids=run_item_id or (),
                classifications=classification or (),
                reviewed_only=reviewed_only,
                dry_run=not write,
            )
        return _regression_answer(result, name)


def _version_items(datasets: "DatasetStore", dataset: Dataset, version: str | None) -> tuple[str, Iterator[Item]]:
    """Return the name and the items of a version.

    If `version` is None, this is the latest version or, if no version was published, the draft.
    """
    if version == DRAFT or (version is None and not datasets.versions(dataset.id)):
        return DRAFT, datasets.draft(dataset.id)
    chosen_version = find_dataset_version(datasets, dataset, version or LATEST)
    return str(chosen_version.number), datasets.items(chosen_version.id)


def _dataset_line(item: Item, characters: int) -> DatasetItemLine:
    return DatasetItemLine(
        key=item.key,
        split=item.split,
        cluster=item.cluster,
        input=excerpt(item.input, characters),
        expected_output=None if item.expected_output is None else excerpt(item.expected_output, characters),
        metadata=excerpt(item.metadata, characters) if item.metadata else None,
        source=excerpt(item.source, characters) if item.source else None,
        events=len(item.events),
    )


def _regression_answer(result: RegressionMade, name: str) -> RegressionDataset:
    if not result.items:
        message = "Nothing was created: no failure was selected."
    elif result.dataset_id is None:
        message = (
            f"Nothing was created: the dataset would have {result.items:,} of the failures. Call again with write=true."
        )
    elif result.experiment_id is None:
        message = f"Dataset {name} was created; give it a target with `evalscribe experiments create`."
    else:
        message = f"Dataset and experiment {name} were created: run_experiment with `{name}` runs the experiment."
    return RegressionDataset(
        written=result.dataset_id is not None,
        message=message,
        notes=tuple(map(replace_commands, result.notes)),
        **result.model_dump(include=set(RegressionDataset.model_fields) - {"written", "message", "notes"}),
    )
