"""The workspace's whole runs."""

from evalscribe.ports import Archive
from evalscribe.settings import Settings


def archive(found: Settings) -> Archive:
    """In the same database as the store. Raises `AccessError` or `DataError` where it cannot be used."""
    from evalscribe.store.archive import open_archive

    return open_archive(found.store_place)
