"""Find experiments, versions, runs, items and trials by the name or id that a user gives."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from evalscribe.collections.other_ids import describe_other_id
from evalscribe.errors import NotFoundError, UsageError
from evalscribe.model.dataset import DatasetVersion, Item
from evalscribe.model.experiment import PREVIOUS, Experiment, ExperimentRun, ExperimentVersion, ItemTrial
from evalscribe.model.score import Score, ScoreQuery
from evalscribe.store.lookup import LATEST, find_by_prefix, find_stored, find_version, nearest, version_not_found
from evalscribe.text import join_first
from evalscribe.workspace import Workspace

if TYPE_CHECKING:
    from evalscribe.store.experiment_runs import ExperimentRunStore

LOGS = "logs"
"""Name of the folder, inside the store's folder, in which workers write their logs."""


def experiment_named(workspace: Workspace, name_or_id: str) -> Experiment:
    """Find an experiment by name, by id, or by the beginning of an id.

    Raises `NotFoundError` if no experiment matches, and `UsageError` if several ids match.
    """
    store = workspace.store.experiments
    return find_stored("experiment", name_or_id, store.experiment(name_or_id), store.experiments, "experiments create")


def version_named(workspace: Workspace, experiment: Experiment, number_or_id: str | None) -> ExperimentVersion:
    """Find a version by id or number; None stands for the experiment's latest version.

    Raises `NotFoundError`, with the known versions, if there is no such version.
    """
    versions = workspace.store.experiments.experiment_versions(experiment.id)
    # The experiment's latest version is not always its newest version, because `run --config` makes versions for one
    # run.
    requested = experiment.latest_version_id if number_or_id in (None, LATEST) else number_or_id
    version = find_version(versions, requested)
    if version is None:
        raise version_not_found(f"experiment {experiment.name}", requested, versions)
    return version


def run_named(workspace: Workspace, name_or_id: str) -> ExperimentRun:
    """Find a run by id, by name or by the beginning of an id.

    Raises `NotFoundError` if no run matches, `UsageError` if several runs match.
    """
    store = workspace.store.experiment_runs
    if stored_run := store.run(name_or_id):
        return stored_run
    if (id := find_by_prefix("run", name_or_id, store.ids("run", name_or_id))) and (stored_run := store.run(id)):
        return stored_run
    if message := describe_other_id(workspace, name_or_id):
        raise NotFoundError(message)
    names = list(dict.fromkeys(run.name or run.id for run in store.runs()))
    hint = (
        f"{nearest(name_or_id, names).replace('available:', 'recent runs:')}; "
        "`evalscribe experiments runs list EXPERIMENT` lists all"
        if names
        else "nothing has run yet: start a run with `evalscribe experiments run EXPERIMENT`"
    )
    raise NotFoundError(f"run {name_or_id[:80]!r} not found; {hint}")


def baseline_named(workspace: Workspace, name_or_id: str, run: ExperimentRun) -> ExperimentRun:
    """Find the baseline of `run`: its previous run if `name_or_id` is `previous`, else the run with that name or id."""
    if name_or_id != PREVIOUS:
        return run_named(workspace, name_or_id)
    if (previous := previous_run(workspace, run)) is None:
        raise NotFoundError(f"run {run.name or run.id} has no previous run with scores on the same items")
    return previous


def previous_run(workspace: Workspace, run: ExperimentRun) -> ExperimentRun | None:
    """Return the latest earlier run of the experiment that completed on the same dataset version and has verdicts."""
    store = workspace.store.experiment_runs
    runs = store.runs(run.experiment_id)
    earlier = runs[: next(number for number, other_run in enumerate(runs) if other_run.id == run.id)]
    for other_run in reversed(earlier):
        is_comparable = other_run.state == "completed" and other_run.dataset_version_id == run.dataset_version_id
        if is_comparable and {"passed", "failed"} & store.tally(other_run.id).keys():
            return other_run
    return None


def run_of_experiment(workspace: Workspace, names: Sequence[str]) -> ExperimentRun:
    """Find a run. `names` contains the run's name, or the experiment's name followed by the run's name.

    Raises `UsageError` if the run belongs to another experiment.
    """
    if len(names) > 2:
        raise UsageError("too many names: give one run, or an experiment followed by its run")
    run = run_named(workspace, names[-1])
    if len(names) == 2 and experiment_named(workspace, names[0]).id != run.experiment_id:
        raise UsageError(f"run {run.id} does not belong to experiment {names[0]}")
    return run


def experiment_of(workspace: Workspace, run: ExperimentRun) -> Experiment:
    experiment = workspace.store.experiments.experiment(run.experiment_id)
    if experiment is None:
        raise NotFoundError(f"experiment {run.experiment_id} of run {run.id} is not in the store")
    return experiment


def require_ended(run: ExperimentRun, reason: str) -> None:
    """Raise `UsageError` unless the run has ended.

    Args:
        reason: Why the run must have ended, such as `its gate is decided when it has ended`.
    """
    if not run.terminal:
        raise UsageError(
            f"run {run.name or run.id} is {run.state}: {reason}.\n"
            f"Wait for the run: `evalscribe experiments runs wait {run.id}`."
        )


def version_of_run(workspace: Workspace, run: ExperimentRun) -> ExperimentVersion:
    """Return the experiment version that the run uses."""
    version = workspace.store.experiments.experiment_version(run.experiment_version_id)
    if version is None:
        raise NotFoundError(f"version {run.experiment_version_id} of run {run.id} is not in the store")
    return version


MOST_SPLITS = 10
"""Maximum number of splits listed in the error message if the requested split does not exist."""


def numbered_items(workspace: Workspace, run: ExperimentRun) -> Iterator[tuple[int, Item]]:
    """Yield each item that the run covers, with the item's index in the dataset version."""
    split = version_of_run(workspace, run).config.split
    numbered = enumerate(workspace.store.datasets.items(run.dataset_version_id))
    return ((number, item) for number, item in numbered if split is None or item.split == split)


def items_of(workspace: Workspace, run: ExperimentRun) -> Iterator[Item]:
    return (item for _, item in numbered_items(workspace, run))


def number_of_items(workspace: Workspace, dataset_version_id: str, split: str | None) -> int:
    """Return the number of items in a split, or in the whole version.

    Raises `NotFoundError` if the version does not exist, `UsageError` if the split is empty.
    """
    version = workspace.store.datasets.version(dataset_version_id)
    if version is None:
        raise NotFoundError(f"dataset version {dataset_version_id} is not in the store")
    if split is None:
        return version.items
    splits = Counter(item.split for item in workspace.store.datasets.items(version.id) if item.split is not None)
    if split not in splits:
        raise UsageError(_empty_split_message(workspace, version, split, splits), fields=("config",))
    return splits[split]


def _empty_split_message(workspace: Workspace, version: DatasetVersion, split: str, splits: Counter[str]) -> str:
    dataset = workspace.store.datasets.find(version.dataset_id)
    name = dataset.name if dataset else version.dataset_id
    split_list = join_first(
        [f"{split_name} ({number:,})" for split_name, number in sorted(splits.items())], MOST_SPLITS
    )
    advice = f"to split it, run `evalscribe datasets split {name}`, then `evalscribe datasets publish {name}`"
    problem = f"splits: {split_list}" if splits else f"the dataset is not split; {advice}"
    return f"`config`: split {split!r} of {name}@{version.number} has no items; {problem}"


class StoredTrial(NamedTuple):
    item: Item
    trial: ItemTrial
    scores: tuple[Score, ...]
    """The trial's current scores, in the order in which they were created."""


class PlannedTrial(NamedTuple):
    item: Item
    repetition: int
    """Number of the repetition, from 1."""
    stored: StoredTrial | None
    """The trial with its scores; None if the trial has not run."""


def stored_trials(workspace: Workspace, run: ExperimentRun) -> Iterator[StoredTrial]:
    """Return the trials that have run, in the order of `planned_trials`."""
    return (
        planned_trial.stored for planned_trial in planned_trials(workspace, run) if planned_trial.stored is not None
    )


def planned_trials(workspace: Workspace, run: ExperimentRun) -> Iterator[PlannedTrial]:
    """Yield all planned trials, item by item in the order of the dataset. Trials are read one page at a time."""
    # Items, trials and scores are read in the same order, so they are merged
    # without holding more than one page of each.
    trials = workspace.store.experiment_runs.attempts(run.id)
    trial = next(trials, None)
    scored = groupby(
        workspace.store.experiment_runs.scores(ScoreQuery(run_id=run.id)), key=lambda score: score.run_item_id
    )
    scored_id, item_scores = next(scored, (None, iter(())))
    for item in items_of(workspace, run):
        for repetition in range(1, run.repetitions + 1):
            if trial is None or (trial.item.item_key, trial.item.repetition) != (item.key, repetition):
                yield PlannedTrial(item, repetition, None)
                continue
            scores: tuple[Score, ...] = ()
            if scored_id == trial.item.id:
                # Read completely before the next group, because all groups share one iterator.
                scores = tuple(item_scores)
                scored_id, item_scores = next(scored, (None, iter(())))
            yield PlannedTrial(item, repetition, StoredTrial(item, trial, scores))
            trial = next(trials, None)


DEAD_S = 15.0
"""Seconds without a heartbeat after which the worker's claim is checked."""
STARTING = "a starting worker"
STARTING_S = 180.0
"""Seconds without a first heartbeat after which the worker's claim is checked. On a busy machine, a process took over
15 seconds to start."""


def has_no_worker(runs: "ExperimentRunStore", run: ExperimentRun) -> bool:
    """Return whether an unfinished run has lost its worker.

    A worker is lost if the run's last heartbeat is too old and no process holds the run's claim.
    """
    timeout_s = STARTING_S if run.worker in (None, STARTING) else DEAD_S
    if run.terminal or _age_s(run.heartbeat_at or run.created_at) < timeout_s:
        return False
    with runs.claim(run.id) as claimed:
        if not claimed:
            return False
    # Read again, because the run may have ended, or another worker may have started, since `run` was read.
    current = runs.run(run.id)
    return current is not None and not current.terminal and current.heartbeat_at == run.heartbeat_at


def _age_s(timestamp: str) -> float:
    return (datetime.now(UTC) - datetime.fromisoformat(timestamp)).total_seconds()
