"""Datasets and their items as they are listed."""

from collections import Counter
from collections.abc import Iterable, Iterator

from pydantic import Field, JsonValue

from evalscribe.errors import UsageError
from evalscribe.ids import Frozen
from evalscribe.json_data import to_text
from evalscribe.model.dataset import Dataset, DatasetVersion, Item
from evalscribe.model.experiment_storage import Datasets
from evalscribe.text import cut, one_line

EXCERPT = 60
"""Characters of an input or expected output where the payload is not wanted."""


class Listed(Frozen):
    """A dataset in short."""

    id: str
    name: str
    description: str = ""
    draft_items: int
    versions: int
    latest: DatasetVersion | None = None
    created_at: str


class Shown(Frozen):
    """A dataset in full."""

    id: str
    name: str
    description: str = ""
    created_at: str
    draft_items: int
    draft_is: int | None = None
    """Number of the version that the draft is equal to."""
    with_expected: int = 0
    """How many items of the draft expect something."""
    splits: dict[str, int] = Field(default_factory=dict)
    """Of the draft's items that are in one."""
    clusters: int = 0
    versions: tuple[DatasetVersion, ...] = ()


class Example(Frozen):
    """An item in short."""

    key: str
    split: str | None = None
    cluster: str | None = None
    input: str
    expected_output: str | None = None
    events: int = 0


def listed(datasets: Datasets, search: str | None) -> Iterator[Listed]:
    """In the order they were made; `search`: those with this in their name or description, in whatever case."""
    wanted = (search or "").casefold()
    for dataset in datasets.all():
        if wanted in f"{dataset.name}\n{dataset.description}".casefold():
            yield _listed(datasets, dataset)


def _listed(datasets: Datasets, dataset: Dataset) -> Listed:
    versions = datasets.versions(dataset.id)
    return Listed(
        **dataset.model_dump(),
        draft_items=datasets.draft_size(dataset.id),
        versions=len(versions),
        latest=versions[-1] if versions else None,
    )


def shown(datasets: Datasets, dataset: Dataset) -> Shown:
    """Reads the whole draft, a page at a time."""
    digests, splits, clusters, expected = [], Counter[str](), set(), 0
    for item in datasets.draft(dataset.id):
        digests.append(item.digest)
        splits.update([item.split] if item.split else [])
        clusters.add(item.cluster)
        expected += item.expected_output is not None
    draft = DatasetVersion.id_of(dataset.id, tuple(digests))
    versions = datasets.versions(dataset.id)
    return Shown(
        **dataset.model_dump(),
        draft_items=len(digests),
        draft_is=next((version.number for version in versions if version.id == draft), None),
        with_expected=expected,
        splits=dict(sorted(splits.items())),
        clusters=len(clusters - {None}),
        versions=versions,
    )


def examples(items: Iterable[Item], split: str | None) -> Iterator[Item]:
    """Only those of a split, where one is wanted. Raises `UsageError` at the end of items none of which is in it."""
    splits: dict[str | None, None] = {}
    for item in items:
        splits[item.split] = None
        if split is None or item.split == split:
            yield item
    if split is not None and splits and split not in splits:
        there = ", ".join(sorted(one for one in splits if one is not None))
        raise UsageError(f"--split {split!r}: no item is in it; {f'there is: {there}' if there else 'none is in any'}")


def in_short(item: Item) -> Example:
    expected = item.expected_output
    return Example(
        key=item.key,
        split=item.split,
        cluster=item.cluster,
        input=excerpt(item.input),
        expected_output=None if expected is None else excerpt(expected),
        events=len(item.events),
    )


def excerpt(value: JsonValue) -> str:
    return cut(one_line(to_text(value)), EXCERPT)
