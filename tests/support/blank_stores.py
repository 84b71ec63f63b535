"""Create blank SQLite stores quickly, from one script with the statements that the migrations produce.

Running the migrations takes a tenth of a second of CPU for each blank store. The tests open thousands of stores, so
migrations took a fifth of the time of all tests. The migrations still run once in each test process, in every command
that runs as a new process, and in the tests of the store, which prove that both ways give the same database.
"""

from collections.abc import Callable

from sqlalchemy import Connection, inspect, text

from evalscribe.store.database import DatabasePlace
from evalscribe.store.tables import revisions

Upgrade = Callable[[Connection, DatabasePlace], None]


class QuickUpgrade:
    """Replacement for `evalscribe.store.database._upgrade`."""

    def __init__(self, real: Upgrade) -> None:
        self._real = real
        self._statements: list[str] = []
        self._revision = ""

    def __call__(self, connection: Connection, place: DatabasePlace) -> None:
        if connection.dialect.name != "sqlite" or inspect(connection).get_table_names():
            self._real(connection, place)
        elif self._statements:
            for statement in self._statements:
                connection.exec_driver_sql(statement)
            connection.execute(revisions.insert().values(version_num=self._revision))
        else:
            self._real(connection, place)
            made = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY rowid"
            self._revision = str(connection.scalar(revisions.select()))
            self._statements = list(connection.scalars(text(made)))
