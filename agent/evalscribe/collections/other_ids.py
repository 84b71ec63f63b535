"""Explain that an id or name, given where a run is expected, belongs to another object, such as an experiment."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from evalscribe.store.lookup import kind_of
from evalscribe.workspace import Workspace

if TYPE_CHECKING:
    from evalscribe.model.experiment import ExperimentRun

Runs = tuple["ExperimentRun", ...]


def describe_other_id(workspace: Workspace, requested: str) -> str | None:
    """Return a message that says which object, other than a run, has this id or name.

    If no such object is stored but the id has the form of another object's id, the message names the kind of object.
    Otherwise, the result is None.

    Example: `exp-… is an experiment, quality, not a run: use pr-2 (…), the latest of its 2 runs`.
    """
    for describe in (_experiment, _version, _dataset, _dataset_version, _deployment, _run_item):
        if match := describe(workspace, requested):
            description, runs = match
            return f"{requested} is {description}, not a run: {_advice(runs)}"
    return f"{requested} looks like the id of {kind}, not of a run" if (kind := kind_of(requested)) else None


def _advice(runs: Runs) -> str:
    if not runs:
        return "it has no runs yet; start one with `evalscribe experiments run EXPERIMENT`"
    latest = runs[-1]
    run_text = f"{latest.name} ({latest.id})" if latest.name else latest.id
    return f"use {run_text}, {'its run' if len(runs) == 1 else f'the latest of its {len(runs):,} runs'}"


ObjectRuns = tuple[str, Runs] | None
"""Description of an object, and the object's runs, oldest first; None if the object does not exist."""


def _runs_where(workspace: Workspace, belongs: "Callable[[ExperimentRun], bool]") -> Runs:
    return tuple(filter(belongs, workspace.store.experiment_runs.runs()))


def _with_name(description: str, name: str, requested: str) -> str:
    return description if name == requested else f"{description}, {name}"


def _experiment(workspace: Workspace, requested: str) -> ObjectRuns:
    experiment = workspace.store.experiments.experiment(requested)
    return (
        None
        if experiment is None
        else (
            _with_name("an experiment", experiment.name, requested),
            workspace.store.experiment_runs.runs(experiment.id),
        )
    )


def _version(workspace: Workspace, requested: str) -> ObjectRuns:
    version = workspace.store.experiments.experiment_version(requested)
    owner = workspace.store.experiments.experiment(version.experiment_id) if version else None
    if version is None or owner is None:
        return None
    runs = _runs_where(workspace, lambda run: run.experiment_version_id == version.id)
    return f"version {version.number} of experiment {owner.name}", runs


def _dataset(workspace: Workspace, requested: str) -> ObjectRuns:
    dataset = workspace.store.datasets.find(requested)
    if dataset is None:
        return None
    versions = {version.id for version in workspace.store.datasets.versions(dataset.id)}
    return _with_name("a dataset", dataset.name, requested), _runs_where(
        workspace, lambda run: run.dataset_version_id in versions
    )


def _dataset_version(workspace: Workspace, requested: str) -> ObjectRuns:
    version = workspace.store.datasets.version(requested)
    if version is None:
        return None
    return f"a version of a dataset ({version.number})", _runs_where(
        workspace, lambda run: run.dataset_version_id == version.id
    )


def _deployment(workspace: Workspace, requested: str) -> ObjectRuns:
    deployment = workspace.store.experiments.deployment(requested)
    if deployment is None:
        return None
    return _with_name("a deployment", deployment.name, requested), _runs_where(
        workspace, lambda run: run.deployment_id == deployment.id
    )


def _run_item(workspace: Workspace, requested: str) -> ObjectRuns:
    """Describe a run item or a score."""
    score = workspace.store.experiment_runs.score(requested)
    attempt = workspace.store.experiment_runs.attempt(score.run_item_id if score else requested)
    if attempt is None:
        return None
    description = f"a score of item {attempt.item.item_key}" if score else f"a trial of item {attempt.item.item_key}"
    run = workspace.store.experiment_runs.run(attempt.item.run_id)
    return description, (run,) if run else ()
