"""The tables of a store, for queries."""

from pathlib import Path

from evalscribe.model.storage import Tables
from evalscribe.settings.database import without_password
from evalscribe.store.file import FILE


def open_tables(place: Path | str) -> Tables:
    """Of the store in a folder or at a postgresql:// URL. Raises `NotFoundError` where there is none."""
    if isinstance(place, Path):
        from evalscribe.store.query_sqlite import SqliteTables

        return SqliteTables(place / FILE)
    from evalscribe.store.query_postgres import PostgresTables

    return PostgresTables(place, without_password(place))
