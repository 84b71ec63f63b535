from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from evalscribe.store import tables
from evalscribe.store.analyses import AnalysisStore, open_store
from support.postgres_server import PostgresServer

_KEPT = (
    "version_items",
    "deployments",
    "scores",
    *(name for name in tables.metadata.tables if name.endswith("_versions")),
)
"""These tables are truncated, because triggers refuse to delete rows of most of them.

The other rows are deleted: truncating every table takes ten times as long.
"""
_EMPTY = "; ".join(
    [f"DELETE FROM {name}" for name in tables.metadata.tables if name not in _KEPT]
    + [f"DO $$ BEGIN IF EXISTS (SELECT FROM {name}) THEN TRUNCATE {name}; END IF; END $$" for name in _KEPT]
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / ".evalscribe"


@pytest.fixture(scope="session")
def shared_url(postgres_server: PostgresServer) -> Iterator[str]:
    with postgres_server.database() as url:
        open_store(url).close()
        yield url


@pytest.fixture
def server_url(shared_url: str) -> str:
    """An empty store on a server. It is created once and then emptied, because creating one takes half a second."""
    with psycopg.connect(shared_url) as connection:
        connection.execute(_EMPTY.encode())
    return shared_url


@pytest.fixture(params=["file", "server"])
def place(request: pytest.FixtureRequest, folder: Path) -> Path | str:
    """Place of a store: a folder, or a database on a server."""
    if request.param == "file":
        return folder
    url: str = request.getfixturevalue("server_url")
    return url


@pytest.fixture
def store(place: Path | str) -> Iterator[AnalysisStore]:
    store = open_store(place)
    yield store
    store.close()
