"""Turn the failures of a run into a dataset with an experiment of its own, so that what is fixed stays fixed."""

from collections.abc import Mapping, Sequence

from pydantic import Field

from evalscribe.app import deployments
from evalscribe.app.datasets.adding import created as dataset_created
from evalscribe.app.datasets.upload import batches
from evalscribe.app.experiments.create import as_wanted, checked_name, created
from evalscribe.app.experiments.find import experiment_of, require_ended, version_of_run
from evalscribe.app.experiments.launch import launched, planned
from evalscribe.app.experiments.regression_items import Failed, of_experiment, of_stored, with_finding
from evalscribe.app.reports.reported import findings_of
from evalscribe.errors import NotFoundError, UsageError
from evalscribe.experiments.regression import LabelFilter, SelectedFailures, select_failures
from evalscribe.ids import Frozen
from evalscribe.model.analysis import FindingSummary
from evalscribe.model.dataset import DatasetVersion, Item
from evalscribe.model.experiment import (
    ComponentTarget,
    Experiment,
    ExperimentConfig,
    ExperimentRun,
    ExperimentVersion,
    RunReport,
    TargetSpec,
)
from evalscribe.model.finding import Classification
from evalscribe.model.storage import Store
from evalscribe.text import pluralise
from evalscribe.workspace import Workspace


class RegressionMade(Frozen):
    """What was made; nothing where there was no failure."""

    parent_run_id: str
    dataset_id: str | None = None
    dataset_version_id: str | None = None
    items: int = 0
    experiment_id: str | None = None
    """None where no experiment made the run."""
    experiment_version_id: str | None = None
    run_id: str | None = None
    """None where none was started."""
    left_out: dict[str, int] = Field(default_factory=dict)
    """Failed items that were not taken, by why."""
    notes: tuple[str, ...] = ()
    report: RunReport | None = None
    """Of the run, where it was waited for."""


def regression(
    workspace: Workspace,
    named: str,
    *,
    name: str,
    run_item_ids: Sequence[str] = (),
    classifications: Sequence[Classification] = (),
    reviewed_only: bool = False,
    start_run: bool = False,
    deployment: str | None = None,
    budget_usd: float | None = None,
    dry_run: bool = False,
) -> tuple[RegressionMade, ExperimentRun | None]:
    """What was made, and the run that is queued, if one was asked for.

    Args:
        workspace: Where the run is.
        named: A run of an experiment, or one that was imported or analysed.
        name: Of the dataset and of its experiment.
        run_item_ids: The tries to take; none for all that failed.
        classifications: Take only failures that the run's report classifies so; none for all.
        reviewed_only: Whether only those count whose label a person gave or confirmed.
        start_run: Whether the new experiment is run.
        deployment: Id or name of the build that the run tries.
        budget_usd: What the run's models may cost.
        dry_run: Whether it is only counted what would be made.

    Raises:
        UsageError: An option is wrong; nothing was made.
        NotFoundError: Something named is not there; nothing was made.
    """
    run = workspace.store.experiment_runs.run(named)
    _check_name(workspace, run, name)
    if reviewed_only and not classifications:
        raise UsageError("--reviewed-only is about labels: say which with --classification")
    if deployment and not start_run:
        raise UsageError("--deployment-id says which build to run: give --start-run as well")
    if run is None and (run_item_ids or start_run):
        what = "--run-item-id" if run_item_ids else "--start-run"
        raise UsageError(f"{what} needs a run of an experiment; for others a dataset is all that can be made")
    if run:
        require_ended(run, "its failures are known when it has ended")
    if run and deployment:
        _check_build(workspace, version_of_run(workspace, run).target, deployment)
    if run is None:
        failed = of_stored(workspace.store.analyses, workspace.store.runs, named)
    else:
        failed = of_experiment(workspace, run, run_item_ids)
    findings = _findings(workspace, failed.run_id) if classifications else {}
    label = LabelFilter(frozenset(classifications), reviewed_only) if classifications else None
    found = select_failures(failed.failures, findings, label)
    items, unusable = _items(workspace.store.analyses, failed, found)
    made = RegressionMade(
        parent_run_id=failed.run_id, left_out=dict(found.left_out), notes=_notes(failed, unusable, run)
    )
    if not items or dry_run:
        return made.model_copy(update={"items": len(items)}), None
    version = _dataset(workspace, name, failed.run_id, items)
    made = made.model_copy(
        update={"dataset_id": version.dataset_id, "dataset_version_id": version.id, "items": version.items}
    )
    if run is None:
        return made, None
    experiment, tried = _experiment(workspace, run, version, name)
    made = made.model_copy(update={"experiment_id": experiment.id, "experiment_version_id": tried.id})
    if not start_run:
        return made, None
    started = launched(workspace, planned(workspace, experiment, deployment=deployment, budget_usd=budget_usd))
    return made.model_copy(update={"run_id": started.id}), started


def _check_name(workspace: Workspace, run: ExperimentRun | None, name: str) -> None:
    checked_name(name)
    if workspace.store.datasets.find(name):
        raise UsageError(f"--name {name}: there is a dataset of this name already; nothing was made")
    if run and workspace.store.experiments.experiment(name):
        raise UsageError(f"--name {name}: there is an experiment of this name already; nothing was made")


def _check_build(workspace: Workspace, target: TargetSpec, deployment: str) -> None:
    if not isinstance(target, ComponentTarget):
        raise UsageError(f"--deployment-id has no meaning: the experiment's target is a {target.type}")
    build = deployments.found(workspace.store.experiments, deployment)
    deployments.component_of(build, target.component.name, target.component.type)


def _findings(workspace: Workspace, run_id: str) -> Mapping[str, FindingSummary]:
    """What the run's report says."""
    run = workspace.store.runs.run(run_id) or workspace.store.analyses.get_run(run_id)
    findings = findings_of(workspace.reports, run) if run else {}
    if not findings:
        raise NotFoundError(
            f"no report says whose fault the failures of run {run_id} are: `evalscribe analyze {run_id}`"
        )
    return findings


def _items(store: Store, failed: Failed, found: SelectedFailures) -> tuple[list[Item], int]:
    """And how many failures cannot be an item."""
    reviewers = {
        label.eval: label.reviewer for label in store.labels() if label.run == failed.run_id and label.in_force
    }
    made = [
        with_finding(item, finding, reviewers.get(failure.path))
        for failure, finding in found.failures
        if (item := failed.item(failure)) is not None
    ]
    return made, len(found.failures) - len(made)


def _notes(failed: Failed, unusable: int, run: ExperimentRun | None) -> tuple[str, ...]:
    notes = []
    if failed.broken:
        notes.append(
            f"{pluralise(failed.broken, 'item')} gave no answer or could not be scored; that is no failure: "
            "take them with --run-item-id"
        )
    if unusable:
        notes.append(f"{pluralise(unusable, 'failure')} left out: the run does not say what was asked")
    if run is None:
        notes.append(
            "no experiment made this run: `evalscribe experiments create --dataset-id …` binds a target to the dataset"
        )
    return tuple(notes)


def _dataset(workspace: Workspace, name: str, run_id: str, items: list[Item]) -> DatasetVersion:
    dataset = dataset_created(workspace.store.datasets, name, f"Failures of run {run_id}", workspace.now())
    for some in batches(items):
        workspace.store.datasets.put(dataset.id, some)
    return workspace.store.datasets.publish(dataset.id, workspace.now(), provenance="derived", parent_run_id=run_id)


def _experiment(
    workspace: Workspace, run: ExperimentRun, dataset: DatasetVersion, name: str
) -> tuple[Experiment, ExperimentVersion]:
    """The same target in the build that failed, the same scorers; every item has to pass."""
    before = version_of_run(workspace, run)
    target = before.target
    if isinstance(target, ComponentTarget) and run.deployment_id:
        target = target.model_copy(update={"deployment_id": run.deployment_id})
    runs_as = before.config.model_dump(include={"repetitions", "concurrency", "timeout_s"})
    changes = {
        "name": name,
        "type": "regression",
        "target": target,
        "dataset_id": dataset.dataset_id,
        "dataset_version_id": dataset.id,
        "config": ExperimentConfig(**runs_as, passed_threshold=1.0),
    }
    return created(workspace, as_wanted(experiment_of(workspace, run), before).model_copy(update=changes))
