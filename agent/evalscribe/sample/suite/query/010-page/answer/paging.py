"""Pages of a list."""

from collections.abc import Sequence


def page(items: Sequence[str], number: int, size: int) -> list[str]:
    """Page `number`, counted from 0."""
    start = number * size
    return list(items[start : start + size])
