"""Find experiments, versions, runs, items and trials by what a user calls them."""

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
"""Folder of the store in which workers write their logs."""


def experiment_named(workspace: Workspace, named: str) -> Experiment:
    """Find an experiment as in `find_stored`."""
    store = workspace.store.experiments
    return find_stored("experiment", named, store.experiment(named), store.experiments, "experiments create")


def version_named(workspace: Workspace, experiment: Experiment, named: str | None) -> ExperimentVersion:
    """Find a version by id or number; by default the latest. Raises `NotFoundError` listing the known ones."""
    versions = workspace.store.experiments.experiment_versions(experiment.id)
    # The experiment's latest version may not be the newest: `run --config` makes versions for a single run.
    wanted = experiment.latest_version_id if named in (None, LATEST) else named
    found = find_version(versions, wanted)
    if found is None:
        raise version_not_found(f"experiment {experiment.name}", wanted, versions)
    return found


def run_named(workspace: Workspace, named: str) -> ExperimentRun:
    """Find a run by id, name or the beginning of an id. Raises `NotFoundError`, or `UsageError` if several fit."""
    store = workspace.store.experiment_runs
    if found := store.run(named):
        return found
    if (id := find_by_prefix("run", named, store.ids("run", named))) and (found := store.run(id)):
        return found
    if why := describe_other_id(workspace, named):
        raise NotFoundError(why)
    names = list(dict.fromkeys(run.name or run.id for run in store.runs()))
    known = (
        f"{nearest(named, names).replace('available:', 'recent runs:')}; "
        "`evalscribe experiments runs list EXPERIMENT` lists all"
        if names
        else "nothing has run yet: start a run with `evalscribe experiments run EXPERIMENT`"
    )
    raise NotFoundError(f"run {named[:80]!r} not found; {known}")


def baseline_named(workspace: Workspace, named: str, run: ExperimentRun) -> ExperimentRun:
    """Find the baseline of `run`: the previous run if `named` is `previous`, else a run as in `run_named`."""
    if named != PREVIOUS:
        return run_named(workspace, named)
    if (found := previous_run(workspace, run)) is None:
        raise NotFoundError(f"run {run.name or run.id} has no previous run with scores on the same items")
    return found


def previous_run(workspace: Workspace, run: ExperimentRun) -> ExperimentRun | None:
    """Return the experiment's latest earlier run that tried the same items and completed with scores."""
    store = workspace.store.experiment_runs
    runs = store.runs(run.experiment_id)
    earlier = runs[: next(number for number, one in enumerate(runs) if one.id == run.id)]
    for one in reversed(earlier):
        same_items = one.state == "completed" and one.dataset_version_id == run.dataset_version_id
        if same_items and {"passed", "failed"} & store.tally(one.id).keys():
            return one
    return None


def run_of_experiment(workspace: Workspace, named: Sequence[str]) -> ExperimentRun:
    """Find a run by one name, or by two: the experiment's and the run's.

    Raises `UsageError` if the run belongs to another experiment.
    """
    if len(named) > 2:
        raise UsageError("give one run, or an experiment and its run")
    run = run_named(workspace, named[-1])
    if len(named) == 2 and experiment_named(workspace, named[0]).id != run.experiment_id:
        raise UsageError(f"run {run.id} does not belong to experiment {named[0]}")
    return run


def experiment_of(workspace: Workspace, run: ExperimentRun) -> Experiment:
    found = workspace.store.experiments.experiment(run.experiment_id)
    if found is None:
        raise NotFoundError(f"experiment {run.experiment_id} of run {run.id} is not in the store")
    return found


def require_ended(run: ExperimentRun, why: str) -> None:
    """Raise `UsageError` unless the run has ended.

    Args:
        why: The reason, such as `its gate is decided when it has ended`.
    """
    if not run.terminal:
        raise UsageError(
            f"run {run.name or run.id} is {run.state}: {why}.\n"
            f"Wait for it: `evalscribe experiments runs wait {run.id}`."
        )


def version_of_run(workspace: Workspace, run: ExperimentRun) -> ExperimentVersion:
    """Return the experiment version that the run uses."""
    found = workspace.store.experiments.experiment_version(run.experiment_version_id)
    if found is None:
        raise NotFoundError(f"version {run.experiment_version_id} of run {run.id} is not in the store")
    return found


MOST_SPLITS = 10
"""Maximum splits that are listed if the wanted split does not exist."""


def numbered_items(workspace: Workspace, run: ExperimentRun) -> Iterator[tuple[int, Item]]:
    """Yield the items that the run tries, each after its index in the dataset version."""
    split = version_of_run(workspace, run).config.split
    numbered = enumerate(workspace.store.datasets.items(run.dataset_version_id))
    return ((number, item) for number, item in numbered if split is None or item.split == split)


def items_of(workspace: Workspace, run: ExperimentRun) -> Iterator[Item]:
    return (item for _, item in numbered_items(workspace, run))


def number_of_items(workspace: Workspace, dataset_version_id: str, split: str | None) -> int:
    """Count the items. Raises `NotFoundError` if the version does not exist, `UsageError` if the split is empty."""
    version = workspace.store.datasets.version(dataset_version_id)
    if version is None:
        raise NotFoundError(f"dataset version {dataset_version_id} is not in the store")
    if split is None:
        return version.items
    splits = Counter(item.split for item in workspace.store.datasets.items(version.id) if item.split is not None)
    if split not in splits:
        raise UsageError(_no_such(workspace, version, split, splits), fields=("config",))
    return splits[split]


def _no_such(workspace: Workspace, version: DatasetVersion, split: str, splits: Counter[str]) -> str:
    dataset = workspace.store.datasets.find(version.dataset_id)
    name = dataset.name if dataset else version.dataset_id
    there = join_first([f"{one} ({number:,})" for one, number in sorted(splits.items())], MOST_SPLITS)
    deal = f"to split it, run `evalscribe datasets split {name}`, then `evalscribe datasets publish {name}`"
    said = f"splits: {there}" if splits else f"the dataset is not split; {deal}"
    return f"`config`: split {split!r} of {name}@{version.number} has no items; {said}"


class StoredTrial(NamedTuple):
    item: Item
    attempt: ItemTrial
    scores: tuple[Score, ...]
    """The trial's current scores, in order of creation."""


class PlannedTrial(NamedTuple):
    item: Item
    repetition: int
    """Number of the repetition, starting at 1."""
    kept: StoredTrial | None
    """None if the trial has not run."""


def stored_trials(workspace: Workspace, run: ExperimentRun) -> Iterator[StoredTrial]:
    """Return the trials that have run, in the order of `planned_trials`."""
    return (one.kept for one in planned_trials(workspace, run) if one.kept is not None)


def planned_trials(workspace: Workspace, run: ExperimentRun) -> Iterator[PlannedTrial]:
    """Yield all planned trials in the order of the dataset, then by repetition. Reads one page at a time."""
    attempts = workspace.store.experiment_runs.attempts(run.id)
    attempt = next(attempts, None)
    scored = groupby(
        workspace.store.experiment_runs.scores(ScoreQuery(run_id=run.id)), key=lambda score: score.run_item_id
    )
    of_item, its = next(scored, (None, iter(())))
    for item in items_of(workspace, run):
        for repetition in range(1, run.repetitions + 1):
            if attempt is None or (attempt.item.item_key, attempt.item.repetition) != (item.key, repetition):
                yield PlannedTrial(item, repetition, None)
                continue
            scores: tuple[Score, ...] = ()
            if of_item == attempt.item.id:
                scores = tuple(its)
                of_item, its = next(scored, (None, iter(())))
            yield PlannedTrial(item, repetition, StoredTrial(item, attempt, scores))
            attempt = next(attempts, None)


DEAD_S = 15.0
"""Seconds without a heartbeat after which a worker is checked."""
STARTING = "a starting worker"
STARTING_S = 180.0
"""Like `DEAD_S`, before the first heartbeat: on a busy machine, a process took over 15 seconds to start."""


def has_no_worker(runs: "ExperimentRunStore", run: ExperimentRun) -> bool:
    """Return whether an unfinished run has lost its worker: its claim is free and its last heartbeat is too old."""
    patience = STARTING_S if run.worker in (None, STARTING) else DEAD_S
    if run.terminal or _age_s(run.heartbeat_at or run.created_at) < patience:
        return False
    with runs.claim(run.id) as unclaimed:
        if not unclaimed:
            return False
    now = runs.run(run.id)
    return now is not None and not now.terminal and now.heartbeat_at == run.heartbeat_at


def _age_s(at: str) -> float:
    return (datetime.now(UTC) - datetime.fromisoformat(at)).total_seconds()
