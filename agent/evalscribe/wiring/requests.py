"""What asking requests, and reading their results, works with."""

from contextlib import ExitStack, closing
from datetime import UTC, datetime
from typing import Self

from evalscribe.app.collections.choice import OPTION, Naming, chosen
from evalscribe.app.requests.submit import RequestDesk
from evalscribe.ports import Archive, Models, ResultSets, Shelf
from evalscribe.prompts import Prompts
from evalscribe.rubric import Collection
from evalscribe.settings import Settings
from evalscribe.wiring.stores import archive, shelf


class Room:
    """Collections with their runs and result sets, of one workspace."""

    def __init__(self, found: Settings, collections: Shelf | None = None, naming: Naming = OPTION) -> None:
        """`collections`: where they are open already, and somebody else closes them."""
        self._found = found
        self._naming = naming
        with ExitStack() as opened:
            self.shelf = collections or opened.enter_context(closing(shelf(found)))
            self.archive: Archive = opened.enter_context(closing(archive(found)))
            self.sets: ResultSets = opened.enter_context(closing(result_sets(found)))
            self._opened = opened.pop_all()

    def collection(self, named: str | None) -> Collection:
        """By id or name; without one the configured one, else the only one there is."""
        return chosen(self.shelf, named, self._found.collection.value, self._naming)

    def desk(self, models: Models, lanes: int | None = None) -> RequestDesk:
        """`lanes`: requests at a time, by default what is set."""
        return RequestDesk(
            archive=self.archive,
            sets=self.sets,
            models=models,
            prompts=Prompts(self._found.root),
            lanes=lanes or self._found.concurrency.value,
            now=lambda: datetime.now(UTC),
        )

    def close(self) -> None:
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def result_sets(found: Settings) -> ResultSets:
    """In the same database as the store. Raises as `shelf` does."""
    from evalscribe.store.results import open_result_sets

    return open_result_sets(found.store_place)
