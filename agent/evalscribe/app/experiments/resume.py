"""Let a run go on that failed, was cancelled, or lost its worker."""

from evalscribe.errors import UnavailableError, UsageError
from evalscribe.model.experiment import ExperimentRun
from evalscribe.workspace import Workspace

STARTING = "a worker that is starting"


def resumed(workspace: Workspace, run: ExperimentRun, budget_usd: float | None) -> ExperimentRun:
    """The run, ready for a worker, which has to be started then. What is stored is not tried again.

    Raises `UsageError` where nothing is left to do, `UnavailableError` where somebody works on it.
    """
    if run.state == "completed" and run.archived:
        raise UsageError(f"run {run.id} is completed: `evalscribe experiments run` starts another one")
    with workspace.store.experiment_runs.claim(run.id) as mine:
        if not mine:
            raise UnavailableError(f"run {run.id} is being worked on, by {run.worker or 'another process'}")
        if budget_usd is not None:
            workspace.store.experiment_runs.set_budget(run.id, budget_usd)
        return workspace.store.experiment_runs.begin(run.id, STARTING, workspace.now())
