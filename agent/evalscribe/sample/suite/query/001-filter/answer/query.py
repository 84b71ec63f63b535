"""Books by year."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Book:
    """A title and its year."""

    title: str
    year: int


def published_in(books: Iterable[Book], year: int) -> list[Book]:
    """The books of one year, in their order."""
    return [book for book in books if book.year == year]
