"""Delete experiments and their runs. This module is separate from `control`, which is slow to import."""

from collections.abc import Sequence

from evalscribe.errors import UsageError
from evalscribe.experiments.lookup import LOGS, require_ended, version_named
from evalscribe.model.experiment import Experiment, ExperimentRun
from evalscribe.workspace import Workspace


def require_deletable(
    workspace: Workspace, runs: Sequence[ExperimentRun], *, deleted_experiment: Experiment | None = None
) -> None:
    """Raise `UsageError` if any of the runs cannot be deleted.

    A run cannot be deleted before it has ended, or if it is the baseline of an experiment that is not deleted too.

    Args:
        workspace: Workspace of the runs.
        runs: The runs to delete.
        deleted_experiment: The experiment that is deleted together with the runs, if any.
    """
    for run in runs:
        require_ended(run, "a run in progress cannot be deleted")
    names = {name for run in runs for name in (run.id, run.name) if name}
    for experiment in workspace.store.experiments.experiments():
        config = version_named(workspace, experiment, None).config
        baselines = names & {config.no_new_failures_vs, config.baseline}
        if baselines and experiment != deleted_experiment:
            raise UsageError(
                f"cannot delete a run in use: the gate of experiment {experiment.name} "
                f"compares with run {baselines.pop()}.\n"
                "Nothing was deleted. To change the gate, use `evalscribe experiments update`."
            )


def delete_run(workspace: Workspace, run: ExperimentRun) -> None:
    """Delete a run with its trials, scores and worker log. The archived copy of the run stays until `gc` is run.

    Raises `UsageError` if a worker is running the run.
    """
    with workspace.store.experiment_runs.claim(run.id) as claimed:
        if not claimed:
            raise UsageError(f"run {run.id} cannot be deleted: {run.worker or 'another process'} is working on it")
        workspace.store.experiment_runs.remove(run.id)
    (workspace.settings.store / LOGS / f"{run.id}.log").unlink(missing_ok=True)


def delete_experiment(workspace: Workspace, experiment: Experiment) -> None:
    """Delete an experiment with its versions and runs."""
    # The experiment is deleted last. If the deletion is interrupted, another call still finds it and deletes the rest.
    for run in workspace.store.experiment_runs.runs(experiment.id):
        delete_run(workspace, run)
    workspace.store.experiments.remove_experiment(experiment.id)
