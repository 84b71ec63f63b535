"""Importing with Ray workers stores the same data as importing locally."""

import json
import sqlite3
from pathlib import Path

import psycopg
import pytest

from support.command import InProcessCommand, Workspace

TABLES = ("runs", "evals", "steps", "transcripts", "documents", "texts")
"""Tables to compare; the order of runs in a collection depends on arrival and is left out."""


def user_message(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    for name in "abc":
        entries = [{"task_id": n, "reward": n % 2, "info": {}, "traj": user_message(f"{name} {n}")} for n in range(4)]
        (folder / f"{name}.json").write_text(json.dumps(entries))
    (folder / "note.txt").write_text("no runs")
    return folder


@pytest.mark.usefixtures("cluster")
def test_ray_and_local_import_store_the_same_rows(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    outputs, stored_rows = {}, {}
    for engine in ("ray", "local"):
        folder = tmp_path / engine
        (folder / ".git").mkdir(parents=True)
        inside = Workspace(folder, InProcessCommand(folder, monkeypatch, capsys))
        result = inside.run("import", files, "--collection", "many", "--engine", engine, "--json")
        outputs[engine], stored_rows[engine] = json.loads(result.out), rows(folder / ".evalscribe" / "store.db")
    assert outputs["ray"] == outputs["local"]
    assert stored_rows["ray"] == stored_rows["local"]
    assert len(stored_rows["ray"]["evals"]) == 12


@pytest.mark.usefixtures("cluster")
def test_ray_workers_import_into_postgres_concurrently(
    files: Path, tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / ".git").mkdir()
    inside = Workspace(tmp_path, InProcessCommand(tmp_path, monkeypatch, capsys))
    for engine, added in {
        "ray": {"new": 4, "changed": 0, "same": 0},
        "local": {"new": 0, "changed": 0, "same": 4},
    }.items():
        result = inside.run("import", files, "--engine", engine, "--json", EVALSCRIBE_STORE_URL=postgres_url)
        assert [one["added"] for one in json.loads(result.out)["imports"].values()] == [added] * 3
    with psycopg.connect(postgres_url) as connection:
        run_counts = connection.execute("SELECT recorded, passed, failed, total FROM runs").fetchall()
    assert run_counts == [(4, 2, 2, 4)] * 3


def rows(database: Path) -> dict[str, list[tuple[object, ...]]]:
    with sqlite3.connect(database) as connection:
        return {table: sorted(connection.execute(f"SELECT * FROM {table}"), key=repr) for table in TABLES}
