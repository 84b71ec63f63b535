"""Batches of a stream."""

from collections.abc import Iterable, Iterator
from itertools import islice


def batches(items: Iterable[str], size: int) -> Iterator[list[str]]:
    """Lists of `size` items."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch
