"""Explain that an id or name belongs to an experiment or another object, where a run is expected."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from evalscribe.store.lookup import kind_of
from evalscribe.workspace import Workspace

if TYPE_CHECKING:
    from evalscribe.model.experiment import ExperimentRun

Runs = tuple["ExperimentRun", ...]


def describe_other_id(workspace: Workspace, named: str) -> str | None:
    """Explain that an id or name belongs to an experiment, dataset or similar, not a run; None for any other name.

    Example: `exp-… is an experiment, quality, not a run: use pr-2 (…), the latest of its 2 runs`.
    """
    for look in (_experiment, _version, _dataset, _dataset_version, _deployment, _try):
        if found := look(workspace, named):
            what, runs = found
            return f"{named} is {what}, not a run: {_instead(runs)}"
    return f"{named} looks like the id of {kind}, not of a run" if (kind := kind_of(named)) else None


def _instead(runs: Runs) -> str:
    if not runs:
        return "it has no runs yet; start one with `evalscribe experiments run EXPERIMENT`"
    latest = runs[-1]
    which = f"{latest.name} ({latest.id})" if latest.name else latest.id
    return f"use {which}, {'its run' if len(runs) == 1 else f'the latest of its {len(runs):,} runs'}"


Found = tuple[str, Runs] | None
"""A description of the object and its runs, oldest first."""


def _of(workspace: Workspace, belongs: "Callable[[ExperimentRun], bool]") -> Runs:
    return tuple(filter(belongs, workspace.store.experiment_runs.runs()))


def _called(what: str, name: str, named: str) -> str:
    return what if name == named else f"{what}, {name}"


def _experiment(workspace: Workspace, named: str) -> Found:
    one = workspace.store.experiments.experiment(named)
    return (
        None
        if one is None
        else (_called("an experiment", one.name, named), workspace.store.experiment_runs.runs(one.id))
    )


def _version(workspace: Workspace, named: str) -> Found:
    one = workspace.store.experiments.experiment_version(named)
    owner = workspace.store.experiments.experiment(one.experiment_id) if one else None
    if one is None or owner is None:
        return None
    runs = _of(workspace, lambda run: run.experiment_version_id == one.id)
    return f"version {one.number} of experiment {owner.name}", runs


def _dataset(workspace: Workspace, named: str) -> Found:
    one = workspace.store.datasets.find(named)
    if one is None:
        return None
    versions = {version.id for version in workspace.store.datasets.versions(one.id)}
    return _called("a dataset", one.name, named), _of(workspace, lambda run: run.dataset_version_id in versions)


def _dataset_version(workspace: Workspace, named: str) -> Found:
    one = workspace.store.datasets.version(named)
    if one is None:
        return None
    return f"a version of a dataset ({one.number})", _of(workspace, lambda run: run.dataset_version_id == one.id)


def _deployment(workspace: Workspace, named: str) -> Found:
    one = workspace.store.experiments.deployment(named)
    if one is None:
        return None
    return _called("a deployment", one.name, named), _of(workspace, lambda run: run.deployment_id == one.id)


def _try(workspace: Workspace, named: str) -> Found:
    """Describe a run item or a score."""
    score = workspace.store.experiment_runs.score(named)
    attempt = workspace.store.experiment_runs.attempt(score.run_item_id if score else named)
    if attempt is None:
        return None
    what = f"a score of item {attempt.item.item_key}" if score else f"a trial of item {attempt.item.item_key}"
    run = workspace.store.experiment_runs.run(attempt.item.run_id)
    return what, (run,) if run else ()
