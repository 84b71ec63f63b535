"""One small collection full of awkward values, and beside it another whose rows must never show, in both engines."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import insert

from evalscribe.errors import UnavailableError, UsageError
from evalscribe.model.protocols import QueryRows, Tables
from evalscribe.store import tables
from evalscribe.store.database import open_database
from evalscribe.store.query import process
from evalscribe.store.query.postgres import PostgresTables
from support.postgres_server import PostgresServer
from support.query_rows import ROWS


class Inside:
    """SQLite's tables without the process around each query: hundreds are asked here."""

    dialect = "sqlite"

    def __init__(self, path: Path) -> None:
        self._path = path

    def select(self, statement: str, values: dict[str, object], *, most_rows: int, timeout_s: float) -> QueryRows:
        asked = {"path": str(self._path), "statement": statement, "values": dict(values)}
        told = process.selected({**asked, "most_rows": most_rows, "timeout_s": timeout_s})
        if "error" in told:
            raise (UnavailableError if told["error"] == "overdue" else UsageError)(told["message"])
        return QueryRows(columns=(), rows=tuple(map(tuple, told["rows"])), truncated=told["truncated"])

    def close(self) -> None: ...


def fill(place: Path | str) -> None:
    database = open_database(place)
    try:
        with database.transaction() as connection:
            for name, rows in ROWS.items():
                connection.execute(insert(tables.metadata.tables[name]), rows)
    finally:
        database.close()


@pytest.fixture(scope="session")
def filled_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("queried") / ".evalscribe"
    fill(folder)
    return folder


@pytest.fixture(scope="session")
def filled_url(postgres_server: PostgresServer) -> Iterator[str]:
    with postgres_server.database() as url:
        fill(url)
        yield url


@pytest.fixture
def here(filled_folder: Path) -> Tables:
    return Inside(filled_folder / "store.db")  # type: ignore[arg-type]


@pytest.fixture
def there(filled_url: str) -> Tables:
    return PostgresTables(filled_url, "the server")


@pytest.fixture(params=["sqlite", "postgres"])
def desk(request: pytest.FixtureRequest) -> Tables:
    """Each engine in turn."""
    found: Tables = request.getfixturevalue("here" if request.param == "sqlite" else "there")
    return found
