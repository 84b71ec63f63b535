"""Whether somebody works on a run."""

from datetime import UTC, datetime

from evalscribe.model.experiment import ExperimentRun
from evalscribe.model.experiment_storage import ExperimentRuns

DEAD_S = 15.0
"""A worker that gave no sign of life for so long is looked for."""


def deserted(runs: ExperimentRuns, run: ExperimentRun) -> bool:
    """Whether the run has not ended and nobody works on it: who does holds its claim, and gives signs of life."""
    if run.terminal or _age_s(run.heartbeat_at or run.created_at) < DEAD_S:
        return False
    with runs.claim(run.id) as unclaimed:
        if not unclaimed:
            return False
    now = runs.run(run.id)
    return now is not None and not now.terminal and now.heartbeat_at == run.heartbeat_at


def _age_s(at: str) -> float:
    return (datetime.now(UTC) - datetime.fromisoformat(at)).total_seconds()
