"""Commands on damaged stores end with a message that says what to do, and are not reported as bugs."""

import json
import os
import re
import shutil
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from evalscribe.cli import run
from evalscribe.model.score import ScoreQuery
from evalscribe.store import tables
from support import run_snapshots
from support.stored_experiment import StoredExperiment, make_items

Damage = Callable[[Path], None]
COMMANDS = (
    ("export",),
    ("experiments", "runs", "summary", "RUN"),
    ("experiments", "runs", "export", "RUN", "-f", "json"),
    ("experiments", "list"),
    ("experiments", "runs", "list", "quality"),
    ("experiments", "scores", "evidence", "SCORE"),
    ("analyze", "TRIP", "--judge", "rules"),
    ("recurring", "--across-models"),
    ("datasets", "versions", "export", "tickets", "1"),
)


def write_trip(path: Path, reward: float) -> None:
    trials = [
        {"task_id": n, "trial": 0, "reward": reward * n, "info": {}, "traj": [{"role": "user", "content": "hello"}]}
        for n in range(3)
    ]
    path.write_text(json.dumps(trials))


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A workspace with rows in most tables, and the ids that commands need."""
    folder = tmp_path_factory.mktemp("sound") / "workspace"
    folder.mkdir()
    (folder / ".git").mkdir()
    (folder / "evalscribe.toml").write_text('collection_id = "trip"\n')
    run_snapshots.write(folder / "made", 4)
    write_trip(folder / "trip.json", 0.0)
    write_trip(folder / "other.json", 1.0)
    (folder / "prompt.yaml").write_text("model: anthropic/claude-opus-5-5\ntext: '{{input}}'\n")
    (folder / "prompts" / "rubrics").mkdir(parents=True)
    (folder / "prompts" / "rubrics" / "polite.yaml").write_text("rubric_text: Was it polite?\n")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        for words in (
            ("import", "trip.json", "--collection", "trip", "--model", "example/m"),
            ("import", "other.json", "--collection", "trip", "--model", "example/n"),
            ("analyze", "made", "--judge", "rules"),
            ("experiments", "prompts", "create", "prompt.yaml", "--name", "ask"),
            ("rubrics", "create", "polite"),
        ):
            assert run(list(words)) == 0, words
    experiment = StoredExperiment(folder / ".evalscribe", make_items("a", "b"))
    one, two = experiment.run("pf", outputs={"a": {"x": 1}}), experiment.run("pp")
    score = next(experiment.runs.scores(ScoreQuery(run_id=one.id))).id
    experiment.close()
    with closing(sqlite3.connect(folder / ".evalscribe" / "store.db")) as raw:
        trip = raw.execute("SELECT run_id FROM runs WHERE model = 'm'").fetchone()[0]
    ids = {"RUN": one.id, "RUN2": two.id, "SCORE": score, "TRIP": trip, "EVAL": run_snapshots.eval_id(0)}
    return folder, ids


def database(store: Path) -> Path:
    return store / "store.db"


@contextmanager
def opened(store: Path) -> Iterator[sqlite3.Connection]:
    """Open the database and drop the triggers that forbid changes of versions."""
    with closing(sqlite3.connect(database(store))) as raw, raw:
        for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            raw.execute(f'DROP TRIGGER "{name}"')
        yield raw


def overwrite(change: Callable[[bytes], bytes]) -> Damage:
    def damage(store: Path) -> None:
        with opened(store) as raw:
            raw.execute("PRAGMA journal_mode=DELETE")
        database(store).write_bytes(change(database(store).read_bytes()))

    return damage


def as_folder(store: Path) -> None:
    database(store).unlink()
    database(store).mkdir()


def garbage_in_wal(store: Path) -> None:
    (store / "store.db-wal").write_bytes(b"\x37\x7f\x06\x82" + os.urandom(8_000))


def statement(sql: str) -> Damage:
    def damage(store: Path) -> None:
        with opened(store) as raw:
            raw.execute(sql)

    return damage


def without_tables(store: Path) -> None:
    with opened(store) as raw:
        for name in tables.metadata.tables:
            raw.execute(f"DROP TABLE {name}")


def without_columns(store: Path) -> None:
    """Reduce every table to its first column."""
    with opened(store) as raw:
        for name, table in tables.metadata.tables.items():
            raw.execute(f"ALTER TABLE {name} RENAME TO old_{name}")
            raw.execute(f"CREATE TABLE {name} AS SELECT {table.c[0].name} FROM old_{name}")
            raw.execute(f"DROP TABLE old_{name}")


def every_cell(kinds: tuple[str, ...], value: object) -> Damage:
    """Put a value into every column of these kinds except keys."""

    def damage(store: Path) -> None:
        with opened(store) as raw:
            for name, table in tables.metadata.tables.items():
                columns = [
                    column.name
                    for column in table.c
                    if type(column.type).__name__ in kinds and not column.primary_key and not column.unique
                ]
                raw.execute(f"CREATE TABLE loose AS SELECT * FROM {name}")
                raw.execute(f"DROP TABLE {name}")
                raw.execute(f"ALTER TABLE loose RENAME TO {name}")
                for column in columns:
                    raw.execute(f'UPDATE {name} SET "{column}" = ?', [value])

    return damage


DAMAGES: dict[str, Damage] = {
    "empty file": overwrite(lambda _: b""),
    "random bytes": overwrite(lambda data: bytes(97 + n % 26 for n in range(len(data)))),
    "half of it": overwrite(lambda data: data[: len(data) // 2]),
    "first page only": overwrite(lambda data: data[:4096]),
    "pages overwritten": overwrite(lambda data: data[:4096] + b"\x5a" * (len(data) - 4096)),
    "every third page overwritten": overwrite(
        lambda data: b"".join(
            data[at : at + 4096] if at // 4096 % 3 != 2 else b"\x5a" * 4096 for at in range(0, len(data), 4096)
        )
    ),
    "a folder": as_folder,
    "garbage in the write-ahead log": garbage_in_wal,
    "newer version": statement("UPDATE alembic_version SET version_num = '9999'"),
    "version of another kind": statement("UPDATE alembic_version SET version_num = x'00ff'"),
    "no version": statement("DELETE FROM alembic_version"),
    "empty version": statement("UPDATE alembic_version SET version_num = ''"),
    "two versions": statement("INSERT INTO alembic_version VALUES ('0001')"),
    "no version table": statement("DROP TABLE alembic_version"),
    "no tables": without_tables,
    "one column of each table": without_columns,
    "invalid JSON": every_cell(("JSON",), "{no json"),
    "JSON of another shape": every_cell(("JSON",), '["x", 1]'),
    "JSON that is a number": every_cell(("JSON",), "7"),
    "bytes in JSON": every_cell(("JSON",), b"\x00\xff"),
    "words in numbers": every_cell(("Integer", "Float", "Boolean"), "many"),
    "huge numbers": every_cell(("Integer", "Float"), 1e300),
    "bytes in texts": every_cell(("String", "Text"), b"\x00\xff"),
    "numbers in texts": every_cell(("String", "Text"), 7),
    "other words": every_cell(("String", "Text"), "surprise"),
    "null in texts": every_cell(("String", "Text"), None),
    "null in numbers": every_cell(("Integer", "Float", "Boolean"), None),
    "null in JSON": every_cell(("JSON",), None),
    "null in values": every_cell(("LargeBinary",), None),
    "garbage in values": every_cell(("LargeBinary",), b"(\xb5/\xfd garbage"),
    "values cut off": every_cell(("LargeBinary",), zlib.compress(b"x" * 5000)[:-3]),
    "values of another shape": every_cell(("LargeBinary",), zlib.compress(b'{"surprise": true}')),
    "values without JSON": every_cell(("LargeBinary",), zlib.compress(b"\xff[")),
    "text in values": every_cell(("LargeBinary",), "words"),
}


@dataclass(frozen=True)
class Wrecked:
    """A copy of the sound workspace; its damaged store is restored before each command."""

    folder: Path
    store: Path
    ids: dict[str, str]
    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]

    def run(self, words: tuple[str, ...]) -> tuple[int, str]:
        """Run a command; return its exit code and standard error."""
        here = self.folder / ".evalscribe"
        shutil.rmtree(here, ignore_errors=True)
        shutil.copytree(self.store, here)
        with self.monkeypatch.context() as patched:
            patched.chdir(self.folder)
            code = run([self.ids.get(word, word) for word in words])
        return code, self.capsys.readouterr().err


@pytest.fixture
def wreck(
    sound: tuple[Path, dict[str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Callable[[Damage], Wrecked]:
    def wreck(damage: Damage) -> Wrecked:
        folder, ids = sound
        copy = Path(shutil.copytree(folder, tmp_path / "workspace", ignore=shutil.ignore_patterns(".evalscribe")))
        store = Path(shutil.copytree(folder / ".evalscribe", tmp_path / "store"))
        damage(store)
        return Wrecked(copy, store, ids, monkeypatch, capsys)

    return wreck


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_store_is_reported_and_not_as_a_bug(damage: str, wreck: Callable[[Damage], Wrecked]) -> None:
    wrecked = wreck(DAMAGES[damage])
    for words in COMMANDS:
        code, error = wrecked.run(words)
        assert code in (0, 64, 65, 66, 69, 77), (words, error)
        if code in (65, 69):
            assert ".evalscribe" in error, (words, error)
            assert re.search("Move it away|Upgrade evalscribe|Make its folder|Nothing is lost", error), (words, error)


@pytest.mark.parametrize("damage", ["invalid JSON", "other words", "newer version", "no version", "pages overwritten"])
def test_query_of_a_damaged_store_is_not_reported_as_a_bug(damage: str, wreck: Callable[[Damage], Wrecked]) -> None:
    code, error = wreck(DAMAGES[damage]).run(("sql", "SELECT metadata_json->>'task' AS task FROM agent_runs"))
    assert code in (0, 64, 65, 69), error


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ("newer version", "written by a newer evalscribe"),
        ("no version", "its version table alembic_version is empty"),
        ("empty version", "its version table alembic_version has no readable revision"),
        ("no version table", "is not a store of evalscribe"),
        ("no tables", "no such table"),
        ("a folder", "is a folder"),
    ],
)
def test_error_names_the_problem_and_leaves_the_store_unchanged(
    damage: str, words: str, wreck: Callable[[Damage], Wrecked]
) -> None:
    wrecked = wreck(DAMAGES[damage])
    code, error = wrecked.run(("experiments", "list"))
    assert code == 65
    assert words in error
    if damage != "a folder":
        here = wrecked.folder / ".evalscribe"
        with (
            closing(sqlite3.connect(database(wrecked.store))) as before,
            closing(sqlite3.connect(database(here))) as now,
        ):
            assert list(before.iterdump()) == list(now.iterdump())


def test_error_names_table_column_and_row_of_an_invalid_value(wreck: Callable[[Damage], Wrecked]) -> None:
    """Evals are too many to validate on reading; the invalid value is located after the failure."""
    code, error = wreck(statement("UPDATE evals SET name = x'00ff'")).run(("export",))
    assert code == 65
    assert "evals.name of row 1 is not text" in error
