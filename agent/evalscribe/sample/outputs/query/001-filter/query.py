from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Book:
    title: str
    year: int


def published_in(books: Iterable[Book], year: int) -> list[Book]:
    """Return all books published in the given year."""
    return list(filter(lambda book: book.year == year, books))
