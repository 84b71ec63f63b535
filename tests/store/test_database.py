"""Guarantees of transactions, in a file and on a server."""

from contextlib import closing
from pathlib import Path

from sqlalchemy import func, insert, select

from evalscribe.store.database import open_database
from evalscribe.store.tables import verdicts

ROW = {"key": "k", "kind": "Verdict", "body": b""}


def test_reader_sees_one_consistent_snapshot(place: Path | str) -> None:
    count = select(func.count()).select_from(verdicts)
    with closing(open_database(place)) as database, closing(open_database(place)) as other:
        with database.reading() as connection:
            assert connection.scalar(count) == 0
            other.execute(insert(verdicts), ROW)
            assert connection.scalar(count) == 0
        with database.reading() as connection:
            assert connection.scalar(count) == 1
        with database.transaction() as connection:
            connection.execute(verdicts.delete())
        assert other.row(verdicts, key="k") is None
