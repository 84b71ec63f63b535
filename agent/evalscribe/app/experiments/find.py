"""Experiments, their versions and their runs, by what a person calls them."""

from evalscribe.app.experiments.desk import ExperimentDesk
from evalscribe.app.named import LATEST, no_version, nothing_called, version_called
from evalscribe.errors import NotFoundError
from evalscribe.experiment import Experiment, ExperimentRun, ExperimentVersion


def experiment_named(desk: ExperimentDesk, named: str) -> Experiment:
    """By id or name. Raises `NotFoundError` naming what there is."""
    if found := desk.definitions.experiment(named):
        return found
    there = [one.name for one in desk.definitions.experiments()]
    raise nothing_called("experiment", named, there, "experiments create")


def version_named(desk: ExperimentDesk, experiment: Experiment, named: str | None) -> ExperimentVersion:
    """By id or number; the latest where none is named. Raises `NotFoundError` naming what there is."""
    versions = desk.definitions.experiment_versions(experiment.id)
    # The latest is not the last: `run --config` makes versions that the experiment does not go on from.
    wanted = experiment.latest_version_id if named in (None, LATEST) else named
    found = version_called(versions, wanted)
    if found is None:
        raise no_version(f"experiment {experiment.name}", wanted, versions)
    return found


def run_named(desk: ExperimentDesk, named: str) -> ExperimentRun:
    """By id, the beginning of one, or name. Raises `NotFoundError`, `UsageError` where several ids begin so."""
    if found := desk.runs.run(named):
        return found
    raise NotFoundError(
        f"no experiment has a run {named!r}; `evalscribe experiments runs list EXPERIMENT` shows what there is"
    )


def version_of_run(desk: ExperimentDesk, run: ExperimentRun) -> ExperimentVersion:
    """What the run tried."""
    found = desk.definitions.experiment_version(run.experiment_version_id)
    if found is None:
        raise NotFoundError(f"version {run.experiment_version_id} of run {run.id} is not in the store")
    return found
