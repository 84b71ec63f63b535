"""Bring a file of items into a draft."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from evalscribe.errors import DataError
from evalscribe.ids import Frozen
from evalscribe.model.dataset import Dataset, Item
from evalscribe.model.experiment_storage import Datasets, ItemRows
from evalscribe.model.storage import AddedCounts
from evalscribe.text import pluralise

AT_ONCE = 500
"""Items that are stored in one go."""


class Uploaded(Frozen):
    """What became of a file."""

    dataset: str
    file: str
    added: AddedCounts
    skipped: int = 0
    """Lines that gave no item."""
    problems: tuple[str, ...] = ()
    """Of the first of them, with their places."""
    hidden: int = 0
    """Secrets that were taken out."""
    stopped: str | None = None
    """Why it was not read to its end; what came before is kept."""

    @property
    def items(self) -> int:
        return self.added.new + self.added.changed + self.added.same


def uploaded(
    datasets: Datasets, dataset: Dataset, file: str, opened: Callable[[], ItemRows], *, partial: bool
) -> Uploaded:
    """Raises `DataError` where the file holds no item at all, and without `partial`, before anything is stored, for
    whatever is wrong with it."""
    if not partial:
        _check(file, opened())
    rows, added = opened(), AddedCounts()
    breaks: list[str] = []
    for some in batches(_until_it_breaks(rows, breaks)):
        added += datasets.put(dataset.id, some)
    done = Uploaded(
        dataset=dataset.name,
        file=file,
        added=added,
        skipped=rows.bad,
        problems=tuple(rows.problems),
        hidden=rows.hidden,
        stopped=next(iter(breaks), None),
    )
    if not done.items:
        raise DataError("\n".join([*told(done), f"{file} holds no item"]))
    return done


def told(done: Uploaded) -> Iterator[str]:
    """What was wrong, a line each."""
    yield from _problems(done.problems, done.skipped)
    if done.stopped:
        yield f"not read to its end: {done.stopped}"


def batches(items: Iterable[Item]) -> Iterator[tuple[Item, ...]]:
    left = iter(items)
    while some := tuple(islice(left, AT_ONCE)):
        yield some


def _until_it_breaks(rows: ItemRows, breaks: list[str]) -> Iterator[Item]:
    """What comes before the end of a file that cannot be read on is good."""
    try:
        yield from rows.read()
    except DataError as error:
        breaks.append(str(error))


def _check(file: str, rows: ItemRows) -> None:
    for _ in rows.read():
        pass
    if rows.bad:
        none = f"{pluralise(rows.bad, 'line')} of {file} cannot be read, so nothing was stored (--no-partial)"
        raise DataError("\n".join([*_problems(rows.problems, rows.bad), none]))


def _problems(first: Iterable[str], number: int) -> Iterator[str]:
    told = list(first)
    yield from told
    if number > len(told):
        yield f"and {number - len(told):,} more"
