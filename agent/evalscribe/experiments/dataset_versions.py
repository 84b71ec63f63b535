"""Split, publish, compare and export versions of a dataset."""

import csv
import hashlib
import io
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate

from pydantic import JsonValue

from evalscribe.errors import UsageError
from evalscribe.experiments.datasets import item_batches
from evalscribe.ids import Frozen, canonical_json
from evalscribe.json_data import to_text
from evalscribe.model.dataset import Dataset, DatasetVersion, Item
from evalscribe.model.experiment_storage import Datasets
from evalscribe.sources.items import ITEM_FIELDS, render_item
from evalscribe.store.lookup import find_dataset_version

DEFAULT = {"train": 0.2, "dev": 0.4, "test": 0.4}
"""Default shares of the splits. A prompted classifier needs few training examples and a large test set."""
_WHOLE = 1 << 64


class SplitCounts(Frozen):
    dataset: str
    items: dict[str, int]
    """By split."""
    changed: int
    """Items that were in another split before."""


def checked_shares(given: Mapping[str, float | None]) -> dict[str, float]:
    """Return the shares of all splits; missing ones are 0, and without any the defaults apply.

    Raises `UsageError` unless they sum to 1.
    """
    told = {name: share for name, share in given.items() if share is not None}
    shares = told or DEFAULT
    if any(not 0 <= share <= 1 for share in shares.values()) or not math.isclose(sum(shares.values()), 1):
        said = " ".join(f"--{name} {share:g}" for name, share in shares.items())
        raise UsageError(f"{said}: shares must be between 0 and 1 and sum to 1, not {sum(shares.values()):g}")
    return {name: share for name, share in shares.items() if share}


def split_of(item: Item, shares: Mapping[str, float], seed: int) -> str:
    """Return the split of an item, decided only by its cluster (or else its key) and the seed.

    A cluster never spans two splits, and adding items moves no other item.
    """
    name = f"{seed}\n{'key' if item.cluster is None else 'cluster'}\n{item.cluster or item.key}"
    place = int.from_bytes(hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()[:8]) / _WHOLE
    bounds = zip(shares, accumulate(shares.values()), strict=True)
    return next((split for split, bound in bounds if place < bound), list(shares)[-1])


def split_draft(datasets: Datasets, dataset: Dataset, shares: Mapping[str, float], seed: int) -> SplitCounts:
    """Assign every item of the draft to a split. Raises `UsageError` for an empty draft."""
    counts = Counter(dict.fromkeys(shares, 0))
    changed = 0
    for some in item_batches(datasets.draft(dataset.id)):
        placed = [item.model_copy(update={"split": split_of(item, shares, seed)}) for item in some]
        counts.update(item.split for item in placed if item.split)
        moved = [new for new, old in zip(placed, some, strict=True) if new.split != old.split]
        if moved:
            datasets.put(dataset.id, moved)
        changed += len(moved)
    if not counts.total():
        raise UsageError(f"the draft of {dataset.name} has no items to split")
    return SplitCounts(dataset=dataset.name, items=dict(counts), changed=changed)


class PublishedVersion(Frozen):
    version: DatasetVersion
    new: bool
    """False if an earlier version has the same content."""


def publish_version(datasets: Datasets, dataset: Dataset, description: str, now: str) -> PublishedVersion:
    """Publish the draft as a version. Raises `UsageError` for an empty draft."""
    before = {version.id for version in datasets.versions(dataset.id)}
    version = datasets.publish(dataset.id, now, description=description)
    return PublishedVersion(version=version, new=version.id not in before)


DRAFT = "draft"
_FIELDS = tuple(name for name in Item.model_fields if name not in ("key", "source"))
_BYTES = 8
"""Bytes kept of a field's hash; enough to detect changes."""


class VersionSide(Frozen):
    name: str
    """`version 2` or `draft`."""
    version_id: str | None = None
    items: int


class ChangedItem(Frozen):
    key: str
    fields: tuple[str, ...]
    """Names of the fields that differ, in their order."""


class VersionComparison(Frozen):
    dataset: str
    base: VersionSide
    other: VersionSide
    added: tuple[str, ...] = ()
    """Keys, in the order of `other`."""
    removed: tuple[str, ...] = ()
    """Keys, in the order of `base`."""
    changed: tuple[ChangedItem, ...] = ()
    """In the order of `other`."""
    moved: bool = False
    """Whether items in both versions have a different order, which also makes a new version."""

    @property
    def same(self) -> bool:
        return not (self.added or self.removed or self.changed or self.moved)


def compare_versions(datasets: Datasets, dataset: Dataset, base: str, other: str) -> VersionComparison:
    """Compare two versions by number, id, `latest` or `draft`. Memory grows with the keys, not with the items.

    Raises `NotFoundError` if a version does not exist.
    """
    ours, theirs = (_marked(_items(datasets, dataset, named)) for named in (base, other))
    both = [key for key in theirs if key in ours]
    return VersionComparison(
        dataset=dataset.name,
        base=_side(datasets, dataset, base, len(ours)),
        other=_side(datasets, dataset, other, len(theirs)),
        added=tuple(key for key in theirs if key not in ours),
        removed=tuple(key for key in ours if key not in theirs),
        changed=tuple(_changed(key, ours[key], theirs[key]) for key in both if ours[key] != theirs[key]),
        moved=both != [key for key in ours if key in theirs],
    )


def _items(datasets: Datasets, dataset: Dataset, named: str) -> Iterator[Item]:
    if named == DRAFT:
        return datasets.draft(dataset.id)
    return datasets.items(find_dataset_version(datasets, dataset, named).id)


def _side(datasets: Datasets, dataset: Dataset, named: str, items: int) -> VersionSide:
    if named == DRAFT:
        return VersionSide(name=DRAFT, items=items)
    version = find_dataset_version(datasets, dataset, named)
    return VersionSide(name=f"version {version.number}", version_id=version.id, items=items)


def _marked(items: Iterable[Item]) -> dict[str, bytes]:
    """Return the concatenated field hashes of each item, by key."""
    return {item.key: b"".join(_mark(getattr(item, name)) for name in _FIELDS) for item in items}


def _mark(value: object) -> bytes:
    return hashlib.blake2b(canonical_json(value).encode("utf-8", "surrogatepass"), digest_size=_BYTES).digest()


def _changed(key: str, ours: bytes, theirs: bytes) -> ChangedItem:
    starts = ((name, number * _BYTES) for number, name in enumerate(_FIELDS))
    differ = (name for name, at in starts if ours[at : at + _BYTES] != theirs[at : at + _BYTES])
    return ChangedItem(key=key, fields=tuple(differ))


FORMATS = ("jsonl", "csv")


def version_lines(items: Iterable[Item], form: str) -> Iterator[str]:
    """Render items as lines without line ends. Raises `UsageError` for an unknown format.

    JSON lines can be uploaded again. In a table, texts stay as they are and other values are JSON.
    """
    if form not in FORMATS:
        raise UsageError(f"--format {form!r} is unknown; use one of {', '.join(FORMATS)}")
    return map(render_item, items) if form == "jsonl" else _rows(items)


def _rows(items: Iterable[Item]) -> Iterator[str]:
    yield _row(ITEM_FIELDS)
    for item in items:
        told = item.model_dump(mode="json")
        yield _row([_cell(told[name]) for name in ITEM_FIELDS])


def _row(cells: Iterable[str]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="").writerow(cells)
    return buffer.getvalue()


def _cell(value: JsonValue) -> str:
    if value in (None, {}, []):
        return ""
    return to_text(value)
