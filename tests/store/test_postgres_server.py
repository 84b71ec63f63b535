"""The Postgres server that other tests use."""

import psycopg

from support.postgres_server import PostgresServer


def test_databases_of_two_tests_are_separate(postgres_server: PostgresServer, postgres_url: str) -> None:
    with postgres_server.database() as other, psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TABLE here (a text)")
        connection.commit()
        with psycopg.connect(other) as elsewhere:
            assert elsewhere.execute("SELECT to_regclass('here')").fetchone() == (None,)
