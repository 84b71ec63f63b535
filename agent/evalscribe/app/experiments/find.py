"""Experiments, their versions and their runs, by what a person calls them."""

from evalscribe.app.experiments.desk import ExperimentDesk
from evalscribe.errors import NotFoundError
from evalscribe.experiment import Experiment, ExperimentRun, ExperimentVersion

MOST_NAMED = 5


def experiment_named(desk: ExperimentDesk, named: str) -> Experiment:
    """By id or name. Raises `NotFoundError` naming what there is."""
    if found := desk.definitions.experiment(named):
        return found
    there = [one.name for one in desk.definitions.experiments()]
    if not there:
        raise NotFoundError("there is no experiment yet: `evalscribe experiments create` makes one")
    more = f" and {len(there) - MOST_NAMED} more" if len(there) > MOST_NAMED else ""
    raise NotFoundError(f"there is no experiment {named!r}; there is: {', '.join(there[-MOST_NAMED:])}{more}")


def version_named(desk: ExperimentDesk, experiment: Experiment, named: str | None) -> ExperimentVersion:
    """By id or number; the latest where none is named. Raises `NotFoundError` naming what there is."""
    versions = desk.definitions.experiment_versions(experiment.id)
    wanted = named or experiment.latest_version_id
    found = next((one for one in versions if wanted in (one.id, str(one.number))), None)
    if found is None:
        there = ", ".join(f"{one.number} ({one.id})" for one in versions)
        raise NotFoundError(f"experiment {experiment.name} has no version {wanted}; there is: {there}")
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
