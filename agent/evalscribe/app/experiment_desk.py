"""What use cases of experiments work with."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from evalscribe.ports import Archive, Datasets, Definitions, ExperimentRuns, Shelf
from evalscribe.workspace import Workspace


@dataclass(frozen=True)
class ExperimentDesk:
    datasets: Datasets
    definitions: Definitions
    runs: ExperimentRuns
    shelf: Shelf
    archive: Archive
    now: Callable[[], str]
    """ISO 8601, UTC."""


def experiment_desk(workspace: Workspace) -> ExperimentDesk:
    """Over the parts of the workspace's store."""
    return ExperimentDesk(
        datasets=workspace.store.datasets,
        definitions=workspace.store.experiments,
        runs=workspace.store.experiment_runs,
        shelf=workspace.store.collections,
        archive=workspace.store.runs,
        now=now,
    )


def now() -> str:
    """ISO 8601, UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
