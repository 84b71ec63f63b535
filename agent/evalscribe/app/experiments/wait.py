"""Wait for the end of a run, whoever works on it."""

import asyncio
import time
from collections.abc import Mapping
from typing import Protocol

from evalscribe.app.experiments.alive import deserted
from evalscribe.errors import NotFoundError, UnavailableError
from evalscribe.model.experiment import ExperimentRun, ItemVerdict
from evalscribe.model.experiment_storage import ExperimentRuns

QUICK_S = 0.2
SLOW_S = 1.0
"""Seconds between two looks: at first, and after a while."""


class Watcher(Protocol):
    def tried(self, run: ExperimentRun, tally: Mapping[ItemVerdict, int]) -> None:
        """How far the run is."""


async def waited(
    runs: ExperimentRuns, run_id: str, timeout_s: float | None, watcher: Watcher | None = None
) -> ExperimentRun | None:
    """The run when it has ended; None where it has not in time, and goes on.

    Raises `NotFoundError`, and `UnavailableError` where nobody works on it any more.
    """
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    pause = QUICK_S
    while True:
        run = runs.run(run_id)
        if run is None:
            raise NotFoundError(f"there is no run {run_id!r} of an experiment")
        if watcher is not None:
            watcher.tried(run, runs.tally(run.id))
        if run.terminal:
            return run
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            return None
        _require_worker(runs, run)
        await asyncio.sleep(pause if left is None else min(pause, left))
        pause = min(SLOW_S, pause * 1.2)


def _require_worker(runs: ExperimentRuns, run: ExperimentRun) -> None:
    if deserted(runs, run):
        raise UnavailableError(
            f"nobody works on run {run.name or run.id} any more: its worker ended without a word"
            f"{f' ({run.worker})' if run.worker else ''}; what it stored is kept.\n"
            f"Go on with it: `evalscribe experiments runs resume {run.id}`."
        )
