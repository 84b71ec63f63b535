"""Let a run go on that failed, was cancelled, or lost its worker."""

from evalscribe.app.experiment_desk import ExperimentDesk
from evalscribe.errors import UnavailableError, UsageError
from evalscribe.experiment import ExperimentRun

STARTING = "a worker that is starting"


def resumed(desk: ExperimentDesk, run: ExperimentRun, budget_usd: float | None) -> ExperimentRun:
    """The run, ready for a worker, which has to be started then. What is stored is not tried again.

    Raises `UsageError` where nothing is left to do, `UnavailableError` where somebody works on it.
    """
    if run.state == "completed" and run.archived:
        raise UsageError(f"run {run.id} is completed: `evalscribe experiments run` starts another one")
    with desk.runs.claim(run.id) as mine:
        if not mine:
            raise UnavailableError(f"run {run.id} is being worked on, by {run.worker or 'another process'}")
        if budget_usd is not None:
            desk.runs.set_budget(run.id, budget_usd)
        return desk.runs.begin(run.id, STARTING, desk.now())
