"""Everything that is stored in one database, in parts that are made when they are first used."""

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
    """One connection pool; every part works on the same database."""

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
        """Collections with their rubrics and label sets, and what judges answered."""

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
        """Message Batches and what waits for their answers."""
        from evalscribe.store.results import SqlBatches

        return SqlBatches(self._database)

    def close(self) -> None:
        self._database.close()


def open_storage(place: Path | str) -> Storage:
    """The database in a folder, which is created if missing, or at a postgresql:// URL.

    Raises:
        AccessError: Nothing may be written there.
        UnavailableError: The disk is full, or no server answers.
        DataError: The database is damaged, another program's, or newer than this evalscribe.
    """
    return Storage(open_database(place))
