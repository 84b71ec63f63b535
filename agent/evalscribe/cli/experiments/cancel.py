"""`evalscribe experiments runs cancel [EXPERIMENT] RUN`."""

from evalscribe.cli.display.formatted import Format
from evalscribe.cli.experiments.options import RunOfExperiment


def cancel(run: RunOfExperiment, form: Format = "table") -> int:
    """Cancel a run: what is under way is ended, what was done is kept."""
    import asyncio

    from evalscribe.app.experiments.cancel import cancelled
    from evalscribe.app.experiments.find import run_of_experiment
    from evalscribe.cli.display.formatted import checked, document
    from evalscribe.errors import UnavailableError
    from evalscribe.text import pluralise
    from evalscribe.workspace import Workspace

    checked(form)
    with Workspace() as workspace:
        done = asyncio.run(cancelled(workspace, run_of_experiment(workspace, run)))
        tried = sum(workspace.store.experiment_runs.tally(done.id).values())
    if not done.terminal:
        raise UnavailableError(f"the worker of run {done.id} ({done.worker}) does not hear; it was asked to stop.")
    told = f"Run {done.id} is {done.state}; {tried:,} of {pluralise(done.tries, 'try')} were done."
    document(done, lambda: (told,), form)
    return 0
