"""A store that cannot be used is reported in two lines, and its files are not changed."""

import os
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from evalscribe.errors import AccessError, DataError, EvalscribeError, UnavailableError
from evalscribe.model.repository import StoredReport
from evalscribe.model.run import Run
from evalscribe.store import errors, sqlite
from evalscribe.store.analyses import open_store
from evalscribe.store.errors import FULL_DISK_BYTES, translate_errors
from support.example_analyses import LABEL, SIGHTING

RUN = Run(id="r", provider="example", model="m")


@contextmanager
def as_nobody() -> Iterator[None]:
    """Drop root's permission to write everywhere, which a test of permissions must not have."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def test_file_that_is_no_database_is_reported_and_kept(folder: Path) -> None:
    folder.mkdir()
    (folder / "store.db").write_bytes(b"these are not the bytes of a database" * 100)
    with pytest.raises(DataError, match=r"store\.db is damaged.*\n.*Move it away"):
        open_store(folder)
    assert (folder / "store.db").read_bytes().startswith(b"these are not")


def test_damaged_pages_are_reported(folder: Path) -> None:
    store = open_store(folder)
    for number in range(300):
        store.put_report(f"r{number}", StoredReport(path="p", text=os.urandom(2000).hex()))
    store.close()
    path = folder / "store.db"
    whole = path.read_bytes()
    path.write_bytes(whole[:8192] + b"\x5a" * (len(whole) - 8192))
    with pytest.raises(DataError, match="damaged"):  # noqa: PT012  either opening or reading raises it
        store = open_store(folder)
        try:
            for number in range(300):
                store.get_report(f"r{number}")
        finally:
            store.close()


@pytest.mark.parametrize("body", [b"no zlib", zlib.compress(b'{"id": 1, "surprise": true}'), zlib.compress(b"[")])
def test_damaged_run_is_reported(folder: Path, body: bytes) -> None:
    store = open_store(folder)
    store.put_run(RUN)
    with closing(sqlite3.connect(folder / "store.db")) as raw, raw:
        raw.execute("UPDATE runs SET body = ?", [body])
    with pytest.raises(DataError, match="damaged"):
        store.get_run("r")
    store.close()


@pytest.mark.parametrize("body", [b"no zlib", zlib.compress(b'{"surprise": true}')])
def test_damaged_failure_history_is_reported(folder: Path, body: bytes) -> None:
    store = open_store(folder)
    store.put_sightings("r1", [SIGHTING])
    with closing(sqlite3.connect(folder / "store.db")) as raw, raw:
        raw.execute("UPDATE sightings SET body = ?", [body])
    with pytest.raises(DataError, match="damaged"):
        store.sightings("r1")
    store.close()


@pytest.mark.parametrize("label_json", ["no JSON", '{"surprise": true}'])
def test_damaged_label_is_reported(folder: Path, label_json: str) -> None:
    store = open_store(folder)
    store.put_labels({"r1": [LABEL]})
    with closing(sqlite3.connect(folder / "store.db")) as raw, raw:
        raw.execute("UPDATE labels SET label_json = ?", [label_json])
    with pytest.raises(DataError, match="damaged"):
        store.labels()
    store.close()


def test_labels_are_stored_all_or_none(folder: Path) -> None:
    store = open_store(folder)
    store.put_labels({"r1": [LABEL]})
    with closing(sqlite3.connect(folder / "store.db")) as raw, raw:
        raw.execute(
            "CREATE TRIGGER no BEFORE INSERT ON labels WHEN NEW.run_id = 'r2' BEGIN SELECT RAISE(ABORT, 'no'); END"
        )
    with pytest.raises(EvalscribeError):
        store.put_labels({"r1": (), "r2": [LABEL]})
    assert store.labels() == (LABEL,)
    store.close()


def test_newer_store_is_refused_and_unchanged(folder: Path) -> None:
    store = open_store(folder)
    store.put_run(RUN)
    store.close()
    with closing(sqlite3.connect(folder / "store.db")) as raw, raw:
        raw.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(DataError, match=r"newer evalscribe.*\n.*Upgrade"):
        open_store(folder)
    with closing(sqlite3.connect(folder / "store.db")) as raw:
        assert raw.execute("SELECT version_num, count(*) FROM alembic_version, runs").fetchone() == ("9999", 1)


def test_database_of_another_program_is_refused_and_unchanged(folder: Path) -> None:
    folder.mkdir()
    with closing(sqlite3.connect(folder / "store.db")) as raw, raw:
        raw.execute("CREATE TABLE runs (mine TEXT)")
    with pytest.raises(DataError, match="is not a store of evalscribe"):
        open_store(folder)
    with closing(sqlite3.connect(folder / "store.db")) as raw:
        assert raw.execute("SELECT name FROM sqlite_master").fetchall() == [("runs",)]


def test_folder_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be used"):
        open_store(tmp_path / "file" / ".evalscribe")


def test_disk_error_on_a_full_disk_advises_to_free_space(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite only reports `disk I/O error` when the disk is full."""
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorname = "SQLITE_IOERR_WRITE"
    for room, advice in ((0, "make room"), (FULL_DISK_BYTES, "lost: try again")):
        monkeypatch.setattr(errors, "disk_usage", lambda _, room=room: SimpleNamespace(free=room))
        with pytest.raises(UnavailableError, match=advice), translate_errors(folder / "store.db"):
            raise error


def test_read_only_folder_is_an_access_error(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir()
    open_store(closed / ".evalscribe").close()
    tmp_path.chmod(0o755)
    (closed / ".evalscribe").chmod(0o500)
    with as_nobody(), pytest.raises(AccessError, match=r"cannot be used.*\n.*writable"):
        open_store(closed / ".evalscribe")


def test_locked_store_is_reported_and_usable_afterwards(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "BUSY_S", 0.05)
    store = open_store(folder)
    with closing(sqlite3.connect(folder / "store.db", isolation_level=None)) as raw:
        raw.execute("BEGIN IMMEDIATE")
        with pytest.raises(UnavailableError, match=r"locked.*\n.*Nothing is lost"):
            store.put_run(RUN)
        raw.execute("ROLLBACK")
    store.put_run(RUN)
    assert store.get_run("r") == RUN
    store.close()
