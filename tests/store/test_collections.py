"""Concurrent processes number versions consecutively, and every process reads them."""

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


def test_concurrent_processes_number_versions_without_gaps(place: Path | str) -> None:
    """Each different content gets its own number; equal content is one version. No process finds a database."""
    command = [sys.executable, "-c", MAKER, str(place)]
    makers = [subprocess.Popen([*command, name], stdout=subprocess.PIPE, text=True) for name in "abc"]
    output = "".join(maker.communicate()[0] for maker in makers)
    assert [maker.returncode for maker in makers] == [0, 0, 0]
    store = open_collections(place)
    numbers = Counter(int(line.split(" ", 1)[0]) for line in output.splitlines())
    assert numbers == Counter(range(1, 25))
    for line in output.splitlines():
        version, text = line.split(" ", 1)
        assert store.rubric("c1", "r", int(version)).rubric_text == text
    assert store.rubric("c1", "same").version == 1
    store.close()


def test_another_process_reads_everything_that_was_stored(folder: Path) -> None:
    store = make_filled(folder)
    other = open_collections(folder)
    assert other.collections() == (HERE,)
    assert other.rubric("c1", "polite", 1) == RUBRIC
    assert other.label_set("c1", "l1") == LABELS
    assert other.get_result("k") == RESULT
    store.close()
    other.close()


@pytest.mark.parametrize(
    "body", [b"no zlib", zlib.compress(b'{"rubric_text": 1, "surprise": true}'), zlib.compress(b"[")]
)
@pytest.mark.parametrize(
    ("table", "query"),
    [
        ("rubric_versions", lambda store: store.rubric("c1", "polite")),
        ("rubric_versions", lambda store: store.rubrics("c1")),
        ("label_sets", lambda store: store.label_sets("c1")),
        ("judge_results", lambda store: store.get_result("k")),
    ],
)
def test_damaged_row_is_reported(
    folder: Path, body: bytes, table: str, query: Callable[[CollectionStore], object]
) -> None:
    store = make_filled(folder)
    with closing(sqlite3.connect(folder / "store.db")) as raw, raw:
        raw.execute(f"UPDATE {table} SET body = ?", [body])
    with pytest.raises(DataError, match=r"store\.db is damaged"):
        query(store)
    store.close()


def test_unreadable_version_does_not_block_the_next_version(folder: Path) -> None:
    """A later evalscribe can refuse a rubric that an earlier one accepted."""
    store = make_filled(folder)
    store.add_collection(Collection(id=DEFAULT_COLLECTION, name=DEFAULT_COLLECTION))
    store.add_rubric(DEFAULT_COLLECTION, RUBRIC)
    with closing(sqlite3.connect(folder / "store.db")) as raw, raw:
        raw.execute("UPDATE rubric_versions SET body = ?", [zlib.compress(b'{"rubric_text": 1}')])
    assert store_rubric(store, Prompts(), "failure").version == 1
    assert store.add_rubric(DEFAULT_COLLECTION, CHANGED).version == 2
    assert store_rubric(store, Prompts(), RUBRIC.id).rubric_text == CHANGED.rubric_text
    store.close()


def make_filled(folder: Path) -> CollectionStore:
    store = open_collections(folder)
    store.add_collection(HERE)
    store.add_rubric("c1", RUBRIC)
    store.add_label_set("c1", LABELS)
    store.put_result("k", RESULT)
    return store
