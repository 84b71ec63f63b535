"""Pagination helper."""

from collections.abc import Sequence


def page(items: Sequence[str], number: int, size: int) -> list[str]:
    """Return a single page of items."""
    start = (number - 1) * size
    end = start + size
    return list(items[max(start, 0) : max(end, 0)])
