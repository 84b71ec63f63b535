"""How two versions of a dataset, or a version and the draft, differ."""

import hashlib
from collections.abc import Iterable, Iterator

from evalscribe.app.datasets.found import version_named
from evalscribe.ids import Frozen, canonical_json
from evalscribe.model.dataset import Dataset, Item
from evalscribe.model.experiment_storage import Datasets

DRAFT = "draft"
_FIELDS = tuple(name for name in Item.model_fields if name not in ("key", "source"))
_BYTES = 8
"""Of a field's hash: enough to tell whether it is the same."""


class Side(Frozen):
    name: str
    """`version 2`, `draft`."""
    version_id: str | None = None
    items: int


class Changed(Frozen):
    key: str
    fields: tuple[str, ...]
    """Which of its fields differ, in their order."""


class Compared(Frozen):
    dataset: str
    base: Side
    other: Side
    added: tuple[str, ...] = ()
    """Keys, in the order of `other`."""
    removed: tuple[str, ...] = ()
    """Keys, in the order of `base`."""
    changed: tuple[Changed, ...] = ()
    """In the order of `other`."""
    moved: bool = False
    """Whether items that both have stand in another order: that makes another version too."""

    @property
    def same(self) -> bool:
        return not (self.added or self.removed or self.changed or self.moved)


def compared(datasets: Datasets, dataset: Dataset, base: str, other: str) -> Compared:
    """By number, id, `latest` or `draft`. Memory grows with the keys, not with the items.

    Raises `NotFoundError` for a version that there is not.
    """
    ours, theirs = (_marked(_items(datasets, dataset, named)) for named in (base, other))
    both = [key for key in theirs if key in ours]
    return Compared(
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
    return datasets.items(version_named(datasets, dataset, named).id)


def _side(datasets: Datasets, dataset: Dataset, named: str, items: int) -> Side:
    if named == DRAFT:
        return Side(name=DRAFT, items=items)
    version = version_named(datasets, dataset, named)
    return Side(name=f"version {version.number}", version_id=version.id, items=items)


def _marked(items: Iterable[Item]) -> dict[str, bytes]:
    """By key, hashes of the fields one after the other."""
    return {item.key: b"".join(_mark(getattr(item, name)) for name in _FIELDS) for item in items}


def _mark(value: object) -> bytes:
    return hashlib.blake2b(canonical_json(value).encode("utf-8", "surrogatepass"), digest_size=_BYTES).digest()


def _changed(key: str, ours: bytes, theirs: bytes) -> Changed:
    starts = ((name, number * _BYTES) for number, name in enumerate(_FIELDS))
    differ = (name for name, at in starts if ours[at : at + _BYTES] != theirs[at : at + _BYTES])
    return Changed(key=key, fields=tuple(differ))
