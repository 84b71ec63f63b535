"""Give access to all stores of one database. Each store is created when it is first used."""

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from evalscribe.store.analyses import AnalysisStore
from evalscribe.store.collections import CollectionStore
from evalscribe.store.database import Database, open_database

if TYPE_CHECKING:
    from evalscribe.store.datasets import DatasetStore
    from evalscribe.store.definitions import ExperimentStore
    from evalscribe.store.experiment_runs import ExperimentRunStore
    from evalscribe.store.records import RunStore
    from evalscribe.store.results import BatchStore, ResultSetStore


class Storage:
    """All stores of one database. The stores share a connection pool."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @cached_property
    def analyses(self) -> AnalysisStore:
        """Analysed runs with their evidence, verdicts, reports and labels."""

        return AnalysisStore(self._database)

    @cached_property
    def runs(self) -> "RunStore":
        """Whole imported runs, in collections."""
        from evalscribe.store.records import RunStore

        return RunStore(self._database)

    @cached_property
    def collections(self) -> CollectionStore:
        """Collections with their rubrics, label sets and judge results."""

        return CollectionStore(self._database)

    @cached_property
    def results(self) -> "ResultSetStore":
        """Stored answers to model requests."""
        from evalscribe.store.results import ResultSetStore

        return ResultSetStore(self._database)

    @cached_property
    def datasets(self) -> "DatasetStore":
        from evalscribe.store.datasets import DatasetStore

        return DatasetStore(self._database)

    @cached_property
    def experiments(self) -> "ExperimentStore":
        """Experiments with their deployments, target prompts and scorers."""
        from evalscribe.store.definitions import ExperimentStore

        return ExperimentStore(self._database)

    @cached_property
    def experiment_runs(self) -> "ExperimentRunStore":
        from evalscribe.store.experiment_runs import ExperimentRunStore

        return ExperimentRunStore(self._database)

    @cached_property
    def batches(self) -> "BatchStore":
        """Message Batches (requests that the provider answers later at a lower price) and the requests waiting for
        them."""
        from evalscribe.store.results import BatchStore

        return BatchStore(self._database)

    def close(self) -> None:
        self._database.close()


def open_storage(place: Path | str) -> Storage:
    """Open the database in a folder, which is created if missing, or at a postgresql:// URL.

    Raises:
        AccessError: The folder or database may not be written.
        UnavailableError: The disk is full, or no server answers.
        DataError: The database is damaged, belongs to another program, or was written by a newer evalscribe.
    """
    return Storage(open_database(place))
