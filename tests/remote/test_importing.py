"""Files read by the workers of a cluster hold what they hold when they are read here."""

import json
import sqlite3
from pathlib import Path

import psycopg
import pytest

from support.command import InProcessCommand, Workspace

TABLES = ("runs", "evals", "steps", "transcripts", "documents", "texts")
"""The order of the runs in a collection is that in which they came."""


def said(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    for name in "abc":
        entries = [{"task_id": n, "reward": n % 2, "info": {}, "traj": said(f"{name} {n}")} for n in range(4)]
        (folder / f"{name}.json").write_text(json.dumps(entries))
    (folder / "note.txt").write_text("no runs")
    return folder


@pytest.mark.usefixtures("cluster")
def test_many_files_at_once(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told, held = {}, {}
    for engine in ("ray", "local"):
        folder = tmp_path / engine
        (folder / ".git").mkdir(parents=True)
        inside = Workspace(folder, InProcessCommand(folder, monkeypatch, capsys))
        ended = inside.run("import", files, "--collection", "many", "--engine", engine, "--json")
        told[engine], held[engine] = json.loads(ended.out), rows(folder / ".evalscribe" / "store.db")
    assert told["ray"] == told["local"]
    assert held["ray"] == held["local"]
    assert len(held["ray"]["evals"]) == 12


@pytest.mark.usefixtures("cluster")
def test_workers_write_to_a_server_at_once(
    files: Path, tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / ".git").mkdir()
    inside = Workspace(tmp_path, InProcessCommand(tmp_path, monkeypatch, capsys))
    for engine, added in {
        "ray": {"new": 4, "changed": 0, "same": 0},
        "local": {"new": 0, "changed": 0, "same": 4},
    }.items():
        ended = inside.run("import", files, "--engine", engine, "--json", EVALSCRIBE_STORE_URL=postgres_url)
        assert [one["added"] for one in json.loads(ended.out)["imports"].values()] == [added] * 3
    with psycopg.connect(postgres_url) as connection:
        counted = connection.execute("SELECT recorded, passed, failed, total FROM runs").fetchall()
    assert counted == [(4, 2, 2, 4)] * 3


def rows(database: Path) -> dict[str, list[tuple[object, ...]]]:
    with sqlite3.connect(database) as connection:
        return {table: sorted(connection.execute(f"SELECT * FROM {table}"), key=repr) for table in TABLES}
