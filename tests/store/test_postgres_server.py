"""The server that the other tests use."""

import psycopg

from support.postgres_server import PostgresServer


def test_each_test_has_a_database_of_its_own(postgres_server: PostgresServer, postgres_url: str) -> None:
    with postgres_server.database() as other, psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TABLE here (a text)")
        connection.commit()
        with psycopg.connect(other) as elsewhere:
            assert elsewhere.execute("SELECT to_regclass('here')").fetchone() == (None,)
