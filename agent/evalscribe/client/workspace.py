"""Rubrics, label sets and judges of one workspace."""

import os
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

from evalscribe.client.service import MAX_TOKENS, BaseLLMService
from evalscribe.rubric import Collection, LabelSet, Rubric
from evalscribe.settings import Options, load
from evalscribe.wiring.judges import Maker
from evalscribe.wiring.shelf import shelf

if TYPE_CHECKING:
    from evalscribe.judging.rubric.judge import RubricJudge


class Client:
    """What the workspace's store holds. Usable from any thread, and beside an event loop that runs already."""

    def __init__(
        self, folder: Path | None = None, *, budget_usd: float | None = None, max_tokens: int | None = None
    ) -> None:
        """`folder`: in the workspace, by default the working folder. Without bounds, those of the workspace hold.

        Raises `UsageError` for settings that cannot be read, `AccessError` or `DataError` for a store that cannot.
        """
        found = load(Options(budget=budget_usd, max_tokens=max_tokens), folder or Path.cwd(), os.environ)
        self._service = BaseLLMService(
            found.concurrency.value,
            max_tokens=found.max_tokens.value or MAX_TOKENS,
            budget_usd=found.budget.value,
            folder=folder,
        )
        self._shelf = shelf(found)

    def create_collection(self, name: str, id: str | None = None) -> str:
        """Its id: a new one each time, unless you give one. One that is there under this name is given back;
        `UsageError` where it is taken by a collection of another name."""
        collection = Collection(id=id or str(uuid4()), name=name)
        self._shelf.add_collection(collection)
        return collection.id

    def list_collections(self) -> list[dict[str, Any]]:
        """`id` and `name` of each, in the order they were made."""
        return [collection.model_dump(mode="json") for collection in self._shelf.collections()]

    def create_rubric(self, collection_id: str, rubric: Rubric) -> str:
        """Its id. A rubric of an id that is there becomes the next version, or none where it says the same.

        Raises `NotFoundError` for an unknown collection.
        """
        return self._shelf.add_rubric(collection_id, rubric).id

    def get_rubric(self, collection_id: str, rubric_id: str, version: int | None = None) -> Rubric:
        """This version, or the latest. Raises `NotFoundError`, which names what there is."""
        return self._shelf.rubric(collection_id, rubric_id, version)

    def list_rubrics(self, collection_id: str) -> list[dict[str, Any]]:
        """The latest version of each rubric with all its fields, by id. Raises `NotFoundError`."""
        return [rubric.model_dump(mode="json") for rubric in self._shelf.rubrics(collection_id)]

    def get_judge(self, collection_id: str, rubric_id: str, version: int | None = None) -> "RubricJudge":
        """A judge to call on any `AgentRun`, with the workspace's keys and budget: `result = await judge(agent_run)`.

        What it found once it does not ask again. Raises `NotFoundError`, `AccessError` for a missing key.
        """
        rubric = self.get_rubric(collection_id, rubric_id, version)
        return Maker(self._service, self._service.prompts, self._shelf).by_model(rubric)

    def create_label_set(
        self, collection_id: str, name: str, label_schema: dict[str, Any], description: str | None = None
    ) -> str:
        """Its id. Raises `RubricError` for a schema outside the meta-schema, `NotFoundError`."""
        labels = LabelSet(name=name, description=description, label_schema=label_schema)
        self._shelf.add_label_set(collection_id, labels)
        return labels.id

    def get_label_set(self, collection_id: str, label_set_id: str) -> dict[str, Any]:
        """`id`, `name`, `description`, `label_schema`. Raises `NotFoundError`."""
        return self._shelf.label_set(collection_id, label_set_id).model_dump(mode="json")

    def list_label_sets(self, collection_id: str) -> list[dict[str, Any]]:
        """All of a collection, in the order they were made. Raises `NotFoundError`."""
        return [labels.model_dump(mode="json") for labels in self._shelf.label_sets(collection_id)]

    def close(self) -> None:
        """Judges of this client can no longer be called."""
        self._service.stop()
        self._shelf.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
