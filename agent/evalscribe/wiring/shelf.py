"""The workspace's collections, rubrics and results."""

from evalscribe.ports import Shelf
from evalscribe.settings import Settings


def shelf(found: Settings) -> Shelf:
    """In the same database as the store. Raises `AccessError` or `DataError` where it cannot be used."""
    from evalscribe.store.shelf import open_shelf

    return open_shelf(found.store_place)
