"""The workspace's store with all that is in it, and where LangGraph keeps its checkpoints beside it."""

from pathlib import Path

from evalscribe.ports import Archive, Shelf, Store
from evalscribe.settings import Settings

DATABASE = "store.db"
CHECKPOINTS = "checkpoints.db"


def store(found: Settings) -> Store:
    from evalscribe.store.sql import open_store

    return open_store(found.store_place)


def archive(found: Settings) -> Archive:
    """Whole runs, in the same database. Raises `AccessError` or `DataError` where it cannot be used."""
    from evalscribe.store.archive import open_archive

    return open_archive(found.store_place)


def shelf(found: Settings) -> Shelf:
    """Collections, rubrics and results, in the same database. Raises as `archive` does."""
    from evalscribe.store.shelf import open_shelf

    return open_shelf(found.store_place)


def has_store(found: Settings) -> bool:
    """Whether there is one: reading makes none. One on a server was named by the user."""
    return not isinstance(found.store_place, Path) or (found.store_place / DATABASE).is_file()


def checkpoints(found: Settings) -> Path | str:
    """In a file beside the store's, or in its database."""
    return found.store_place / CHECKPOINTS if isinstance(found.store_place, Path) else found.store_place
