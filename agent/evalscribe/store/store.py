"""All stores of one database, each created at its first use."""

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from evalscribe.store.analyses import SqlStore
from evalscribe.store.collections import SqlCollections
from evalscribe.store.database import Database, open_database

if TYPE_CHECKING:
    from evalscribe.model.collection_storage import CollectionStore, ResultSetStore
    from evalscribe.model.experiment_storage import Datasets, Definitions, ExperimentRuns
    from evalscribe.model.storage import BatchStore, EvalStore, Store


class Storage:
    """One connection pool, shared by all stores of the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @cached_property
    def analyses(self) -> "Store":
        """Analysed runs with their evidence, verdicts, reports and labels."""

        return SqlStore(self._database)

    @cached_property
    def runs(self) -> "EvalStore":
        """Whole imported runs, in collections."""
        from evalscribe.store.records import SqlRecords

        return SqlRecords(self._database)

    @cached_property
    def collections(self) -> "CollectionStore":
        """Collections with their rubrics, label sets and judge results."""

        return SqlCollections(self._database)

    @cached_property
    def results(self) -> "ResultSetStore":
        """Stored answers to model requests."""
        from evalscribe.store.results import SqlResultSets

        return SqlResultSets(self._database)

    @cached_property
    def datasets(self) -> "Datasets":
        from evalscribe.store.datasets import SqlDatasets

        return SqlDatasets(self._database)

    @cached_property
    def experiments(self) -> "Definitions":
        """Experiments with their deployments, target prompts and scorers."""
        from evalscribe.store.definitions import SqlDefinitions

        return SqlDefinitions(self._database)

    @cached_property
    def experiment_runs(self) -> "ExperimentRuns":
        from evalscribe.store.experiment_runs import SqlExperimentRuns

        return SqlExperimentRuns(self._database)

    @cached_property
    def batches(self) -> "BatchStore":
        """Message Batches and the requests that wait for them."""
        from evalscribe.store.results import SqlBatches

        return SqlBatches(self._database)

    def close(self) -> None:
        self._database.close()


def open_storage(place: Path | str) -> Storage:
    """Open the database in a folder, which is created if missing, or at a postgresql:// URL.

    Raises:
        AccessError: Nothing may be written there.
        UnavailableError: The disk is full, or no server answers.
        DataError: The database is damaged, another program's, or newer than this evalscribe.
    """
    return Storage(open_database(place))
