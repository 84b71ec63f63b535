"""Queries, as things are set."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from evalscribe.app.collections.query import TIMEOUT_S, QueryDesk
from evalscribe.settings import Settings


@contextmanager
def open_query_desk(found: Settings, timeout_s: float = TIMEOUT_S) -> Iterator[QueryDesk]:
    from evalscribe.store.reading import open_tables

    with closing(open_tables(found.store_place)) as tables:
        yield QueryDesk(tables, timeout_s)
