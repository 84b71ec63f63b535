"""Create datasets, fill their drafts, and split, publish, compare and export their versions."""

import csv
import hashlib
import io
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import TYPE_CHECKING, cast

from pydantic import Field, JsonValue

from evalscribe import text as prose
from evalscribe.errors import DataError, NotFoundError, UsageError
from evalscribe.ids import Frozen, canonical_json
from evalscribe.json_data import InvalidJson, StrictJson, to_text
from evalscribe.model.dataset import Dataset, DatasetVersion, Item, short_id
from evalscribe.model.record import AddedCounts
from evalscribe.sources.items import ITEM_FIELDS, parse_item, render_item
from evalscribe.store.lookup import find_dataset_version
from evalscribe.text import cut, one_line, pluralise

if TYPE_CHECKING:
    from evalscribe.sources.items import ItemFile
    from evalscribe.store.datasets import DatasetStore

MAX_KEYS_NAMED = 10


@dataclass(frozen=True)
class NewItem:
    """An example as a user entered it; texts such as `input` may be JSON."""

    input: str
    expected: str | None = None
    metadata: str | None = None
    events: str | None = None
    split: str | None = None
    cluster: str | None = None
    key: str | None = None


class AddedItem(Frozen):
    """Result of adding an example."""

    item: Item
    added: AddedCounts
    hidden: int = 0
    """Number of secrets redacted from the example."""


class RemovedItems(Frozen):
    """Result of removing items from a draft."""

    dataset: str
    items: int


def create_dataset(datasets: "DatasetStore", name: str, description: str, now: str) -> Dataset:
    """Create a dataset. Raises `UsageError` if the name is invalid or taken."""
    if name != prose.name(name):
        raise UsageError(
            f"`name` {name[:80]!r} is not a valid name: use one line of 1 to {prose.NAME_LIMIT} characters",
            fields=("name",),
        )
    dataset = Dataset(id=short_id("ds", [name, now]), name=name, description=prose.visible(description), created_at=now)
    datasets.add(dataset)
    return dataset


def add_item(datasets: "DatasetStore", dataset: Dataset, example: NewItem) -> AddedItem:
    """Add an example, replacing the one with the same key. Raises `UsageError` if it is invalid."""
    value: dict[str, object] = {"input": json_or_text("input", example.input)}
    if example.expected is not None:
        value["expected_output"] = json_or_text("expected_output", example.expected)
    for name in ("metadata", "events"):
        if (text := getattr(example, name)) is not None:
            value[name] = _needed(name, text)
    value |= {name: found for name in ("split", "cluster", "key") if (found := getattr(example, name)) is not None}
    try:
        read = parse_item(value, {})
    except DataError as error:
        raise UsageError(str(error)) from None
    return AddedItem(item=read.item, added=datasets.put(dataset.id, [read.item]), hidden=read.hidden)


def remove_items(datasets: "DatasetStore", dataset: Dataset, keys: Sequence[str]) -> RemovedItems:
    """Remove items from the draft. Raises `NotFoundError`, and removes nothing, if a key does not exist."""
    missing = set(keys)
    for item in datasets.draft(dataset.id):
        missing.discard(item.key)
    if missing:
        told = ", ".join(sorted(missing)[:MAX_KEYS_NAMED])
        raise NotFoundError(
            f"the draft of {dataset.name} has no item {told}; "
            f"`evalscribe datasets examples list {dataset.name}` lists them"
        )
    return RemovedItems(dataset=dataset.name, items=datasets.drop(dataset.id, keys))


def json_or_text(field: str, text: str) -> JsonValue:
    """Parse the text as JSON if it is JSON, else return the text. Raises `UsageError` for ambiguous JSON."""
    try:
        return _json(field, text)
    except InvalidJson:
        return text


def _needed(field: str, text: str) -> JsonValue:
    try:
        return _json(field, text)
    except InvalidJson as error:
        raise UsageError(f"`{field}`: {error}", fields=(field,)) from None


def _json(field: str, text: str) -> JsonValue:
    """Parse JSON. Raises `UsageError`, or `InvalidJson`."""
    try:
        return cast(JsonValue, StrictJson().decode(text))
    except InvalidJson:
        raise
    except DataError as error:
        raise UsageError(f"`{field}`: {error}", fields=(field,)) from None


AT_ONCE = 500
"""Items per write."""


class UploadResult(Frozen):
    """Result of uploading a file."""

    dataset: str
    file: str
    added: AddedCounts
    skipped: int = 0
    """Number of lines without a valid item."""
    problems: tuple[str, ...] = ()
    """The first problems of the upload, with their line numbers."""
    hidden: int = 0
    """Number of secrets redacted."""
    stopped: str | None = None
    """Why reading stopped before the end; earlier items are kept."""

    @property
    def items(self) -> int:
        return self.added.new + self.added.changed + self.added.same


def upload_items(
    datasets: "DatasetStore", dataset: Dataset, file: str, opened: "Callable[[], ItemFile]", *, partial: bool
) -> UploadResult:
    """Upload the items of a file into the draft.

    Raises `DataError` if the file holds no item or, without `partial`, for any problem; nothing is then stored.
    """
    if not partial:
        _check(file, opened())
    rows, added = opened(), AddedCounts()
    breaks: list[str] = []
    for some in item_batches(_until_it_breaks(rows, breaks)):
        added += datasets.put(dataset.id, some)
    done = UploadResult(
        dataset=dataset.name,
        file=file,
        added=added,
        skipped=rows.bad,
        problems=tuple(rows.problems),
        hidden=rows.hidden,
        stopped=next(iter(breaks), None),
    )
    if not done.items:
        raise DataError("\n".join([*upload_problems(done), f"{file} contains no items"]), fields=("map",))
    return done


def upload_problems(done: UploadResult) -> Iterator[str]:
    """Yield the problems of an upload, one per line."""
    yield from _problems(done.problems, done.skipped)
    if done.stopped:
        yield f"reading stopped early: {done.stopped}"


def item_batches(items: Iterable[Item]) -> Iterator[tuple[Item, ...]]:
    left = iter(items)
    while some := tuple(islice(left, AT_ONCE)):
        yield some


def _until_it_breaks(rows: "ItemFile", breaks: list[str]) -> Iterator[Item]:
    """Yield items until the file becomes unreadable; items before that are valid."""
    try:
        yield from rows.read()
    except DataError as error:
        breaks.append(str(error))


def _check(file: str, rows: "ItemFile") -> None:
    for _ in rows.read():
        pass
    if rows.bad:
        none = f"{pluralise(rows.bad, 'line')} of {file} cannot be read, so nothing was stored (`no_partial`)"
        raise DataError("\n".join([*_problems(rows.problems, rows.bad), none]), fields=("map", "no_partial"))


def _problems(first: Iterable[str], number: int) -> Iterator[str]:
    told = list(first)
    yield from told
    if number > len(told):
        yield f"and {number - len(told):,} more"


MAX_DUPLICATES_NAMED = 10


class DuplicateItem(Frozen):
    """An item that equals another item of the draft."""

    key: str
    split: str | None = None
    cluster: str | None = None


class Duplicates(Frozen):
    """Items with equal input and expected output."""

    kept: DuplicateItem
    """The first of the equal items."""
    others: tuple[DuplicateItem, ...]
    """The other equal items, in the order of the draft."""

    @property
    def splits(self) -> tuple[str, ...]:
        """Splits of the equal items. More than one means that test data leaks into training data."""
        return tuple(sorted({twin.split for twin in (self.kept, *self.others) if twin.split}))


def find_duplicates(items: Iterable[Item]) -> tuple[Duplicates, ...]:
    """Find groups of duplicate items, ordered by their first items. Memory grows with the keys, not with the items."""
    first: dict[str, DuplicateItem] = {}
    others: dict[str, list[DuplicateItem]] = {}
    for item in items:
        likeness, twin = item.likeness, DuplicateItem(key=item.key, split=item.split, cluster=item.cluster)
        if first.setdefault(likeness, twin) is not twin:
            others.setdefault(likeness, []).append(twin)
    return tuple(Duplicates(kept=first[one], others=tuple(others[one])) for one in first if one in others)


def remove_duplicates(datasets: "DatasetStore", dataset: Dataset, chosen: Sequence[str]) -> RemovedItems:
    """Remove all duplicates except the first item of each group, or only the chosen duplicates.

    Raises `UsageError` if a chosen item is not a later duplicate.
    """
    may_go = [twin.key for group in find_duplicates(datasets.draft(dataset.id)) for twin in group.others]
    wrong = sorted(set(chosen).difference(may_go))
    if wrong:
        told = ", ".join(may_go[:MAX_DUPLICATES_NAMED]) or "none"
        raise UsageError(
            f"`remove_item_id` {wrong[0]}: not a removable duplicate; removable: {told}", fields=("remove_item_id",)
        )
    return RemovedItems(dataset=dataset.name, items=datasets.drop(dataset.id, list(chosen) or may_go))


EXCERPT = 60
"""Maximum characters shown of an input or expected output if the full value is not requested."""


class ListedDataset(Frozen):
    """A dataset in summary."""

    id: str
    name: str
    description: str = ""
    draft_items: int
    versions: int
    latest: DatasetVersion | None = None
    created_at: str


class DatasetSummary(Frozen):
    """A dataset in detail."""

    id: str
    name: str
    description: str = ""
    created_at: str
    draft_items: int
    draft_is: int | None = None
    """Number of the version with the same content as the draft."""
    with_expected: int = 0
    """Number of draft items with an expected output."""
    splits: dict[str, int] = Field(default_factory=dict)
    """Number of draft items by split."""
    clusters: int = 0
    versions: tuple[DatasetVersion, ...] = ()


class ListedItem(Frozen):
    """An item in summary."""

    key: str
    split: str | None = None
    cluster: str | None = None
    input: str
    expected_output: str | None = None
    events: int = 0


def list_datasets(datasets: "DatasetStore", search: str | None) -> Iterator[ListedDataset]:
    """List datasets in order of creation; `search` filters by name or description, ignoring case."""
    wanted = (search or "").casefold()
    for dataset in datasets.all():
        if wanted in f"{dataset.name}\n{dataset.description}".casefold():
            yield _listed(datasets, dataset)


def _listed(datasets: "DatasetStore", dataset: Dataset) -> ListedDataset:
    versions = datasets.versions(dataset.id)
    return ListedDataset(
        **dataset.model_dump(),
        draft_items=datasets.draft_size(dataset.id),
        versions=len(versions),
        latest=versions[-1] if versions else None,
    )


def summarise_dataset(datasets: "DatasetStore", dataset: Dataset) -> DatasetSummary:
    """Summarise a dataset. Reads the whole draft, a page at a time."""
    digests, splits, clusters, expected = [], Counter[str](), set(), 0
    for item in datasets.draft(dataset.id):
        digests.append(item.digest)
        splits.update([item.split] if item.split else [])
        clusters.add(item.cluster)
        expected += item.expected_output is not None
    draft = DatasetVersion.id_of(dataset.id, tuple(digests))
    versions = datasets.versions(dataset.id)
    return DatasetSummary(
        **dataset.model_dump(),
        draft_items=len(digests),
        draft_is=next((version.number for version in versions if version.id == draft), None),
        with_expected=expected,
        splits=dict(sorted(splits.items())),
        clusters=len(clusters - {None}),
        versions=versions,
    )


def list_items(items: Iterable[Item], split: str | None) -> Iterator[Item]:
    """Filter items by split. Raises `UsageError` at the end if no item is in the split."""
    splits: dict[str | None, None] = {}
    for item in items:
        splits[item.split] = None
        if split is None or item.split == split:
            yield item
    if split is not None and splits and split not in splits:
        there = ", ".join(sorted(one for one in splits if one is not None))
        raise UsageError(
            f"`split` {split!r}: it has no items; {f'splits: {there}' if there else 'the dataset is not split'}",
            fields=("split",),
        )


def item_excerpts(item: Item) -> ListedItem:
    expected = item.expected_output
    return ListedItem(
        key=item.key,
        split=item.split,
        cluster=item.cluster,
        input=excerpt(item.input),
        expected_output=None if expected is None else excerpt(expected),
        events=len(item.events),
    )


def excerpt(value: JsonValue) -> str:
    return cut(one_line(to_text(value)), EXCERPT)


DEFAULT = {"train": 0.2, "dev": 0.4, "test": 0.4}
"""Default shares of the splits. A prompted classifier needs few training examples and a large test set."""
_WHOLE = 1 << 64


class SplitCounts(Frozen):
    dataset: str
    items: dict[str, int]
    """By split."""
    changed: int
    """Number of items that were in another split before."""


def checked_shares(given: Mapping[str, float | None]) -> dict[str, float]:
    """Return the shares of all splits with a share above 0; the default shares if no share is given.

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


def split_draft(datasets: "DatasetStore", dataset: Dataset, shares: Mapping[str, float], seed: int) -> SplitCounts:
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


def publish_version(datasets: "DatasetStore", dataset: Dataset, description: str, now: str) -> PublishedVersion:
    """Publish the draft as a version. Raises `UsageError` for an empty draft."""
    before = {version.id for version in datasets.versions(dataset.id)}
    version = datasets.publish(dataset.id, now, description=description)
    return PublishedVersion(version=version, new=version.id not in before)


def publish_file(datasets: "DatasetStore", name: str, items: Sequence[Item], now: str) -> PublishedVersion:
    """Publish the items of a file as a version of the dataset with this name, which is created if it is missing.

    Raises `UsageError` if the draft of the dataset has changes that are not published.
    """
    name = prose.name(name)
    dataset = datasets.find(name) or create_dataset(datasets, name, "", now)
    before = {version.id for version in datasets.versions(dataset.id)}
    version = datasets.publish_items(dataset.id, items, now)
    if version is None:
        raise UsageError(
            f"the draft of dataset {dataset.name} has changes that would be lost: publish them with "
            f"`evalscribe datasets publish {dataset.name}`, or give the file another name"
        )
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
    """Names of the fields that differ, in the order in which an item has them."""


class VersionComparison(Frozen):
    dataset: str
    base: VersionSide
    other: VersionSide
    added: tuple[str, ...] = ()
    """Keys of the items that only `other` has, in its order."""
    removed: tuple[str, ...] = ()
    """Keys of the items that only `base` has, in its order."""
    changed: tuple[ChangedItem, ...] = ()
    """Items that both versions have with different fields, in the order of `other`."""
    moved: bool = False
    """Whether the items of both versions are in a different order, which also makes a new version."""

    @property
    def same(self) -> bool:
        return not (self.added or self.removed or self.changed or self.moved)


def compare_versions(datasets: "DatasetStore", dataset: Dataset, base: str, other: str) -> VersionComparison:
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


def _items(datasets: "DatasetStore", dataset: Dataset, named: str) -> Iterator[Item]:
    if named == DRAFT:
        return datasets.draft(dataset.id)
    return datasets.items(find_dataset_version(datasets, dataset, named).id)


def _side(datasets: "DatasetStore", dataset: Dataset, named: str, items: int) -> VersionSide:
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
        raise UsageError(f"`format` {form!r} is unknown; use one of {', '.join(FORMATS)}", fields=("format",))
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
