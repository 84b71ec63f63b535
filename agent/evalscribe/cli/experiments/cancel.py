"""`evalscribe experiments runs cancel [EXPERIMENT] RUN`."""

from typing import TYPE_CHECKING

from evalscribe.cli.experiments.options import RunOfExperiment
from evalscribe.cli.formatted import Format

if TYPE_CHECKING:
    from evalscribe.app.experiments.desk import ExperimentDesk
    from evalscribe.experiment import ExperimentRun


def cancel(run: RunOfExperiment, form: Format = "table") -> int:
    """Cancel a run: what is under way is ended, what was done is kept."""
    import asyncio

    from evalscribe.app.experiments.cancel import cancelled
    from evalscribe.cli.formatted import checked, document
    from evalscribe.errors import UnavailableError
    from evalscribe.settings import Options
    from evalscribe.wiring import settings
    from evalscribe.wiring.experiments import open_desk

    checked(form)
    with open_desk(settings(Options())) as desk:
        done = asyncio.run(cancelled(desk, run_of(desk, run)))
        tried = sum(desk.runs.tally(done.id).values())
    if not done.terminal:
        raise UnavailableError(f"the worker of run {done.id} ({done.worker}) does not hear; it was asked to stop.")
    document(done, lambda: (f"Run {done.id} is {done.state}; {tried} of {done.tries} tries were done.",), form)
    return 0


def run_of(desk: "ExperimentDesk", named: list[str]) -> "ExperimentRun":
    """The run, which its experiment may be named before. Raises `UsageError` where it is not that one's."""
    from evalscribe.app.experiments.find import experiment_named, run_named
    from evalscribe.errors import UsageError

    if len(named) > 2:
        raise UsageError("name one run, or its experiment and the run")
    run = run_named(desk, named[-1])
    if len(named) == 2 and experiment_named(desk, named[0]).id != run.experiment_id:
        raise UsageError(f"run {run.id} is not one of experiment {named[0]}")
    return run
