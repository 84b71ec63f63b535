"""Datasets, definitions of experiments and their runs, over SQLAlchemy Core; in the same database as the store."""

from pathlib import Path

from evalscribe.model.experiment_storage import Datasets, Definitions, ExperimentRuns
from evalscribe.store.database import open_database
from evalscribe.store.experiments.datasets import SqlDatasets
from evalscribe.store.experiments.definitions import SqlDefinitions
from evalscribe.store.experiments.runs import SqlExperimentRuns


def open_datasets(place: Path | str) -> Datasets:
    """Raises as `open_database` does, as all of these."""
    return SqlDatasets(open_database(place))


def open_definitions(place: Path | str) -> Definitions:
    return SqlDefinitions(open_database(place))


def open_experiment_runs(place: Path | str) -> ExperimentRuns:
    return SqlExperimentRuns(open_database(place))
