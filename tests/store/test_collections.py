"""Versions are numbered one after the other, whoever makes them at once, and come back to every process."""

import sqlite3
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from evalscribe.errors import DataError
from evalscribe.judging.rubrics import DEFAULT_COLLECTION, store_rubric
from evalscribe.model.rubric import Collection
from evalscribe.prompts.templates import Prompts
from evalscribe.store.collections import CollectionStore, open_collections
from support.example_collections import CHANGED, HERE, LABELS, RESULT, RUBRIC

MAKER = """
import sys
from pathlib import Path
from evalscribe.model.rubric import Collection, Rubric
from evalscribe.store.collections import open_collections
place, name = sys.argv[1], sys.argv[2]
shelf = open_collections(place if "://" in place else Path(place))
shelf.add_collection(Collection(id="c1", name="here"))
for number in range(8):
    made = shelf.add_rubric("c1", Rubric(id="r", rubric_text=f"{name} {number}"))
    print(made.version, made.rubric_text)
shelf.add_rubric("c1", Rubric(id="same", rubric_text="the same for all"))
shelf.close()
"""


def test_versions_made_by_several_processes_at_once(place: Path | str) -> None:
    """Different contents get a number each; the same content is one version. All find no database."""
    command = [sys.executable, "-c", MAKER, str(place)]
    makers = [subprocess.Popen([*command, name], stdout=subprocess.PIPE, text=True) for name in "abc"]
    told = "".join(maker.communicate()[0] for maker in makers)
    assert [maker.returncode for maker in makers] == [0, 0, 0]
    shelf = open_collections(place)
    numbers = Counter(int(line.split(" ", 1)[0]) for line in told.splitlines())
    assert numbers == Counter(range(1, 25))
    for line in told.splitlines():
        version, text = line.split(" ", 1)
        assert shelf.rubric("c1", "r", int(version)).rubric_text == text
    assert shelf.rubric("c1", "same").version == 1
    shelf.close()


def test_everything_comes_back_to_another_process(folder: Path) -> None:
    shelf = filled(folder)
    other = open_collections(folder)
    assert other.collections() == (HERE,)
    assert other.rubric("c1", "polite", 1) == RUBRIC
    assert other.label_set("c1", "l1") == LABELS
    assert other.get_result("k") == RESULT
    shelf.close()
    other.close()


@pytest.mark.parametrize(
    "body", [b"no zlib", zlib.compress(b'{"rubric_text": 1, "surprise": true}'), zlib.compress(b"[")]
)
@pytest.mark.parametrize(
    ("table", "asked"),
    [
        ("rubric_versions", lambda shelf: shelf.rubric("c1", "polite")),
        ("rubric_versions", lambda shelf: shelf.rubrics("c1")),
        ("label_sets", lambda shelf: shelf.label_sets("c1")),
        ("judge_results", lambda shelf: shelf.get_result("k")),
    ],
)
def test_a_row_that_cannot_be_read(
    folder: Path, body: bytes, table: str, asked: Callable[[CollectionStore], object]
) -> None:
    shelf = filled(folder)
    with closing(sqlite3.connect(folder / "store.db")) as raw, raw:
        raw.execute(f"UPDATE {table} SET body = ?", [body])
    with pytest.raises(DataError, match=r"store\.db is damaged"):
        asked(shelf)
    shelf.close()


def test_a_version_that_cannot_be_read_stands_in_no_other_ones_way(folder: Path) -> None:
    """A rubric that was good may be refused by a later evalscribe."""
    shelf = filled(folder)
    shelf.add_collection(Collection(id=DEFAULT_COLLECTION, name=DEFAULT_COLLECTION))
    shelf.add_rubric(DEFAULT_COLLECTION, RUBRIC)
    with closing(sqlite3.connect(folder / "store.db")) as raw, raw:
        raw.execute("UPDATE rubric_versions SET body = ?", [zlib.compress(b'{"rubric_text": 1}')])
    assert store_rubric(shelf, Prompts(), "failure").version == 1
    assert shelf.add_rubric(DEFAULT_COLLECTION, CHANGED).version == 2
    assert store_rubric(shelf, Prompts(), RUBRIC.id).rubric_text == CHANGED.rubric_text
    shelf.close()


def filled(folder: Path) -> CollectionStore:
    shelf = open_collections(folder)
    shelf.add_collection(HERE)
    shelf.add_rubric("c1", RUBRIC)
    shelf.add_label_set("c1", LABELS)
    shelf.put_result("k", RESULT)
    return shelf
