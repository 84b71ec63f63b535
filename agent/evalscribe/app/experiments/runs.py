"""Runs of an experiment as they are listed."""

from evalscribe.app.experiments.alive import deserted
from evalscribe.app.experiments.find import version_of_run
from evalscribe.app.experiments.gate import in_short
from evalscribe.app.experiments.listing import dataset_line
from evalscribe.ids import Frozen
from evalscribe.model.experiment import Experiment, ExperimentRun, TrialCounts
from evalscribe.workspace import Workspace


class ListedRun(Frozen):
    run: ExperimentRun
    worker_gone: bool = False
    """Whether it has not ended and nobody works on it."""
    version: int
    dataset: str
    """`name@number`, or `name@number:split`."""
    counts: TrialCounts
    pass_rate: float
    gate: bool | None
    """Whether it passed; None before the run has ended."""


def listed_runs(workspace: Workspace, experiment: Experiment) -> tuple[ListedRun, ...]:
    """Oldest first."""
    return tuple(listed_run(workspace, run) for run in workspace.store.experiment_runs.runs(experiment.id))


def listed_run(workspace: Workspace, run: ExperimentRun) -> ListedRun:
    version = version_of_run(workspace, run)
    tally = workspace.store.experiment_runs.tally(run.id)
    done = {str(verdict): number for verdict, number in tally.items()}
    counts = TrialCounts(**done, missing=run.tries - sum(tally.values()))
    return ListedRun(
        run=run,
        worker_gone=deserted(workspace.store.experiment_runs, run),
        version=version.number,
        dataset=dataset_line(workspace, version),
        counts=counts,
        pass_rate=counts.passed / run.tries if run.tries else 0.0,
        gate=in_short(workspace, run),
    )
