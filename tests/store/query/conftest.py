"""A small collection of unusual values, and a second one whose rows must stay invisible, in both engines."""

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
    """SQLite's tables without a process for each query, because these tests run hundreds of queries."""

    dialect = "sqlite"

    def __init__(self, path: Path) -> None:
        self._path = path

    def select(self, statement: str, values: dict[str, object], *, most_rows: int, timeout_s: float) -> QueryRows:
        query_request = {"path": str(self._path), "statement": statement, "values": dict(values)}
        answer = process.selected({**query_request, "most_rows": most_rows, "timeout_s": timeout_s})
        if "error" in answer:
            raise (UnavailableError if answer["error"] == "overdue" else UsageError)(answer["message"])
        return QueryRows(columns=(), rows=tuple(map(tuple, answer["rows"])), truncated=answer["truncated"])

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
    tables_of_engine: Tables = request.getfixturevalue("here" if request.param == "sqlite" else "there")
    return tables_of_engine
