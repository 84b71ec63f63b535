"""Revisions are only added, and every released database is upgraded."""

import hashlib
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine

from evalscribe.errors import DataError
from evalscribe.model.evidence import UnreadableEvidence
from evalscribe.model.repository import StoredReport
from evalscribe.model.run import Run
from evalscribe.store import database as schema
from evalscribe.store import tables
from evalscribe.store.analyses import open_store
from evalscribe.store.collections import open_collections
from evalscribe.store.records import open_collection_records
from support.blank_stores import QuickUpgrade
from support.example_analyses import EVAL, EVIDENCE, LABEL, PROPOSAL, RUN, SIGHTING, VERDICT
from support.example_collections import FAILED, HERE, LABELS, RESULT, RUBRIC


@pytest.fixture(autouse=True)
def quick_stores() -> None:
    """Use the real migrations in this module."""


RELEASED = {
    "0001": "7262111b2845f500f8879565de6d81171b2fa9df0213f3e29e888bb1278033b5",
    "0002": "f53c1417d187102825020d6f2b93c746a985e401620deddb5187b4ad698b41bb",
    "0003": "155ee79a3cff911d11bbf16befd8ce3fe25abe7718a72f6d77fb1a7d0401206f",
    "0004": "90e7d9eb667b5280b8306052dc8acf419f42ca44c907685bc74714c6e20902b9",
    "0005": "4f6e7f153f0cc02ae97aff2c1c6c02fe1f78c6bb5420ad06bc3ef5676e528bd5",
    "0006": "ab20c27a81c32c8222d134b94ad985e6c9c24402ddf0608a749a01be2f3a0b69",
    "0007": "aacf5aeb1eaf8d4fb4cd611c5e12cb5ed4f885cef126d235ef3b09b1c1ece2e4",
    "0008": "5e979610d5b4fa1a13c0a822ff3f2f6f3a90289ce765ff989ac027a173c9fcf8",
    "0009": "ddd5bfa20c676c8ff20de79270defe970c7df843a8eeb0e5a6d27389fef0ed21",
    "0010": "76a2f14ae3c4a54d2e2dc841d3071f27066107420aed985d3a812a539c2bfd10",
    "0011": "e4cc98a7cd51a33f63c821cde4d92ac7f8591a95e939dae497efe1b074b24a02",
    "0012": "cf2fe8dae8819a71eca83c73bdab39e44ef1c0fb3f98a67fb1b4f174710ff1ad",
    "0013": "3e45653c07268612cd2c5d1b046bcc1078a1606267bceb4718d444d69d1c2024",
}
"""Released revisions, which exist in users' stores, each with the digest of its script."""


def scripts() -> ScriptDirectory:
    config = Config()
    config.set_main_option("script_location", str(schema.MIGRATIONS))
    return ScriptDirectory.from_config(config)


def test_head_is_the_newest_revision() -> None:
    assert scripts().get_current_head() == tables.HEAD


def test_released_revisions_are_never_edited() -> None:
    rows = {script.revision: Path(script.path).read_bytes() for script in scripts().walk_revisions()}
    assert {name: hashlib.sha256(text).hexdigest() for name, text in rows.items()} == RELEASED


def test_revisions_create_the_tables_that_the_code_uses(folder: Path) -> None:
    open_store(folder).close()
    engine = create_engine(f"sqlite:///{folder / 'store.db'}")
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), tables.metadata) == []
    engine.dispose()


@pytest.mark.parametrize("revision", [None, *RELEASED])
def test_blank_and_every_released_revision_upgrade(folder: Path, revision: str | None) -> None:
    """Each dump beside this file is a database that a revision wrote, with one run."""
    if revision is not None:
        folder.mkdir()
        dump = Path(__file__).with_name("dumps") / f"{revision}.sql"
        with closing(sqlite3.connect(folder / "store.db")) as raw:
            raw.executescript(dump.read_text())
    store = open_store(folder)
    expected = None if revision is None else Run(id="r", provider="example", model="m")
    assert store.get_run("r") == expected
    store.put_run(Run(id="r", provider="example", model="n"))
    store.close()
    with closing(sqlite3.connect(folder / "store.db")) as raw:
        assert raw.execute("SELECT version_num FROM alembic_version").fetchall() == [(tables.HEAD,)]


def test_contents_survive_the_upgrade_from_revision_0005(folder: Path) -> None:
    """The dump was filled by the code of revision 0005. It also has four rows that this code could not read."""
    folder.mkdir()
    with closing(sqlite3.connect(folder / "store.db")) as raw:
        raw.executescript(Path(__file__).with_name("dumps").joinpath("0005_filled.sql").read_text())
    store, collection_store, run_store = open_store(folder), open_collections(folder), open_collection_records(folder)
    bare = EVAL.model_copy(update={"id": "e2", "category": "", "trial": 2, "trials": 3})
    run = RUN.model_copy(update={"failures": (EVAL, bare), "passed": 2, "failed": 3, "total": 7})
    assert store.get_run(RUN.id) == run
    assert [graded.eval for graded in run_store.graded(RUN.id)] == [EVAL, bare]
    assert store.get_evidence(RUN.id, "e1") == store.get_evidence("r2", "e1") == EVIDENCE
    unreadable = UnreadableEvidence(eval=EVAL.model_copy(update={"id": "e2"}), reason="corrupt zip")
    assert store.get_evidence(RUN.id, "e2") == unreadable
    assert store.get_verdict("k") == VERDICT
    assert store.get_report(RUN.id) == StoredReport(path="a/b.md", text="# é\r\n")
    assert store.sightings("r1") == (SIGHTING,)
    assert store.labels() == (LABEL, LABEL.model_copy(update={"reviewer": "Ben"}))
    assert store.proposal("k") == PROPOSAL
    assert (
        collection_store.collections(),
        collection_store.rubric("c1", "polite"),
        collection_store.label_sets("c1"),
    ) == ((HERE,), RUBRIC, (LABELS,))
    assert (collection_store.get_result("k"), collection_store.get_result("f")) == (RESULT, FAILED)
    assert store.get_report("damaged") is None
    for query in (lambda: store.get_run("damaged"), lambda: store.get_evidence("r3", "e1")):
        with pytest.raises(DataError, match="damaged"):
            query()
    for opened_store in (store, collection_store, run_store):
        opened_store.close()
    with closing(sqlite3.connect(folder / "store.db")) as raw:
        assert raw.execute("SELECT count(*) FROM texts").fetchone() == (1,)
        rows = raw.execute("SELECT agent_run_id, cost_usd, json_extract(output, '$.label') FROM judge_results")
        assert set(rows) == {("a1", 0.25, "match"), ("a1", 0.25, None)}
        assert set(raw.execute("SELECT eval, label, reviewer FROM labels")) == {
            ("basics/001", "KNOWN_GAP", "Ada Ö"),
            ("basics/001", "KNOWN_GAP", "Ben"),
        }


KILLED = """
import os, sys
from pathlib import Path
from alembic import op
create, done = op.create_table, []
def dying(*args, **more):
    if len(done) == 2:
        os.kill(os.getpid(), 9)
    done.append(create(*args, **more))
op.create_table = dying
from evalscribe.store.analyses import open_store
open_store(Path(sys.argv[1]))
"""


def test_killed_upgrade_is_completed_at_the_next_start(folder: Path) -> None:
    assert subprocess.run([sys.executable, "-c", KILLED, str(folder)]).returncode == -9
    store = open_store(folder)
    assert store.get_run("r") is None
    store.close()


@pytest.mark.benchmark
def test_a_warm_start_does_not_load_alembic(folder: Path) -> None:
    open_store(folder).close()
    code = (
        "import sys; from pathlib import Path; from evalscribe.store.analyses import open_store;"
        "open_store(Path(sys.argv[1])).close(); print('alembic' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=True)
    assert out.stdout == "False\n"


@pytest.mark.benchmark
def test_a_warm_start_is_quick(folder: Path) -> None:
    """In the best of five processes, opening the store takes less time than importing SQLAlchemy: about a third."""
    open_store(folder).close()
    code = (
        "import sys, time; from pathlib import Path; import asyncio; import evalscribe.model.report;"
        "began = time.process_time();"
        "import sqlalchemy; imported = time.process_time();"
        "from evalscribe.store.analyses import open_store; open_store(Path(sys.argv[1])).close();"
        "print((time.process_time() - imported) / (imported - began))"
    )
    command = [sys.executable, "-c", code, str(folder)]
    shares = [float(subprocess.run(command, capture_output=True, check=True).stdout) for _ in range(5)]
    assert min(shares) < 1


def test_quick_stores_equal_migrated_stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_store(tmp_path / "migrated").close()
    monkeypatch.setattr(schema, "_upgrade", QuickUpgrade(schema._upgrade))
    for name in ("first", "quick"):
        open_store(tmp_path / name).close()
    dumps = []
    for name in ("migrated", "quick"):
        with closing(sqlite3.connect(tmp_path / name / "store.db")) as database:
            pragmas = [database.execute(f"PRAGMA {pragma}").fetchall() for pragma in ("auto_vacuum", "journal_mode")]
            dumps.append((list(database.iterdump()), pragmas))
    assert dumps[0] == dumps[1]
