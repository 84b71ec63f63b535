"""Experiments, their versions and their runs, by what a person calls them."""

from collections.abc import Sequence

from evalscribe.app.named import LATEST, MOST_NAMED, no_version, nothing_called, version_called
from evalscribe.app.not_a_run import not_a_run
from evalscribe.errors import NotFoundError, UsageError
from evalscribe.model.experiment import Experiment, ExperimentRun, ExperimentVersion
from evalscribe.text import join_last
from evalscribe.workspace import Workspace


def experiment_named(workspace: Workspace, named: str) -> Experiment:
    """By id or name. Raises `NotFoundError` naming what there is."""
    if found := workspace.store.experiments.experiment(named):
        return found
    there = [one.name for one in workspace.store.experiments.experiments()]
    raise nothing_called("experiment", named, there, "experiments create")


def version_named(workspace: Workspace, experiment: Experiment, named: str | None) -> ExperimentVersion:
    """By id or number; the latest where none is named. Raises `NotFoundError` naming what there is."""
    versions = workspace.store.experiments.experiment_versions(experiment.id)
    # The latest is not the last: `run --config` makes versions that the experiment does not go on from.
    wanted = experiment.latest_version_id if named in (None, LATEST) else named
    found = version_called(versions, wanted)
    if found is None:
        raise no_version(f"experiment {experiment.name}", wanted, versions)
    return found


def run_named(workspace: Workspace, named: str) -> ExperimentRun:
    """By id, the beginning of one, or name. Raises `NotFoundError`, `UsageError` where several ids begin so."""
    if found := workspace.store.experiment_runs.run(named):
        return found
    if why := not_a_run(workspace, named):
        raise NotFoundError(why)
    raise NotFoundError(f"no experiment has a run {named!r}; {_newest(workspace)}")


def _newest(workspace: Workspace) -> str:
    there = list(dict.fromkeys(run.name or run.id for run in workspace.store.experiment_runs.runs()))
    if not there:
        return "nothing has run yet: `evalscribe experiments run EXPERIMENT` makes a run"
    return f"there is: {join_last(there, MOST_NAMED)}; `evalscribe experiments runs list EXPERIMENT` has more"


def run_of_experiment(workspace: Workspace, named: Sequence[str]) -> ExperimentRun:
    """The run that the last word names; its experiment may be named before. Raises `UsageError` where it is not that
    one's."""
    if len(named) > 2:
        raise UsageError("name one run, or its experiment and the run")
    run = run_named(workspace, named[-1])
    if len(named) == 2 and experiment_named(workspace, named[0]).id != run.experiment_id:
        raise UsageError(f"run {run.id} is not one of experiment {named[0]}")
    return run


def experiment_of(workspace: Workspace, run: ExperimentRun) -> Experiment:
    found = workspace.store.experiments.experiment(run.experiment_id)
    if found is None:
        raise NotFoundError(f"experiment {run.experiment_id} of run {run.id} is not in the store")
    return found


def require_ended(run: ExperimentRun, why: str) -> None:
    """`why`: `its gate is decided when it has ended`. Raises `UsageError`."""
    if not run.terminal:
        raise UsageError(
            f"run {run.name or run.id} is {run.state}: {why}.\nWait for it: `evalscribe reports wait {run.id}`."
        )


def version_of_run(workspace: Workspace, run: ExperimentRun) -> ExperimentVersion:
    """What the run tried."""
    found = workspace.store.experiments.experiment_version(run.experiment_version_id)
    if found is None:
        raise NotFoundError(f"version {run.experiment_version_id} of run {run.id} is not in the store")
    return found
