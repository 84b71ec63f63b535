"""Unused rows are deleted; rows that were paid for, written by people or used in reports are kept."""

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
def collection_store(place: Path | str) -> Iterator[CollectionStore]:
    collection_store = open_collections(place)
    for collection in (HERE, THERE):
        collection_store.add_collection(collection)
    yield collection_store
    collection_store.close()


@pytest.fixture
def run_store(collection_store: CollectionStore, place: Path | str) -> Iterator[RunStore]:
    run_store = open_collection_records(place)
    run_store.add("c1", [RUN], SEVERAL)
    run_store.add("c1", [OTHER], [make_record(1, run_id="r2")])
    yield run_store
    run_store.close()


def swept(run_store: RunStore, *, dry_run: bool = False) -> dict[str, int]:
    return {entry.kind: entry.rows for entry in run_store.sweep(dry_run=dry_run) if entry.rows}


NOTHING: dict[str, int] = {}


def test_run_in_another_collection_is_kept(run_store: RunStore) -> None:
    run_store.add("c2", [RUN], [])
    run_store.remove("c1", "r1")
    assert swept(run_store) == NOTHING
    assert list(run_store.records("r1")) == SEVERAL


@pytest.mark.parametrize("at_once", [1, 500])
def test_run_in_no_collection_is_deleted(run_store: RunStore, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "AT_ONCE", at_once)
    monkeypatch.setattr(contents, "ROUND", 2 * at_once)
    run_store.remove("c1", "r1")
    expected = {"runs": 1, "evals": 8, "steps": 2, "transcripts": 9, "documents": 10, "texts": 2}
    preview = run_store.sweep(dry_run=True)
    assert {entry.kind: entry.rows for entry in preview if entry.rows} == expected
    assert all(entry.bytes > 0 for entry in preview if entry.rows)
    assert list(run_store.records("r1")) == SEVERAL
    assert run_store.sweep(dry_run=False) == preview
    assert swept(run_store) == swept(run_store, dry_run=True) == NOTHING
    assert list(run_store.records("r1")) == []
    assert run_store.record("r2-1") == make_record(1, run_id="r2")
    assert run_store.add("c1", [RUN], SEVERAL) == AddedCounts(new=8)


REFERENCES: dict[str, Callable[[AnalysisStore, CollectionStore], None]] = {
    "a report": lambda store, _: store.put_report("r1", StoredReport(path="p", text="t")),
    "findings": lambda store, _: store.put_findings("r1", [FindingSummary(eval="a/one")]),
    "a label": lambda store, _: store.put_labels({"r1": [LABEL]}),
    "evidence": lambda store, _: store.put_evidence("r1", Evidence(eval=FULL_RECORD.eval)),
    "a judge's result": lambda _, collection_store: collection_store.put_result(
        "k", RESULT.model_copy(update={"agent_run_id": "r1-3"})
    ),
}


@pytest.mark.parametrize("reference", REFERENCES)
def test_run_with_stored_work_is_kept(
    run_store: RunStore, store: AnalysisStore, collection_store: CollectionStore, reference: str
) -> None:
    run_store.remove("c1", "r1")
    REFERENCES[reference](store, collection_store)
    assert swept(run_store, dry_run=True) == swept(run_store) == NOTHING
    assert list(run_store.records("r1")) == SEVERAL


def test_analysed_runs_are_kept_with_their_evidence(run_store: RunStore, store: AnalysisStore) -> None:
    store.put_run(ANALYSED)
    store.put_run(Run(id="all passed", provider="p", model="m", passed=2, total=2))
    store.put_evidence(ANALYSED.id, EVIDENCE)
    store.put_sightings(ANALYSED.id, [SIGHTING])
    store.put_verdict("k", VERDICT)
    assert swept(run_store) == NOTHING
    assert store.get_evidence(ANALYSED.id, "e1") == EVIDENCE
    assert store.sightings(ANALYSED.id) == (SIGHTING,)
    assert store.get_verdict("k") == VERDICT


def test_evidence_without_a_failure_is_deleted(run_store: RunStore, store: AnalysisStore) -> None:
    store.put_run(ANALYSED)
    store.put_evidence(ANALYSED.id, EVIDENCE)
    gone = EVIDENCE.model_copy(update={"eval": Eval(id="gone", category="", name="gone")})
    store.put_evidence(ANALYSED.id, gone)
    changed = EVIDENCE.model_copy(update={"documents": (Document(role="log", path="l", text="only here"),)})
    store.put_evidence("no run", changed)
    expected = {"evidence": 2, "documents": 2, "texts": 1}
    assert swept(run_store, dry_run=True) == swept(run_store) == expected
    assert store.get_evidence(ANALYSED.id, "gone") is None
    assert store.get_evidence(ANALYSED.id, "e1") == EVIDENCE


def test_run_imported_during_the_deletion_has_the_right_counts(
    run_store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_store.remove("c1", "r1")
    monkeypatch.setattr(contents, "AT_ONCE", 3)
    delete_round = contents._delete_round

    def interrupted(database: object, table: object, unneeded: object) -> int:
        done: int = delete_round(database, table, unneeded)  # type: ignore[arg-type]
        if table is contents.runs:
            assert run_store.add("c1", [RUN], SEVERAL[:4]) == AddedCounts(same=4)
        return done

    monkeypatch.setattr(contents, "_delete_round", interrupted)
    run_store.sweep(dry_run=False)
    (run,) = [run for run in run_store.runs("c1") if run.id == "r1"]
    assert (run.passed, run.failed, run.total) == (7, 1, 8)
    assert list(run_store.records("r1")) == SEVERAL


@pytest.mark.parametrize("after", ["runs", "evals", "steps", "documents"])
def test_run_imported_after_an_interrupted_deletion_is_complete(
    run_store: RunStore, monkeypatch: pytest.MonkeyPatch, after: str
) -> None:
    run_store.remove("c1", "r1")
    delete_round = contents._delete_round

    def ended(database: object, table: Table, unneeded: object) -> int:
        done: int = delete_round(database, table, unneeded)  # type: ignore[arg-type]
        if table.name == after:
            raise KeyboardInterrupt
        return done

    monkeypatch.setattr(contents, "_delete_round", ended)
    with pytest.raises(KeyboardInterrupt):
        run_store.sweep(dry_run=False)
    assert run_store.add("c1", [RUN], SEVERAL) == (AddedCounts(same=8) if after == "runs" else AddedCounts(new=8))
    assert list(run_store.records("r1")) == SEVERAL
    assert FULL_RECORD.documents == run_store.documents("r1", "e1")


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


def test_killed_deletion_continues_at_the_next_run(folder: Path) -> None:
    collection_store, run_store = open_collections(folder), open_collection_records(folder)
    collection_store.add_collection(HERE)
    run_store.add("c1", [RUN], SEVERAL)
    run_store.remove("c1", "r1")
    assert subprocess.run([sys.executable, "-c", KILLED, str(folder)]).returncode == -9
    assert swept(run_store) == {"transcripts": 9, "documents": 10, "texts": 3}
    run_store.close()
    collection_store.close()


def test_deleted_space_is_returned_to_the_file_system(folder: Path) -> None:
    collection_store, run_store = open_collections(folder), open_collection_records(folder)
    collection_store.add_collection(HERE)
    long = [make_record(n, metadata={"long": f"{n}" * 2000}) for n in range(300)]
    run_store.add("c1", [RUN], long)
    run_store.remove("c1", "r1")
    run_store.sweep(dry_run=False)
    before = (folder / "store.db").stat().st_size
    assert run_store.give_back() > 300_000
    assert (folder / "store.db").stat().st_size < before / 3
    run_store.close()
    collection_store.close()
