"""The store on a Postgres server: what it refuses and says, and what Postgres does otherwise than a file."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import create_engine, select

from evalscribe.errors import AccessError, DataError, NotFoundError, UnavailableError, UsageError
from evalscribe.model.repository import StoredReport
from evalscribe.model.run import Run
from evalscribe.store import postgres, tables
from evalscribe.store.analyses import open_store
from evalscribe.store.database import open_database
from evalscribe.store.postgres import DatabaseServer
from support.example_analyses import VERDICT
from support.postgres_server import OWNER, PASSWORD, PostgresServer

RUN = Run(id="r", provider="example", model="m")


def test_the_revisions_make_the_tables_that_the_code_uses(shared_url: str) -> None:
    engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(shared_url))
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), tables.metadata) == []
    engine.dispose()


def test_texts_are_sorted_by_code_points(server_url: str) -> None:
    with closing(open_store(server_url)) as store:
        for run_id in ("b", "A", "a", "Z", "ä", "-"):
            store.put_run(RUN.model_copy(update={"id": run_id}))
        assert store.run_ids() == ("-", "A", "Z", "a", "b", "ä")
    with closing(open_database(server_url)) as database, database.transaction() as connection:
        found = connection.scalars(select(tables.runs.c.run_id).order_by(tables.runs.c.run_id)).all()
    assert found == ["-", "A", "Z", "a", "b", "ä"]


def test_nul_is_replaced_where_it_is_written_and_where_it_is_looked_up(server_url: str) -> None:
    with closing(open_store(server_url)) as store:
        store.put_report("a\x00b", StoredReport(path="p\x00", text="t\x00"))
        assert store.get_report("a\x00b") == StoredReport(path="p\ufffd", text="t\ufffd")


def test_half_a_character_and_a_key_beyond_all_bounds(server_url: str) -> None:
    with closing(open_store(server_url)) as store:
        with pytest.raises(DataError, match="an invalid character"):
            store.put_report("r", StoredReport(path="p", text="\ud800"))
        with pytest.raises(DataError, match="cannot be stored: index row"):
            store.put_report(os.urandom(9000).hex(), StoredReport(path="p", text="t"))
        assert store.get_report("r") is None


@pytest.fixture
def deaf() -> Iterator[int]:
    """A port that nobody listens on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def test_no_server(deaf: int) -> None:
    with pytest.raises(
        UnavailableError, match=rf"postgresql://u@127.0.0.1:{deaf}/d did not respond: .*refused"
    ) as said:
        open_store(f"postgresql://u:hidden@127.0.0.1:{deaf}/d")
    assert "hidden" not in str(said.value)
    assert len(str(said.value).splitlines()) == 2


def test_refused(postgres_server: PostgresServer) -> None:
    wrong = postgres_server.url.replace(PASSWORD, "wrong-secret")
    with pytest.raises(
        AccessError, match=r'refused access: password authentication failed for user "owner"\.\n'
    ) as said:
        open_store(wrong)
    assert "wrong-secret" not in str(said.value)
    with pytest.raises(AccessError, match=r"refused access: .*no password"):
        open_store(postgres_server.url.replace(f":{PASSWORD}", ""))
    with pytest.raises(NotFoundError, match=r"database postgresql://owner@.*/nowhere does not exist\.\n.*createdb"):
        open_store(postgres_server.of("nowhere"))
    with pytest.raises(UsageError, match="address is invalid"):
        open_store("postgresql://u@h/d?password")


def test_one_who_may_not_write(postgres_server: PostgresServer, shared_url: str, postgres_url: str) -> None:
    postgres_server.execute("DROP ROLE IF EXISTS reader", "CREATE ROLE reader LOGIN PASSWORD 'r'")
    try:
        for url in (shared_url, postgres_url):
            with pytest.raises(AccessError, match="refused access: permission denied"):
                open_store(url.replace(f"{OWNER}:{PASSWORD}", "reader:r"))
    finally:
        postgres_server.execute("DROP ROLE reader")


def test_another_programs_database(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as raw:
        raw.execute("CREATE TABLE alembic_version (version_num text)")
        raw.execute("CREATE TABLE orders (id int)")
    with pytest.raises(DataError, match="tables of another program and was not changed"):
        open_store(postgres_url)
    with psycopg.connect(postgres_url) as raw:
        assert raw.execute("SELECT to_regclass('runs')").fetchone() == (None,)


def test_a_database_of_a_newer_version_is_left_as_it_is(postgres_url: str) -> None:
    open_store(postgres_url).close()
    with psycopg.connect(postgres_url) as raw:
        raw.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(DataError, match=r"newer evalscribe.*\n.*Upgrade"):
        open_store(postgres_url)
    with psycopg.connect(postgres_url) as raw:
        assert raw.execute("SELECT version_num FROM alembic_version").fetchall() == [("9999",)]


def test_a_database_that_is_not_in_utf_8(postgres_server: PostgresServer) -> None:
    postgres_server.execute(
        "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0 LOCALE_PROVIDER libc"
    )
    try:
        with pytest.raises(DataError, match="not in UTF-8"):
            open_store(postgres_server.of("latin"))
    finally:
        postgres_server.execute("DROP DATABASE latin WITH (FORCE)")


def test_connections_that_were_cut_are_made_anew(server_url: str, postgres_server: PostgresServer) -> None:
    name = server_url.rpartition("/")[2]
    cut = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
    with closing(open_store(server_url)) as store:
        store.put_run(RUN)
        postgres_server.execute(cut)
        assert store.get_run("r") == RUN
        with pytest.raises(UnavailableError, match=r"did not respond.*\n.*Nothing is lost"):
            _cut_within(server_url, lambda: postgres_server.execute(cut))
        assert store.get_run("r") == RUN


def _cut_within(url: str, cut: object) -> None:
    with closing(open_database(url)) as database, database.transaction() as connection:
        connection.execute(tables.runs.delete())
        assert callable(cut)
        cut()
        connection.execute(tables.runs.delete())


LOCKED = """
    SELECT pid FROM pg_locks JOIN pg_database ON pg_database.oid = database
    WHERE locktype = 'advisory' AND datname = current_database()
"""
"""Only this database's: other tests lock theirs on the same server."""


def _end_who_locks(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as raw:
        ended = raw.execute(f"SELECT pg_terminate_backend(pid, 5000) FROM ({LOCKED}) AS holder").fetchall()
        assert ended == [(True,)]


def test_a_lock_whose_connection_was_cut_is_taken_again(server_url: str) -> None:
    with closing(open_store(server_url)) as store, closing(open_store(server_url)) as other:
        with store.lock("r"):
            for _ in range(2):
                _end_who_locks(server_url)
                assert store.get_verdict("k") is None
                with pytest.raises(UnavailableError, match=f"by process {os.getpid()} on"), other.lock("r"):
                    pass
        with other.lock("r"):
            pass


def test_who_lost_a_lock_to_another_stops_reading_and_still_stores_what_was_paid(server_url: str) -> None:
    with closing(open_store(server_url)) as store, closing(open_store(server_url)) as other, store.lock("r"):
        _end_who_locks(server_url)
        with other.lock("r"):
            for _ in range(2):
                with pytest.raises(UnavailableError, match=rf"broke, and process {os.getpid()} .*\(run r\)"):
                    store.get_verdict("k")
            with pytest.raises(UnavailableError, match="broke"):
                store.get_evidence("r", "e")
            store.put_verdict("k", VERDICT)
            assert other.get_verdict("k") == VERDICT


def test_a_lock_that_the_server_still_has_for_a_connection_of_ours_is_ours(server_url: str) -> None:
    """The network broke: the kernel gave our end up, the server waits for us a minute longer."""
    with closing(open_store(server_url)) as store, store.lock("r"):
        place = store._database.place
        assert isinstance(place, DatabaseServer)
        (lock,) = place._locks
        with socket.socket(fileno=os.dup(lock._connection.fileno())) as wire, socket.socket() as nowhere:
            os.dup2(nowhere.fileno(), lock._connection.fileno())
            assert store.get_verdict("k") is None
            assert lock.acquired
            assert wire.fileno() > 0


def test_a_server_that_is_away_for_a_moment_is_waited_for(server_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = psycopg.connect
    refused: list[object] = []

    def away(**given: object) -> object:
        if len(refused) < 2:
            refused.append(given)
            raise psycopg.OperationalError("the database system is starting up")
        return connect(**given)  # type: ignore[arg-type]

    with closing(open_store(server_url)) as store:
        store._database.close()  # every connection is gone
        monkeypatch.setattr(psycopg, "connect", away)
        store.put_verdict("k", VERDICT)
        assert len(refused) == 2
    refused.clear()
    with pytest.raises(UnavailableError, match="did not respond: the database system is starting up"):
        open_store(server_url)
    assert len(refused) == 1


def test_who_writes_waits_for_another_one_but_not_for_ever(server_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "BUSY_S", 0.2)
    with closing(open_database(server_url)) as database, closing(open_database(server_url)) as other:
        with (
            database.writing(),
            pytest.raises(UnavailableError, match=r"did not respond: canceling.*lock timeout.*\n.*Nothing is lost"),
            other.writing(),
        ):
            pass
        with other.writing():
            pass


def test_nobody_writes_between_reading_and_writing(server_url: str) -> None:
    """Four threads count up what they read: without turns, most would overwrite each other."""

    def count_up() -> None:
        with closing(open_database(server_url)) as database:
            for _ in range(10):
                with database.writing() as connection:
                    read = connection.scalar(select(tables.reports.c.text)) or "0"
                    connection.execute(tables.reports.delete())
                    row = {"run_id": "r", "path": "p", "text": str(int(read) + 1)}
                    connection.execute(tables.reports.insert(), row)

    threads = [threading.Thread(target=count_up) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with closing(open_store(server_url)) as store:
        kept = store.get_report("r")
    assert kept is not None
    assert kept.text == "40"


def test_a_signature_that_somebody_else_made_is_not_repeated(server_url: str) -> None:
    place = DatabaseServer(server_url)
    with psycopg.connect(server_url, application_name="evalscribe \x1b[2J") as stranger:
        stranger.execute("SELECT pg_advisory_lock(%s)", [postgres.key("run r")])
        with pytest.raises(UnavailableError, match="by another process"), place.run_lock("r"):
            pass


def test_a_password_is_in_no_representation() -> None:
    assert "hidden" not in repr(DatabaseServer("postgresql://u:hidden@h/d"))
