"""Deal a draft's items out to train, dev and test."""

import hashlib
import math
from collections import Counter
from collections.abc import Mapping
from itertools import accumulate

from evalscribe.app.datasets.upload import batches
from evalscribe.errors import UsageError
from evalscribe.ids import Frozen
from evalscribe.model.dataset import Dataset, Item
from evalscribe.model.experiment_storage import Datasets

DEFAULT = {"train": 0.2, "dev": 0.4, "test": 0.4}
"""A classifier that is asked, not trained, needs few examples and much proof."""
_WHOLE = 1 << 64


class Dealt(Frozen):
    dataset: str
    items: dict[str, int]
    """By split."""
    changed: int
    """Items that were in another one before."""


def checked_shares(given: Mapping[str, float | None]) -> dict[str, float]:
    """Shares that are not given are 0; without any, the default's. Raises `UsageError` unless they make a whole."""
    told = {name: share for name, share in given.items() if share is not None}
    shares = told or DEFAULT
    if any(not 0 <= share <= 1 for share in shares.values()) or not math.isclose(sum(shares.values()), 1):
        said = " ".join(f"--{name} {share:g}" for name, share in shares.items())
        raise UsageError(f"{said}: shares are from 0 to 1 and make 1 together, not {sum(shares.values()):g}")
    return {name: share for name, share in shares.items() if share}


def split_of(item: Item, shares: Mapping[str, float], seed: int) -> str:
    """Decided by the item's cluster, else its key, and the seed alone: no cluster is in two splits, and no other item
    moves any."""
    name = f"{seed}\n{'key' if item.cluster is None else 'cluster'}\n{item.cluster or item.key}"
    place = int.from_bytes(hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()[:8]) / _WHOLE
    bounds = zip(shares, accumulate(shares.values()), strict=True)
    return next((split for split, bound in bounds if place < bound), list(shares)[-1])


def dealt(datasets: Datasets, dataset: Dataset, shares: Mapping[str, float], seed: int) -> Dealt:
    """Raises `UsageError` for an empty draft."""
    counts = Counter(dict.fromkeys(shares, 0))
    changed = 0
    for some in batches(datasets.draft(dataset.id)):
        placed = [item.model_copy(update={"split": split_of(item, shares, seed)}) for item in some]
        counts.update(item.split for item in placed if item.split)
        moved = [new for new, old in zip(placed, some, strict=True) if new.split != old.split]
        if moved:
            datasets.put(dataset.id, moved)
        changed += len(moved)
    if not counts.total():
        raise UsageError(f"the draft of {dataset.name} has no items to be dealt out")
    return Dealt(dataset=dataset.name, items=dict(counts), changed=changed)
