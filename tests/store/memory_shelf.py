"""A shelf in memory, for tests of what stands above it."""

from collections import defaultdict

from evalscribe.errors import NotFoundError, UsageError
from evalscribe.model.result import JudgeResult, ResultType
from evalscribe.model.rubric import Collection, LabelSet, Rubric


class MemoryShelf:
    """An `evalscribe.model.collection_storage.CollectionStore`."""

    def __init__(self) -> None:
        self._collections: dict[str, Collection] = {}
        self._rubrics: dict[str, dict[str, list[Rubric]]] = defaultdict(dict)
        self._label_sets: dict[str, dict[str, LabelSet]] = defaultdict(dict)
        self._results: dict[str, JudgeResult] = {}

    def add_collection(self, collection: Collection) -> None:
        if self._collections.setdefault(collection.id, collection) != collection:
            raise UsageError(f"the id {collection.id!r} is taken")

    def collections(self) -> tuple[Collection, ...]:
        return tuple(self._collections.values())

    def remove_collection(self, collection_id: str) -> None:
        """What a collection has beside rubrics and label sets is not here."""
        if self._of(collection_id) or self._label_sets[collection_id]:
            raise UsageError(f"collection {collection_id!r} is not empty")
        del self._collections[collection_id]

    def add_rubric(self, collection_id: str, rubric: Rubric) -> Rubric:
        versions = self._of(collection_id).setdefault(rubric.id, [])
        if not versions or versions[-1].digest != rubric.digest:
            versions.append(rubric.model_copy(update={"version": len(versions) + 1}))
        return versions[-1]

    def rubric(self, collection_id: str, rubric_id: str, version: int | None = None) -> Rubric:
        versions = self._of(collection_id).get(rubric_id)
        if not versions:
            raise NotFoundError(f"rubric {rubric_id!r} not found; available: {', '.join(self._of(collection_id))}")
        if version is None:
            return versions[-1]
        if not 1 <= version <= len(versions):
            raise NotFoundError(f"version {version} not found; available: 1 to {len(versions)}")
        return versions[version - 1]

    def rubrics(self, collection_id: str) -> tuple[Rubric, ...]:
        return tuple(versions[-1] for _, versions in sorted(self._of(collection_id).items()))

    def add_label_set(self, collection_id: str, labels: LabelSet) -> None:
        self._of(collection_id)
        if self._label_sets[collection_id].setdefault(labels.id, labels) != labels:
            raise UsageError(f"label set {labels.id!r} already exists with other content")

    def label_set(self, collection_id: str, label_set_id: str) -> LabelSet:
        self._of(collection_id)
        try:
            return self._label_sets[collection_id][label_set_id]
        except KeyError:
            raise NotFoundError(f"there is no label set {label_set_id!r}") from None

    def label_sets(self, collection_id: str) -> tuple[LabelSet, ...]:
        self._of(collection_id)
        return tuple(self._label_sets[collection_id].values())

    def put_result(self, key: str, result: JudgeResult) -> None:
        kept = self._results.get(key)
        paid = kept is not None and kept.result_type is ResultType.DIRECT_RESULT
        if result.result_type is ResultType.DIRECT_RESULT or not paid:
            self._results[key] = result

    def get_result(self, key: str) -> JudgeResult | None:
        return self._results.get(key)

    def close(self) -> None:
        pass

    def _of(self, collection_id: str) -> dict[str, list[Rubric]]:
        if collection_id not in self._collections:
            raise NotFoundError(f"collection {collection_id!r} not found; available: {', '.join(self._collections)}")
        return self._rubrics[collection_id]
