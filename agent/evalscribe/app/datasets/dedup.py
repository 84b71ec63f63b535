"""Items of a draft that ask and expect the same."""

from collections.abc import Iterable, Sequence

from evalscribe.app.datasets.adding import TakenOut
from evalscribe.errors import UsageError
from evalscribe.ids import Frozen
from evalscribe.model.dataset import Dataset, Item
from evalscribe.model.experiment_storage import Datasets

MOST_NAMED = 10


class Twin(Frozen):
    """An item that may go."""

    key: str
    split: str | None = None
    cluster: str | None = None


class Duplicates(Frozen):
    """Items with equal input and expected output."""

    kept: Twin
    """The first of them."""
    others: tuple[Twin, ...]
    """In the order of the draft."""

    @property
    def splits(self) -> tuple[str, ...]:
        """Several: what one is trained on the other tests."""
        return tuple(sorted({twin.split for twin in (self.kept, *self.others) if twin.split}))


def duplicates(items: Iterable[Item]) -> tuple[Duplicates, ...]:
    """In the order of the first of each. Memory grows with the keys, not with the items."""
    first: dict[str, Twin] = {}
    others: dict[str, list[Twin]] = {}
    for item in items:
        likeness, twin = item.likeness, Twin(key=item.key, split=item.split, cluster=item.cluster)
        if first.setdefault(likeness, twin) is not twin:
            others.setdefault(likeness, []).append(twin)
    return tuple(Duplicates(kept=first[one], others=tuple(others[one])) for one in first if one in others)


def deduplicated(datasets: Datasets, dataset: Dataset, chosen: Sequence[str]) -> TakenOut:
    """Take all but the first of each out of the draft, or only the chosen ones.

    Raises `UsageError` for a chosen one that is no later duplicate.
    """
    may_go = [twin.key for group in duplicates(datasets.draft(dataset.id)) for twin in group.others]
    wrong = sorted(set(chosen).difference(may_go))
    if wrong:
        told = ", ".join(may_go[:MOST_NAMED]) or "none"
        raise UsageError(f"--remove-item-id {wrong[0]}: not among the duplicates that may go: {told}")
    return TakenOut(dataset=dataset.name, items=datasets.drop(dataset.id, list(chosen) or may_go))
