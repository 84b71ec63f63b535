"""Ask the worker of a run to stop, or end a run that nobody works on."""

import asyncio

from evalscribe.errors import UsageError
from evalscribe.model.experiment import ExperimentRun
from evalscribe.workspace import Workspace

PATIENCE_S = 10.0
"""A worker sees it within a second and ends its children within two more."""
LOOK_S = 0.1


async def cancelled(workspace: Workspace, run: ExperimentRun) -> ExperimentRun:
    """The run as it is then: still running only where its worker does not hear. Raises `UsageError` for one that has
    ended."""
    if run.terminal:
        raise UsageError(f"run {run.id} has ended already: {run.state}")
    workspace.store.experiment_runs.ask_cancel(run.id)
    deadline = asyncio.get_running_loop().time() + PATIENCE_S
    while not run.terminal and asyncio.get_running_loop().time() < deadline:
        with workspace.store.experiment_runs.claim(run.id) as mine:
            if mine:
                return _ended(workspace, run)
        await asyncio.sleep(LOOK_S)
        run = workspace.store.experiment_runs.run(run.id) or run
    return run


def _ended(workspace: Workspace, run: ExperimentRun) -> ExperimentRun:
    """Of one that nobody works on; its worker may have ended it just now."""
    now = workspace.store.experiment_runs.run(run.id) or run
    return now if now.terminal else workspace.store.experiment_runs.end(run.id, "cancelled", workspace.now())
