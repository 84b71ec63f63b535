"""Where datasets, definitions and runs of experiments are kept."""

from evalscribe.ports import Datasets, Definitions, ExperimentRuns
from evalscribe.settings import Settings


def datasets(found: Settings) -> Datasets:
    """In the same database as the store, as all of these. Raises as `shelf` does."""
    from evalscribe.store.experiments import open_datasets

    return open_datasets(found.store_place)


def definitions(found: Settings) -> Definitions:
    from evalscribe.store.experiments import open_definitions

    return open_definitions(found.store_place)


def experiment_runs(found: Settings) -> ExperimentRuns:
    from evalscribe.store.experiments import open_experiment_runs

    return open_experiment_runs(found.store_place)
