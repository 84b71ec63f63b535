"""Create datasets, fill their drafts, and split, publish, compare and export versions."""

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
    """An example as a user entered it. Values such as `input` are text, which can be JSON."""

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
    """Add an example to the draft.

    An existing example with the same key is replaced. Raises `UsageError` if the example is invalid.
    """
    value: dict[str, object] = {"input": json_or_text("input", example.input)}
    if example.expected is not None:
        value["expected_output"] = json_or_text("expected_output", example.expected)
    for name in ("metadata", "events"):
        if (text := getattr(example, name)) is not None:
            value[name] = _require_json(name, text)
    value |= {
        name: field_value for name in ("split", "cluster", "key") if (field_value := getattr(example, name)) is not None
    }
    try:
        parsed = parse_item(value, {})
    except DataError as error:
        raise UsageError(str(error)) from None
    return AddedItem(item=parsed.item, added=datasets.put(dataset.id, [parsed.item]), hidden=parsed.hidden)


def remove_items(datasets: "DatasetStore", dataset: Dataset, keys: Sequence[str]) -> RemovedItems:
    """Remove items from the draft. If a key does not exist, raises `NotFoundError` and removes nothing."""
    missing = set(keys)
    for item in datasets.draft(dataset.id):
        missing.discard(item.key)
    if missing:
        names = ", ".join(sorted(missing)[:MAX_KEYS_NAMED])
        raise NotFoundError(
            f"the draft of {dataset.name} has no item {names}; "
            f"`evalscribe datasets examples list {dataset.name}` lists them"
        )
    return RemovedItems(dataset=dataset.name, items=datasets.drop(dataset.id, keys))


def json_or_text(field: str, text: str) -> JsonValue:
    """Parse a text as JSON. Text that is not JSON is returned unchanged. Raises `UsageError` for ambiguous JSON."""
    try:
        return _parse_json(field, text)
    except InvalidJson:
        return text


def _require_json(field: str, text: str) -> JsonValue:
    try:
        return _parse_json(field, text)
    except InvalidJson as error:
        raise UsageError(f"`{field}`: {error}", fields=(field,)) from None


def _parse_json(field: str, text: str) -> JsonValue:
    """Parse JSON. Raises `UsageError` for ambiguous JSON, `InvalidJson` for text that is not JSON."""
    try:
        return cast(JsonValue, StrictJson().decode(text))
    except InvalidJson:  # It is a `DataError`, too, but the callers decide what text that is not JSON means.
        raise
    except DataError as error:
        raise UsageError(f"`{field}`: {error}", fields=(field,)) from None


AT_ONCE = 500
"""Maximum number of items that are written to the store at a time."""


class UploadResult(Frozen):
    """Result of uploading a file."""

    dataset: str
    file: str
    added: AddedCounts
    skipped: int = 0
    """Number of lines without a valid item."""
    problems: tuple[str, ...] = ()
    """The first problems of the upload, each with its line number."""
    hidden: int = 0
    """Number of secrets that were redacted."""
    stopped: str | None = None
    """Why reading stopped before the end of the file; None if the whole file was read. Items that were read before the
    stop are stored."""

    @property
    def items(self) -> int:
        return self.added.new + self.added.changed + self.added.same


def upload_items(
    datasets: "DatasetStore", dataset: Dataset, file: str, open_file: "Callable[[], ItemFile]", *, partial: bool
) -> UploadResult:
    """Upload the items of a file into the draft.

    Raises `DataError` if the file has no item. Without `partial`, any problem raises `DataError` before anything is
    stored.
    """
    # The file is read twice, because its items may not fit into memory.
    if not partial:
        _check(file, open_file())
    rows, added = open_file(), AddedCounts()
    errors: list[str] = []
    for batch in item_batches(_readable_items(rows, errors)):
        added += datasets.put(dataset.id, batch)
    result = UploadResult(
        dataset=dataset.name,
        file=file,
        added=added,
        skipped=rows.bad,
        problems=tuple(rows.problems),
        hidden=rows.hidden,
        stopped=next(iter(errors), None),
    )
    if not result.items:
        raise DataError("\n".join([*upload_problems(result), f"{file} contains no items"]), fields=("map",))
    return result


def upload_problems(result: UploadResult) -> Iterator[str]:
    """Yield the problems of an upload, one per line."""
    yield from _problem_lines(result.problems, result.skipped)
    if result.stopped:
        yield f"reading stopped early: {result.stopped}"


def item_batches(items: Iterable[Item]) -> Iterator[tuple[Item, ...]]:
    remaining = iter(items)
    while batch := tuple(islice(remaining, AT_ONCE)):
        yield batch


def _readable_items(rows: "ItemFile", errors: list[str]) -> Iterator[Item]:
    """Yield the items of a file. If the file cannot be read further, add the reason to `errors` and stop."""
    try:
        yield from rows.read()
    except DataError as error:
        errors.append(str(error))


def _check(file: str, rows: "ItemFile") -> None:
    for _ in rows.read():
        pass
    if rows.bad:
        refusal = f"{pluralise(rows.bad, 'line')} of {file} cannot be read, so nothing was stored (`no_partial`)"
        raise DataError("\n".join([*_problem_lines(rows.problems, rows.bad), refusal]), fields=("map", "no_partial"))


def _problem_lines(problems: Iterable[str], number: int) -> Iterator[str]:
    shown = list(problems)
    yield from shown
    if number > len(shown):
        yield f"and {number - len(shown):,} more"


MAX_DUPLICATES_NAMED = 10


class DuplicateItem(Frozen):
    """An item of the draft whose input and expected output equal those of another item."""

    key: str
    split: str | None = None
    cluster: str | None = None


class Duplicates(Frozen):
    """A group of items of the draft that have the same input and the same expected output."""

    kept: DuplicateItem
    """The first item of the group."""
    others: tuple[DuplicateItem, ...]
    """The other items of the group, in the order of the draft."""

    @property
    def splits(self) -> tuple[str, ...]:
        """Splits of the group's items. If there is more than one split, test data can leak into training data."""
        return tuple(sorted({item.split for item in (self.kept, *self.others) if item.split}))


def find_duplicates(items: Iterable[Item]) -> tuple[Duplicates, ...]:
    """Find groups of duplicate items, in the order of their first items.

    Memory use grows with the number of items, not with their size.
    """
    first: dict[str, DuplicateItem] = {}
    other_duplicates: dict[str, list[DuplicateItem]] = {}
    for item in items:
        likeness, duplicate = item.likeness, DuplicateItem(key=item.key, split=item.split, cluster=item.cluster)
        if first.setdefault(likeness, duplicate) is not duplicate:
            other_duplicates.setdefault(likeness, []).append(duplicate)
    return tuple(
        Duplicates(kept=first[likeness], others=tuple(other_duplicates[likeness]))
        for likeness in first
        if likeness in other_duplicates
    )


def remove_duplicates(datasets: "DatasetStore", dataset: Dataset, keys: Sequence[str]) -> RemovedItems:
    """Remove the chosen duplicates, or all duplicates if none is chosen. The first item of each group always stays.

    Raises `UsageError` if a chosen item is not a duplicate, or is the first item of its group.
    """
    removable = [duplicate.key for group in find_duplicates(datasets.draft(dataset.id)) for duplicate in group.others]
    invalid = sorted(set(keys).difference(removable))
    if invalid:
        names = ", ".join(removable[:MAX_DUPLICATES_NAMED]) or "none"
        raise UsageError(
            f"`remove_item_id` {invalid[0]} is not a duplicate that can be removed; removable items: {names}",
            fields=("remove_item_id",),
        )
    return RemovedItems(dataset=dataset.name, items=datasets.drop(dataset.id, list(keys) or removable))


EXCERPT = 60
"""Maximum number of characters of an input or expected output that are shown, unless the full value is requested."""


class ListedDataset(Frozen):
    """Short summary of a dataset, for a list of datasets."""

    id: str
    name: str
    description: str = ""
    draft_items: int
    versions: int
    latest: DatasetVersion | None = None
    created_at: str


class DatasetSummary(Frozen):
    """Detailed summary of a dataset."""

    id: str
    name: str
    description: str = ""
    created_at: str
    draft_items: int
    draft_is: int | None = None
    """Number of the version that has the same content as the draft; None if there is no such version."""
    with_expected: int = 0
    """Number of draft items with an expected output."""
    splits: dict[str, int] = Field(default_factory=dict)
    """Number of draft items by split."""
    clusters: int = 0
    versions: tuple[DatasetVersion, ...] = ()


class ListedItem(Frozen):
    """Short summary of an item, for a list of items."""

    key: str
    split: str | None = None
    cluster: str | None = None
    input: str
    expected_output: str | None = None
    events: int = 0


def list_datasets(datasets: "DatasetStore", search: str | None) -> Iterator[ListedDataset]:
    """List datasets, oldest first.

    With `search`, list only the datasets whose name or description contains that text, ignoring case.
    """
    query = (search or "").casefold()
    for dataset in datasets.all():
        if query in f"{dataset.name}\n{dataset.description}".casefold():
            yield _listed_dataset(datasets, dataset)


def _listed_dataset(datasets: "DatasetStore", dataset: Dataset) -> ListedDataset:
    versions = datasets.versions(dataset.id)
    return ListedDataset(
        **dataset.model_dump(),
        draft_items=datasets.draft_size(dataset.id),
        versions=len(versions),
        latest=versions[-1] if versions else None,
    )


def summarise_dataset(datasets: "DatasetStore", dataset: Dataset) -> DatasetSummary:
    """Summarise a dataset. The whole draft is read, one page at a time."""
    digests, splits, clusters, expected = [], Counter[str](), set(), 0
    for item in datasets.draft(dataset.id):
        digests.append(item.digest)
        splits.update([item.split] if item.split else [])
        clusters.add(item.cluster)
        expected += item.expected_output is not None
    # The id of a version is derived from its items, so equal content has an equal id.
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
    """Yield the items of the split, or all items if `split` is None.

    If the split has no items, raises `UsageError` after all items have been read.
    """
    splits: dict[str | None, None] = {}
    for item in items:
        splits[item.split] = None
        if split is None or item.split == split:
            yield item
    if split is not None and splits and split not in splits:
        names = ", ".join(sorted(name for name in splits if name is not None))
        raise UsageError(
            f"`split` {split!r}: the split has no items; {f'splits: {names}' if names else 'the dataset is not split'}",
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
"""Default shares of the splits. A prompted classifier needs few training examples, but a large test set."""
_WHOLE = 1 << 64


class SplitCounts(Frozen):
    dataset: str
    items: dict[str, int]
    """Number of items by split."""
    changed: int
    """Number of items that were previously in another split or in no split."""


def checked_shares(options: Mapping[str, float | None]) -> dict[str, float]:
    """Return the shares that are above 0, by split. If no share is given, return the default shares.

    Raises `UsageError` unless the shares sum to 1.
    """
    specified = {name: share for name, share in options.items() if share is not None}
    shares = specified or DEFAULT
    if any(not 0 <= share <= 1 for share in shares.values()) or not math.isclose(sum(shares.values()), 1):
        arguments = " ".join(f"--{name} {share:g}" for name, share in shares.items())
        raise UsageError(f"{arguments}: shares must be between 0 and 1 and sum to 1, not {sum(shares.values()):g}")
    return {name: share for name, share in shares.items() if share}


def split_of(item: Item, shares: Mapping[str, float], seed: int) -> str:
    """Return the split of an item.

    The split depends only on the seed and on the item's cluster, or on its key if it has no cluster. So all items of a
    cluster are in the same split, and adding an item never moves another item.
    """
    name = f"{seed}\n{'key' if item.cluster is None else 'cluster'}\n{item.cluster or item.key}"
    # Not `hash`, whose result for a text differs from process to process.
    fraction = int.from_bytes(hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()[:8]) / _WHOLE
    bounds = zip(shares, accumulate(shares.values()), strict=True)
    # Because of rounding, the last bound can be slightly below 1.
    return next((split for split, upper_bound in bounds if fraction < upper_bound), list(shares)[-1])


def split_draft(datasets: "DatasetStore", dataset: Dataset, shares: Mapping[str, float], seed: int) -> SplitCounts:
    """Assign every item of the draft to a split. Raises `UsageError` if the draft is empty."""
    counts = Counter(dict.fromkeys(shares, 0))
    changed = 0
    for batch in item_batches(datasets.draft(dataset.id)):
        assigned = [item.model_copy(update={"split": split_of(item, shares, seed)}) for item in batch]
        counts.update(item.split for item in assigned if item.split)
        changed_items = [new for new, old in zip(assigned, batch, strict=True) if new.split != old.split]
        if changed_items:
            datasets.put(dataset.id, changed_items)
        changed += len(changed_items)
    if not counts.total():
        raise UsageError(f"the draft of {dataset.name} has no items to split")
    return SplitCounts(dataset=dataset.name, items=dict(counts), changed=changed)


class PublishedVersion(Frozen):
    version: DatasetVersion
    new: bool
    """False if no version was created, because an earlier version has the same content."""


def publish_version(datasets: "DatasetStore", dataset: Dataset, description: str, now: str) -> PublishedVersion:
    """Publish the draft as a version. Raises `UsageError` if the draft is empty."""
    existing_ids = {version.id for version in datasets.versions(dataset.id)}
    version = datasets.publish(dataset.id, now, description=description)
    return PublishedVersion(version=version, new=version.id not in existing_ids)


def publish_file(datasets: "DatasetStore", name: str, items: Sequence[Item], now: str) -> PublishedVersion:
    """Publish the items of a file as a version of the dataset with this name. A missing dataset is created.

    Raises `UsageError` if the draft of the dataset has changes that are not published.
    """
    name = prose.name(name)
    dataset = datasets.find(name) or create_dataset(datasets, name, "", now)
    existing_ids = {version.id for version in datasets.versions(dataset.id)}
    version = datasets.publish_items(dataset.id, items, now)
    if version is None:
        raise UsageError(
            f"the draft of dataset {dataset.name} has changes that would be lost if the data file replaced the draft: "
            f"publish the draft with `evalscribe datasets publish {dataset.name}`, or give the data file another name"
        )
    return PublishedVersion(version=version, new=version.id not in existing_ids)


DRAFT = "draft"
_FIELDS = tuple(name for name in Item.model_fields if name not in ("key", "source"))
_BYTES = 8
"""Size of a field's hash, in bytes. A hash of this size is enough to detect changes."""


class VersionSide(Frozen):
    name: str
    """Displayed name, such as `version 2` or `draft`."""
    version_id: str | None = None
    items: int


class ChangedItem(Frozen):
    key: str
    fields: tuple[str, ...]
    """Names of the fields that differ, in the order of an item's fields."""


class VersionComparison(Frozen):
    dataset: str
    base: VersionSide
    other: VersionSide
    added: tuple[str, ...] = ()
    """Keys of the items that only the version `other` has, in the order of `other`."""
    removed: tuple[str, ...] = ()
    """Keys of the items that only the version `base` has, in the order of `base`."""
    changed: tuple[ChangedItem, ...] = ()
    """Items that both versions have, but with different field values, in the order of `other`."""
    moved: bool = False
    """True if the items that both versions have are in a different order. Versions can differ only in this order."""

    @property
    def same(self) -> bool:
        return not (self.added or self.removed or self.changed or self.moved)


def compare_versions(datasets: "DatasetStore", dataset: Dataset, base: str, other: str) -> VersionComparison:
    """Compare two versions of a dataset. Each version is given as a number, an id, `latest` or `draft`.

    Memory use grows with the number of items, not with their size. Raises `NotFoundError` if a version does not exist.
    """
    base_items, other_items = (_field_hashes(_items(datasets, dataset, name_or_id)) for name_or_id in (base, other))
    common_keys = [key for key in other_items if key in base_items]
    return VersionComparison(
        dataset=dataset.name,
        base=_side(datasets, dataset, base, len(base_items)),
        other=_side(datasets, dataset, other, len(other_items)),
        added=tuple(key for key in other_items if key not in base_items),
        removed=tuple(key for key in base_items if key not in other_items),
        changed=tuple(
            _changed_item(key, base_items[key], other_items[key])
            for key in common_keys
            if base_items[key] != other_items[key]
        ),
        moved=common_keys != [key for key in base_items if key in other_items],
    )


def _items(datasets: "DatasetStore", dataset: Dataset, name_or_id: str) -> Iterator[Item]:
    if name_or_id == DRAFT:
        return datasets.draft(dataset.id)
    return datasets.items(find_dataset_version(datasets, dataset, name_or_id).id)


def _side(datasets: "DatasetStore", dataset: Dataset, name_or_id: str, items: int) -> VersionSide:
    if name_or_id == DRAFT:
        return VersionSide(name=DRAFT, items=items)
    version = find_dataset_version(datasets, dataset, name_or_id)
    return VersionSide(name=f"version {version.number}", version_id=version.id, items=items)


def _field_hashes(items: Iterable[Item]) -> dict[str, bytes]:
    """Return the concatenated hashes of each item's fields, by item key."""
    return {item.key: b"".join(_field_hash(getattr(item, name)) for name in _FIELDS) for item in items}


def _field_hash(value: object) -> bytes:
    return hashlib.blake2b(canonical_json(value).encode("utf-8", "surrogatepass"), digest_size=_BYTES).digest()


def _changed_item(key: str, base_hashes: bytes, other_hashes: bytes) -> ChangedItem:
    offsets = ((name, number * _BYTES) for number, name in enumerate(_FIELDS))
    names = (
        name
        for name, offset in offsets
        if base_hashes[offset : offset + _BYTES] != other_hashes[offset : offset + _BYTES]
    )
    return ChangedItem(key=key, fields=tuple(names))


FORMATS = ("jsonl", "csv")


def version_lines(items: Iterable[Item], form: str) -> Iterator[str]:
    """Render items as lines without line ends. Raises `UsageError` for an unknown format.

    The format `jsonl` can be uploaded again. In CSV, texts stay unchanged and other values are written as JSON.
    """
    if form not in FORMATS:
        raise UsageError(f"`format` {form!r} is unknown; use one of {', '.join(FORMATS)}", fields=("format",))
    return map(render_item, items) if form == "jsonl" else _rows(items)


def _rows(items: Iterable[Item]) -> Iterator[str]:
    yield _row(ITEM_FIELDS)
    for item in items:
        values = item.model_dump(mode="json")
        yield _row([_cell(values[name]) for name in ITEM_FIELDS])


def _row(cells: Iterable[str]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="").writerow(cells)
    return buffer.getvalue()


def _cell(value: JsonValue) -> str:
    if value in (None, {}, []):
        return ""
    return to_text(value)
