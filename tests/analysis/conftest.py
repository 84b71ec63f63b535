from collections.abc import Iterator
from pathlib import Path

import pytest

from evalscribe.analysis.checkpoints import SCHEMA
from support.postgres_server import PostgresServer


@pytest.fixture(scope="session")
def shared_url(postgres_server: PostgresServer) -> Iterator[str]:
    with postgres_server.database() as url:
        yield url


@pytest.fixture
def server_url(shared_url: str) -> str:
    """A database on a server without checkpoints."""
    PostgresServer(shared_url).execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")
    return shared_url


@pytest.fixture(params=["file", "server"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """Place of the checkpoints: a file or a database on a server."""
    if request.param == "file":
        return tmp_path / "checkpoints.db"
    url: str = request.getfixturevalue("server_url")
    return url
