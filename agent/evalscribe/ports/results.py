"""What models answered to requests."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from evalscribe.result_set import Result, ResultCounts, ResultSet


class ResultSets(Protocol):
    """Result sets of all collections. A result that was paid for is never replaced by an error."""

    def find(self, collection_id: str, name: str) -> ResultSet | None:
        """By id or by name."""

    def sets(self, collection_id: str) -> tuple[tuple[ResultSet, ResultCounts], ...]:
        """All of a collection, by name."""

    def add(self, made: ResultSet, results: Sequence[Result]) -> None:
        """The set where it is missing, and these results at its end; all of it or nothing."""

    def put(self, result: Result) -> None:
        """What became of a request."""

    def results(self, result_set_id: str) -> tuple[Result, ...]:
        """All of a set, in order."""

    def result(self, result_set_id: str, result_id: str) -> Result | None: ...
    def answered(self, key: str) -> Result | None:
        """Any result with an answer to this very question."""

    def lock(self, result_set_id: str) -> AbstractContextManager[None]:
        """Held while a set is worked on; dies with its process. Raises `UnavailableError` naming the holder."""

    def close(self) -> None: ...
