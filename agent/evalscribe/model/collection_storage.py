"""Protocols of storage for collections and results."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from evalscribe.model.result import JudgeResult, Result, ResultCounts, ResultSet
from evalscribe.model.rubric import Collection, LabelSet, Rubric


class CollectionStore(Protocol):
    """Collections with their rubrics and label sets, and what judges found: immutable but for what is added."""

    def add_collection(self, collection: Collection) -> None:
        """Raises `UsageError` where the id is taken by a collection of another name."""

    def collections(self) -> tuple[Collection, ...]:
        """In the order they were made."""

    def remove_collection(self, collection_id: str) -> None:
        """Raises `UsageError` saying what it holds where it is not empty, `NotFoundError` for an unknown one."""

    def add_rubric(self, collection_id: str, rubric: Rubric) -> Rubric:
        """Store it as the next version of its id, or give back the latest where that is the same by content.

        What is given back has the number it was stored under. Raises `NotFoundError` for an unknown collection.
        """

    def rubric(self, collection_id: str, rubric_id: str, version: int | None = None) -> Rubric:
        """The version, or the latest. Raises `NotFoundError` naming what there is."""

    def rubrics(self, collection_id: str) -> tuple[Rubric, ...]:
        """The latest version of each, by id. Raises `NotFoundError` for an unknown collection."""

    def add_label_set(self, collection_id: str, labels: LabelSet) -> None:
        """Raises `UsageError` where its id is taken by another one."""

    def label_set(self, collection_id: str, label_set_id: str) -> LabelSet: ...
    def label_sets(self, collection_id: str) -> tuple[LabelSet, ...]: ...
    def put_result(self, key: str, result: JudgeResult) -> None:
        """A result that was paid for is replaced by another one only, never by a failure."""

    def get_result(self, key: str) -> JudgeResult | None:
        """The result of the same question: rubric, prompt, model, parameters and subject."""

    def close(self) -> None: ...


class ResultSetStore(Protocol):
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
