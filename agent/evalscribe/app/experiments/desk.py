"""What use cases of experiments work with."""

from collections.abc import Callable
from dataclasses import dataclass

from evalscribe.ports import Archive, Datasets, Definitions, ExperimentRuns, Shelf


@dataclass(frozen=True)
class ExperimentDesk:
    datasets: Datasets
    definitions: Definitions
    runs: ExperimentRuns
    shelf: Shelf
    archive: Archive
    now: Callable[[], str]
    """ISO 8601, UTC."""
