"""What nobody needs is forgotten; what was paid for, written by people or reported on stays."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Table

from evalscribe.model.analysis import FindingSummary
from evalscribe.model.evidence import Document, Evidence
from evalscribe.model.record import AddedCounts
from evalscribe.model.repository import StoredReport
from evalscribe.model.run import Eval, Run
from evalscribe.store import contents
from evalscribe.store.analyses import AnalysisStore
from evalscribe.store.collections import CollectionStore, open_collections
from evalscribe.store.records import RunStore, open_collection_records
from support.example_analyses import EVIDENCE, LABEL, SIGHTING, VERDICT
from support.example_analyses import RUN as ANALYSED
from support.example_collections import RESULT
from support.example_records import FULL_RECORD, HERE, RUN, THERE, make_record

OTHER = RUN.model_copy(update={"id": "r2"})
SEVERAL = [FULL_RECORD, *(make_record(n) for n in range(7))]


@pytest.fixture
def shelf(place: Path | str) -> Iterator[CollectionStore]:
    shelf = open_collections(place)
    for collection in (HERE, THERE):
        shelf.add_collection(collection)
    yield shelf
    shelf.close()


@pytest.fixture
def archive(shelf: CollectionStore, place: Path | str) -> Iterator[RunStore]:
    archive = open_collection_records(place)
    archive.add("c1", [RUN], SEVERAL)
    archive.add("c1", [OTHER], [make_record(1, run_id="r2")])
    yield archive
    archive.close()


def swept(archive: RunStore, *, dry_run: bool = False) -> dict[str, int]:
    return {one.kind: one.rows for one in archive.sweep(dry_run=dry_run) if one.rows}


NOTHING: dict[str, int] = {}


def test_what_a_collection_has_stays(archive: RunStore) -> None:
    archive.add("c2", [RUN], [])
    archive.remove("c1", "r1")
    assert swept(archive) == NOTHING
    assert list(archive.records("r1")) == SEVERAL


@pytest.mark.parametrize("at_once", [1, 500])
def test_a_run_that_no_collection_has(archive: RunStore, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "AT_ONCE", at_once)
    monkeypatch.setattr(contents, "ROUND", 2 * at_once)
    archive.remove("c1", "r1")
    expected = {"runs": 1, "evals": 8, "steps": 2, "transcripts": 9, "documents": 10, "texts": 2}
    told = archive.sweep(dry_run=True)
    assert {one.kind: one.rows for one in told if one.rows} == expected
    assert all(one.bytes > 0 for one in told if one.rows)
    assert list(archive.records("r1")) == SEVERAL
    assert archive.sweep(dry_run=False) == told
    assert swept(archive) == swept(archive, dry_run=True) == NOTHING
    assert list(archive.records("r1")) == []
    assert archive.record("r2-1") == make_record(1, run_id="r2")
    assert archive.add("c1", [RUN], SEVERAL) == AddedCounts(new=8)


SAID: dict[str, Callable[[AnalysisStore, CollectionStore], None]] = {
    "a report": lambda store, _: store.put_report("r1", StoredReport(path="p", text="t")),
    "findings": lambda store, _: store.put_findings("r1", [FindingSummary(eval="a/one")]),
    "a label": lambda store, _: store.put_labels({"r1": [LABEL]}),
    "evidence": lambda store, _: store.put_evidence("r1", Evidence(eval=FULL_RECORD.eval)),
    "a judge's result": lambda _, shelf: shelf.put_result("k", RESULT.model_copy(update={"agent_run_id": "r1-3"})),
}


@pytest.mark.parametrize("said", SAID)
def test_a_run_of_which_something_was_said_stays(
    archive: RunStore, store: AnalysisStore, shelf: CollectionStore, said: str
) -> None:
    archive.remove("c1", "r1")
    SAID[said](store, shelf)
    assert swept(archive, dry_run=True) == swept(archive) == NOTHING
    assert list(archive.records("r1")) == SEVERAL


def test_runs_that_were_only_analysed_stay_with_their_evidence(archive: RunStore, store: AnalysisStore) -> None:
    store.put_run(ANALYSED)
    store.put_run(Run(id="all passed", provider="p", model="m", passed=2, total=2))
    store.put_evidence(ANALYSED.id, EVIDENCE)
    store.put_sightings(ANALYSED.id, [SIGHTING])
    store.put_verdict("k", VERDICT)
    assert swept(archive) == NOTHING
    assert store.get_evidence(ANALYSED.id, "e1") == EVIDENCE
    assert store.sightings(ANALYSED.id) == (SIGHTING,)
    assert store.get_verdict("k") == VERDICT


def test_evidence_of_what_is_no_failure_any_more(archive: RunStore, store: AnalysisStore) -> None:
    store.put_run(ANALYSED)
    store.put_evidence(ANALYSED.id, EVIDENCE)
    gone = EVIDENCE.model_copy(update={"eval": Eval(id="gone", category="", name="gone")})
    store.put_evidence(ANALYSED.id, gone)
    changed = EVIDENCE.model_copy(update={"documents": (Document(role="log", path="l", text="only here"),)})
    store.put_evidence("no run", changed)
    expected = {"evidence": 2, "documents": 2, "texts": 1}
    assert swept(archive, dry_run=True) == swept(archive) == expected
    assert store.get_evidence(ANALYSED.id, "gone") is None
    assert store.get_evidence(ANALYSED.id, "e1") == EVIDENCE


def test_a_run_that_comes_back_while_it_is_forgotten_is_counted_right(
    archive: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive.remove("c1", "r1")
    monkeypatch.setattr(contents, "AT_ONCE", 3)
    forget = contents._delete_round

    def interrupted(database: object, table: object, unneeded: object) -> int:
        done: int = forget(database, table, unneeded)  # type: ignore[arg-type]
        if table is contents.runs:
            assert archive.add("c1", [RUN], SEVERAL[:4]) == AddedCounts(same=4)
        return done

    monkeypatch.setattr(contents, "_delete_round", interrupted)
    archive.sweep(dry_run=False)
    (run,) = [run for run in archive.runs("c1") if run.id == "r1"]
    assert (run.passed, run.failed, run.total) == (7, 1, 8)
    assert list(archive.records("r1")) == SEVERAL


@pytest.mark.parametrize("after", ["runs", "evals", "steps", "documents"])
def test_a_run_that_comes_back_half_forgotten_is_whole(
    archive: RunStore, monkeypatch: pytest.MonkeyPatch, after: str
) -> None:
    archive.remove("c1", "r1")
    forget = contents._delete_round

    def ended(database: object, table: Table, unneeded: object) -> int:
        done: int = forget(database, table, unneeded)  # type: ignore[arg-type]
        if table.name == after:
            raise KeyboardInterrupt
        return done

    monkeypatch.setattr(contents, "_delete_round", ended)
    with pytest.raises(KeyboardInterrupt):
        archive.sweep(dry_run=False)
    assert archive.add("c1", [RUN], SEVERAL) == (AddedCounts(same=8) if after == "runs" else AddedCounts(new=8))
    assert list(archive.records("r1")) == SEVERAL
    assert FULL_RECORD.documents == archive.documents("r1", "e1")


KILLED = """
import os, sys
from evalscribe.store import contents as sweeping
from evalscribe.store.records import open_collection_records
sweeping.AT_ONCE, forget = 2, sweeping._delete_round
def dying(database, table, unneeded):
    if table is sweeping.transcripts:
        os.kill(os.getpid(), 9)
    return forget(database, table, unneeded)
sweeping._delete_round = dying
open_collection_records(__import__("pathlib").Path(sys.argv[1])).sweep(dry_run=False)
"""


def test_killed_half_way_it_goes_on(folder: Path) -> None:
    shelf, archive = open_collections(folder), open_collection_records(folder)
    shelf.add_collection(HERE)
    archive.add("c1", [RUN], SEVERAL)
    archive.remove("c1", "r1")
    assert subprocess.run([sys.executable, "-c", KILLED, str(folder)]).returncode == -9
    assert swept(archive) == {"transcripts": 9, "documents": 10, "texts": 3}
    archive.close()
    shelf.close()


def test_room_is_given_back(folder: Path) -> None:
    shelf, archive = open_collections(folder), open_collection_records(folder)
    shelf.add_collection(HERE)
    long = [make_record(n, metadata={"long": f"{n}" * 2000}) for n in range(300)]
    archive.add("c1", [RUN], long)
    archive.remove("c1", "r1")
    archive.sweep(dry_run=False)
    before = (folder / "store.db").stat().st_size
    assert archive.give_back() > 300_000
    assert (folder / "store.db").stat().st_size < before / 3
    archive.close()
    shelf.close()
