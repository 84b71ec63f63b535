"""What every store does, the real one and the one that tests use."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from evalscribe.evidence import Unreadable
from evalscribe.finding import Unclassified, Verdict
from evalscribe.ports import Store, StoredReport
from evalscribe.store.sql import open_store
from graph.lane_cases import MemoryStore
from store.store_cases import ANOTHER, BUSY, EVAL, EVIDENCE, REFUSED, RUN, VERDICT


@pytest.fixture(params=["sql", "memory"])
def any_store(request: pytest.FixtureRequest, folder: Path) -> Iterator[Store]:
    store: Store = open_store(folder) if request.param == "sql" else MemoryStore()
    yield store
    store.close()


def test_what_was_never_put_is_none(any_store: Store) -> None:
    assert any_store.get_run("r") is None
    assert any_store.get_evidence("r", "e") is None
    assert any_store.get_verdict("k") is None
    assert any_store.get_report("r") is None


def test_the_newest_is_kept(any_store: Store) -> None:
    any_store.put_evidence("r", Unreadable(eval=EVAL, reason="corrupt zip"))
    assert any_store.get_evidence("r", "e1") == Unreadable(eval=EVAL, reason="corrupt zip")
    any_store.put_evidence("r", EVIDENCE)
    assert any_store.get_evidence("r", "e1") == EVIDENCE
    any_store.put_run(RUN)
    any_store.put_run(RUN.model_copy(update={"passed": 7}))
    newest = any_store.get_run(RUN.id)
    assert newest is not None
    assert newest.passed == 7


def test_stored_runs_are_found_by_how_their_ids_begin(any_store: Store) -> None:
    for run_id in ("jn7b", "jn7a", "Jn7a", "x_1"):
        any_store.put_run(RUN.model_copy(update={"id": run_id}))
    assert any_store.run_ids("jn7") == ("jn7a", "jn7b")
    assert any_store.run_ids("x%") == ()
    assert len(any_store.run_ids()) == 4


def test_evidence_of_two_runs_is_apart(any_store: Store) -> None:
    any_store.put_evidence("r1", EVIDENCE)
    assert any_store.get_evidence("r2", "e1") is None


@pytest.mark.parametrize(
    ("first", "then", "kept"),
    [
        pytest.param(VERDICT, BUSY, VERDICT, id="a paid verdict survives a failed second asking"),
        pytest.param(VERDICT, REFUSED, VERDICT, id="and a refusal"),
        pytest.param(BUSY, VERDICT, VERDICT, id="a verdict replaces a reason"),
        pytest.param(BUSY, REFUSED, REFUSED, id="a newer reason replaces an older"),
        pytest.param(VERDICT, ANOTHER, ANOTHER, id="fresh"),
    ],
)
def test_verdicts_are_never_lost(
    any_store: Store, first: Verdict | Unclassified, then: Verdict | Unclassified, kept: Verdict | Unclassified
) -> None:
    any_store.put_verdict("k", first)
    any_store.put_verdict("k", then)
    assert any_store.get_verdict("k") == kept


def test_reports_are_as_last_written(any_store: Store) -> None:
    for text in ("one", "two"):
        any_store.put_report("r", StoredReport(path="a.md", text=text))
    assert any_store.get_report("r") == StoredReport(path="a.md", text="two")
