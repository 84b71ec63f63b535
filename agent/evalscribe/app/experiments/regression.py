"""Turn the failures of a run into a dataset with an experiment of its own, so that what is fixed stays fixed."""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import Field

from evalscribe.analysis import FindingSummary
from evalscribe.app import deployments
from evalscribe.app.datasets.adding import created as dataset_created
from evalscribe.app.datasets.upload import batches
from evalscribe.app.experiment_desk import ExperimentDesk
from evalscribe.app.experiments.create import as_wanted, checked_name, created
from evalscribe.app.experiments.find import experiment_of, require_ended, version_of_run
from evalscribe.app.experiments.launch import NewRun, launched
from evalscribe.app.experiments.regression_items import Failed, of_experiment, of_stored, with_finding
from evalscribe.app.experiments.target import component_of
from evalscribe.app.reports.reported import findings_of
from evalscribe.dataset import DatasetVersion, Item
from evalscribe.errors import NotFoundError, UsageError
from evalscribe.evaluate.regression import Label, Picked, picked
from evalscribe.experiment import ComponentTarget, Config, Experiment, ExperimentRun, ExperimentVersion, Target
from evalscribe.finding import Classification
from evalscribe.ids import Frozen
from evalscribe.ports import Library, Store
from evalscribe.prose import counted
from evalscribe.run_summary import RunReport


@dataclass(frozen=True)
class RegressionDesk:
    experiments: ExperimentDesk
    store: Store
    library: Library


class RegressionWish(Frozen):
    """Options of the command; `name` is that of the dataset and of its experiment."""

    name: str
    run_item_ids: tuple[str, ...] = ()
    classifications: tuple[Classification, ...] = ()
    reviewed_only: bool = False
    start_run: bool = False
    deployment: str | None = None
    """Id or name of the build that the run tries."""
    budget_usd: float | None = None
    dry_run: bool = False
    """Whether it is only counted what would be made."""


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


def regression(desk: RegressionDesk, named: str, wish: RegressionWish) -> tuple[RegressionMade, ExperimentRun | None]:
    """What was made, and the run that is queued, where one was asked for.

    Whatever is wrong with the wish is said before anything is made: `UsageError`, `NotFoundError`.
    """
    run = desk.experiments.runs.run(named)
    _check(desk.experiments, run, wish)
    failed = _failed(desk, run, named, wish)
    found = picked(failed.failures, *_label(desk, failed.run_id, wish))
    items, unusable = _items(desk.store, failed, found)
    made = RegressionMade(
        parent_run_id=failed.run_id, left_out=dict(found.left_out), notes=_notes(failed, unusable, run)
    )
    if not items or wish.dry_run:
        return made.model_copy(update={"items": len(items)}), None
    version = _dataset(desk.experiments, wish.name, failed.run_id, items)
    made = made.model_copy(
        update={"dataset_id": version.dataset_id, "dataset_version_id": version.id, "items": version.items}
    )
    return _tried(desk.experiments, run, version, wish, made) if run else (made, None)


def _check(desk: ExperimentDesk, run: ExperimentRun | None, wish: RegressionWish) -> None:
    checked_name(wish.name)
    if desk.datasets.find(wish.name):
        raise UsageError(f"--name {wish.name}: there is a dataset of this name already; nothing was made")
    if run and desk.definitions.experiment(wish.name):
        raise UsageError(f"--name {wish.name}: there is an experiment of this name already; nothing was made")
    if wish.reviewed_only and not wish.classifications:
        raise UsageError("--reviewed-only is about labels: say which with --classification")
    if wish.deployment and not wish.start_run:
        raise UsageError("--deployment-id says which build to run: give --start-run as well")
    if run is None and (wish.run_item_ids or wish.start_run):
        what = "--run-item-id" if wish.run_item_ids else "--start-run"
        raise UsageError(f"{what} needs a run of an experiment; for others a dataset is all that can be made")
    if run:
        require_ended(run, "its failures are known when it has ended")
    if run and wish.deployment:
        _build(desk, version_of_run(desk, run).target, wish.deployment)


def _build(desk: ExperimentDesk, target: Target, deployment: str) -> None:
    if not isinstance(target, ComponentTarget):
        raise UsageError(f"--deployment-id has no meaning: the experiment's target is a {target.type}")
    component_of(deployments.found(desk.definitions, deployment), target.component.name, target.component.type)


def _failed(desk: RegressionDesk, run: ExperimentRun | None, named: str, wish: RegressionWish) -> Failed:
    if run is None:
        return of_stored(desk.store, desk.experiments.archive, named)
    return of_experiment(desk.experiments, run, wish.run_item_ids)


def _label(
    desk: RegressionDesk, run_id: str, wish: RegressionWish
) -> tuple[Mapping[str, FindingSummary], Label | None]:
    """What the run's report says, where that decides."""
    if not wish.classifications:
        return {}, None
    run = desk.experiments.archive.run(run_id) or desk.store.get_run(run_id)
    findings = findings_of(desk.library, run) if run else {}
    if not findings:
        raise NotFoundError(
            f"no report says whose fault the failures of run {run_id} are: `evalscribe analyze {run_id}`"
        )
    return findings, Label(frozenset(wish.classifications), wish.reviewed_only)


def _items(store: Store, failed: Failed, found: Picked) -> tuple[list[Item], int]:
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
            f"{counted(failed.broken, 'item')} gave no answer or could not be scored; that is no failure: "
            "take them with --run-item-id"
        )
    if unusable:
        notes.append(f"{counted(unusable, 'failure')} left out: the run does not say what was asked")
    if run is None:
        notes.append(
            "no experiment made this run: `evalscribe experiments create --dataset-id …` binds a target to the dataset"
        )
    return tuple(notes)


def _dataset(desk: ExperimentDesk, name: str, run_id: str, items: list[Item]) -> DatasetVersion:
    dataset = dataset_created(desk.datasets, name, f"Failures of run {run_id}", desk.now())
    for some in batches(items):
        desk.datasets.put(dataset.id, some)
    return desk.datasets.publish(dataset.id, desk.now(), provenance="derived", parent_run_id=run_id)


def _tried(
    desk: ExperimentDesk, run: ExperimentRun, dataset: DatasetVersion, wish: RegressionWish, made: RegressionMade
) -> tuple[RegressionMade, ExperimentRun | None]:
    experiment, version = _experiment(desk, run, dataset, wish.name)
    made = made.model_copy(update={"experiment_id": experiment.id, "experiment_version_id": version.id})
    if not wish.start_run:
        return made, None
    started = launched(desk, experiment, NewRun(deployment=wish.deployment, budget_usd=wish.budget_usd))
    return made.model_copy(update={"run_id": started.id}), started


def _experiment(
    desk: ExperimentDesk, run: ExperimentRun, dataset: DatasetVersion, name: str
) -> tuple[Experiment, ExperimentVersion]:
    """The same target in the build that failed, the same scorers; every item has to pass."""
    before = version_of_run(desk, run)
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
        "config": Config(**runs_as, passed_threshold=1.0),
    }
    return created(desk, as_wanted(experiment_of(desk, run), before).model_copy(update=changes))
