"""Whole runs come back as they were read, are stored once, and are counted from what is there."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import func, select

from evalscribe.errors import DataError, NotFoundError
from evalscribe.failures.prepare import failure_record
from evalscribe.model.evidence import Document, Evidence, files_digest
from evalscribe.model.record import AddedCounts
from evalscribe.model.run import Eval, EvalStatus
from evalscribe.model.transcript import AssistantMessage, Transcript, TranscriptToolCall, UserMessage
from evalscribe.store import records, tables
from evalscribe.store.analyses import AnalysisStore
from evalscribe.store.collections import open_collections
from evalscribe.store.database import open_database
from evalscribe.store.records import RunStore, open_collection_records
from support.example_records import FULL_RECORD, HERE, RUN, THERE, TRANSCRIPT, make_record

STATUSES: tuple[EvalStatus, ...] = ("passed", "failed", "error", "incomplete")


@pytest.fixture
def archive(place: Path | str) -> Iterator[RunStore]:
    shelf = open_collections(place)
    for collection in (HERE, THERE):
        shelf.add_collection(collection)
    shelf.close()
    archive = open_collection_records(place)
    yield archive
    archive.close()


def counts(archive: RunStore, collection_id: str = "c1") -> dict[str, tuple[int, int, int]]:
    return {run.id: (run.passed, run.failed, run.total) for run in archive.runs(collection_id)}


def test_everything_comes_back(archive: RunStore) -> None:
    assert archive.add("c1", [RUN], [FULL_RECORD, make_record(2)]) == AddedCounts(new=2)
    assert archive.record("e1") == FULL_RECORD
    assert list(archive.records("r1")) == [FULL_RECORD, make_record(2)]
    assert list(archive.records("r1", "passed")) == [make_record(2)]
    assert archive.documents("r1", "e1") == FULL_RECORD.documents
    assert archive.transcript(TRANSCRIPT.id) == FULL_RECORD.model_copy(update={"transcripts": (TRANSCRIPT,)})
    assert archive.runs("c1") == (RUN.model_copy(update={"passed": 1, "failed": 1, "total": 2}),)


def test_evals_that_never_completed_are_named_and_figures_come_back(archive: RunStore, store: AnalysisStore) -> None:
    run = RUN.model_copy(update={"started_at": "2026-11-01T10:00:00Z", "duration_s": 12.5, "cost_usd": 0.25})
    cut_off = make_record(3).model_copy(
        update={"eval": make_record(3).eval.model_copy(update={"status": "incomplete"})}
    )
    archive.add("c1", [run], [FULL_RECORD, make_record(2), cut_off])
    stored = store.get_run("r1")
    assert stored is not None
    assert (stored.started_at, stored.duration_s, stored.cost_usd) == ("2026-11-01T10:00:00Z", 12.5, 0.25)
    assert stored.incomplete_evals == (cut_off.eval.path,)


def test_what_is_not_there(archive: RunStore) -> None:
    archive.add("c1", [RUN], [FULL_RECORD])
    assert archive.record("e9") is None
    assert archive.transcript("t9") is None
    assert archive.documents("r1", "e9") == ()
    assert list(archive.records("r9")) == []
    assert archive.graded("r9") == ()
    assert archive.runs("c2") == ()


def test_the_same_eval_in_two_runs(archive: RunStore) -> None:
    """A log that was retried keeps the ids of the samples that it took over."""
    again = FULL_RECORD.model_copy(update={"run_id": "r2"})
    archive.add("c1", [RUN, RUN.model_copy(update={"id": "r2"})], [FULL_RECORD, again])
    assert archive.record("e1") == archive.record("e1", run_id="r1") == FULL_RECORD
    assert archive.record("e1", run_id="r2") == again
    assert archive.record("e1", "c2", run_id="r2") is None
    assert archive.record("e1", run_id="r9") is None


def test_a_collection_shows_only_its_runs(archive: RunStore) -> None:
    archive.add("c1", [RUN], [FULL_RECORD])
    assert archive.record("e1", "c1") == FULL_RECORD
    assert archive.record("e1", "c2") is None
    assert archive.transcript(TRANSCRIPT.id, "c2") is None
    assert archive.transcript(TRANSCRIPT.id, "c1") is not None
    for asked in (lambda: archive.runs("c9"), lambda: archive.add("c9", [RUN], []), lambda: archive.remove("c9", "r1")):
        with pytest.raises(NotFoundError, match="collection 'c9' not found; available: c1, c2"):
            asked()


def test_importing_twice_adds_nothing_and_another_collection_shares(archive: RunStore) -> None:
    batch = [make_record(n) for n in range(5)]
    assert archive.add("c1", [RUN], batch) == AddedCounts(new=5)
    assert archive.add("c1", [RUN], batch) == AddedCounts(same=5)
    assert archive.add("c2", [RUN], batch) == AddedCounts(same=5)
    assert counts(archive) == counts(archive, "c2") == {"r1": (5, 0, 5)}
    archive.remove("c1", "r1")
    assert counts(archive) == {}
    assert counts(archive, "c2") == {"r1": (5, 0, 5)}


def test_what_differs_is_replaced_in_its_place(archive: RunStore) -> None:
    archive.add("c1", [RUN], [FULL_RECORD, make_record(2), make_record(3)])
    poorer = FULL_RECORD.model_copy(update={"transcripts": (), "steps": (), "documents": FULL_RECORD.documents[:1]})
    graded = poorer.model_copy(update={"eval": poorer.eval.model_copy(update={"status": "passed"})})
    assert archive.add("c1", [], [make_record(3), graded, make_record(4)]) == AddedCounts(new=1, changed=1, same=1)
    assert list(archive.records("r1")) == [graded, make_record(2), make_record(3), make_record(4)]
    assert archive.transcript(TRANSCRIPT.id) is None
    assert counts(archive) == {"r1": (4, 0, 4)}


def test_names_have_one_order_on_both_engines_whatever_the_files(archive: RunStore) -> None:
    """A judge is shown them: in another order it would be asked, and paid, again."""
    inside = {"longer": [{"z": 1, "aa": 2}], "b": None}
    for given in (inside, dict(reversed(inside.items()))):
        call = TranscriptToolCall(function="f", arguments={"z": given, "ab": 1, "b": 2})
        said = AssistantMessage(content="", tool_calls=(call,), metadata={"z": 1, "aa": given})
        talk = Transcript(id="t", messages=(said,), metadata={"z": 1, "aa": given})
        last = archive.add("c1", [RUN], [make_record(1, metadata={"z": 1, "aa": given}, transcripts=(talk,))])
    assert last == AddedCounts(same=1)
    (found,) = archive.records(RUN.id)
    ordered = {"b": None, "longer": [{"aa": 2, "z": 1}]}
    assert json.dumps(found.metadata) == json.dumps({"aa": ordered, "z": 1})
    (talk,) = found.transcripts
    assert json.dumps([talk.metadata, talk.messages[0].metadata]) == json.dumps([{"aa": ordered, "z": 1}] * 2)
    assert isinstance(talk.messages[0], AssistantMessage)
    (call,) = talk.messages[0].tool_calls
    assert json.dumps(call.arguments) == json.dumps({"ab": 1, "b": 2, "z": ordered})


def test_a_run_is_counted_from_its_records_however_they_come(archive: RunStore) -> None:
    for n in range(40):
        archive.add("c1", [RUN] if n in (0, 7) else [], [make_record(n, STATUSES[n % 4]), make_record(n + 100)])
    assert counts(archive) == {"r1": (50, 20, 80)}


def test_a_source_that_counts_more_than_it_lists_is_believed_until_all_are_there(
    archive: RunStore, store: AnalysisStore
) -> None:
    told = RUN.model_copy(update={"passed": 2, "failed": 1, "total": 4})
    archive.add("c1", [told], [make_record(0, "failed")])
    assert counts(archive) == {"r1": (2, 1, 4)}
    assert (run := store.get_run("r1")) is not None
    assert run.evals is None
    archive.add("c1", [], [make_record(1), make_record(2)])
    assert counts(archive) == {"r1": (2, 1, 4)}
    archive.add("c1", [], [make_record(3, "incomplete"), make_record(4)])
    assert counts(archive) == {"r1": (3, 1, 5)}
    assert (run := store.get_run("r1")) is not None
    assert run.evals == tuple(f"a/{n:03d}" for n in range(5))


def test_a_batch_is_stored_whole_or_not_at_all(archive: RunStore) -> None:
    lost = make_record(1, run_id="r9")
    with pytest.raises(DataError, match="'r9' came without its run"):
        archive.add("c1", [RUN], [FULL_RECORD, lost])
    half = make_record(3).model_copy(update={"documents": (Document(role="log", path="p", text="\ud800"),)})
    with pytest.raises(DataError, match="an invalid character"):
        archive.add("c1", [RUN], [FULL_RECORD, half])
    assert archive.runs("c1") == ()
    assert archive.record("e1") is None


def test_equal_texts_are_stored_once(archive: RunStore, place: Path | str) -> None:
    archive.add("c1", [RUN], [make_record(n) for n in range(100)])
    archive.add("c1", [], [make_record(n) for n in range(100, 120)])
    database = open_database(place)
    with database.transaction() as connection:
        assert connection.scalar(select(func.count()).select_from(tables.texts)) == 1
        assert connection.scalar(select(func.count()).select_from(tables.documents)) == 120
    database.close()


def test_the_last_of_two_with_one_id_counts(archive: RunStore) -> None:
    assert archive.add("c1", [RUN], [make_record(1), make_record(1, "failed")]).new == 1
    assert counts(archive) == {"r1": (0, 1, 1)}


def test_records_are_read_page_by_page_in_order(archive: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    several = [make_record(n, STATUSES[n % 4]) for n in (5, 3, 9, 1, 7, 2, 8)]
    archive.add("c1", [RUN], several)
    for at_once in (1, 2, 7, 100):
        monkeypatch.setattr(records, "AT_ONCE", at_once)
        monkeypatch.setattr(records, "_NEXT", records._NEXT.limit(at_once))
        assert list(archive.records("r1")) == several
    assert list(archive.records("r1", "failed")) == [one for one in several if one.eval.status == "failed"]


def test_how_evals_were_graded(archive: RunStore) -> None:
    archive.add("c1", [RUN], [FULL_RECORD, make_record(2)])
    rich, plain = archive.graded("r1")
    assert rich.eval == FULL_RECORD.eval
    assert rich.scores == {"reward": 0.5, "tries": 3.0}
    assert rich.task == files_digest([Document(role="task", path="TASK.txt", text="do it\n")], "task")
    assert rich.grader is None
    assert (plain.eval, plain.scores) == (make_record(2).eval, {"reward": 1.0})


def test_a_run_that_was_only_analysed_shows_its_failures(archive: RunStore, store: AnalysisStore) -> None:
    failures = (Eval(id="x", category="a", name="1"), Eval(id="e1", category="a", name="2"))
    run = RUN.model_copy(update={"failures": failures, "failed": 2, "total": 9})
    store.put_run(run)
    found = Evidence(eval=failures[0], documents=(Document(role="task", path="t", text="do"),))
    store.put_evidence("r1", found)
    assert [one.eval for one in archive.graded("r1")] == list(failures)
    store.put_sightings("r1", [failure_record(run, found)])
    assert archive.graded("r1")[0].task == files_digest(found.documents, "task")
    assert archive.documents("r1", "x") == found.documents
    assert archive.record("x") is None
    assert list(archive.records("r1")) == []


def test_a_listed_failure_becomes_whole_and_keeps_what_was_gathered(archive: RunStore, store: AnalysisStore) -> None:
    listed = Eval(id="e1", category="a", name="one", reason="listed")
    store.put_run(RUN.model_copy(update={"failures": (listed, Eval(id="z", category="a", name="z"))}))
    gathered = Evidence(eval=listed, documents=(Document(role="log", path="l", text="boom"),))
    store.put_evidence("r1", gathered)
    assert archive.add("c1", [RUN], [make_record(2), FULL_RECORD]) == AddedCounts(new=2)
    assert list(archive.records("r1")) == [make_record(2), FULL_RECORD]
    assert store.get_evidence("r1", "e1") == gathered
    assert archive.documents("r1", "e1") == FULL_RECORD.documents
    assert (run := store.get_run("r1")) is not None
    assert [eval.id for eval in run.failures] == ["z", "e1"]
    assert run.failures[1] == FULL_RECORD.eval


def test_what_was_gathered_from_a_record_goes_with_it(archive: RunStore, store: AnalysisStore) -> None:
    archive.add("c1", [RUN], [FULL_RECORD])
    told = Document(role="transcript", path="main", text="user: hello")
    store.put_evidence("r1", Evidence(eval=FULL_RECORD.eval, documents=(*FULL_RECORD.documents, told)))
    assert archive.record("e1") == FULL_RECORD
    assert archive.documents("r1", "e1") == FULL_RECORD.documents
    archive.add("c1", [], [FULL_RECORD.model_copy(update={"missing": ()})])
    assert store.get_evidence("r1", "e1") is None


def test_analysing_an_imported_run_leaves_it_as_it_is(archive: RunStore, store: AnalysisStore) -> None:
    several = [make_record(n, STATUSES[n % 4]) for n in range(8)]
    archive.add("c1", [RUN], several)
    run = store.get_run("r1")
    assert run is not None
    assert [eval.status for eval in run.failures] == ["failed", "error"] * 2
    assert (run.passed, run.failed, run.total, len(run.evals or ())) == (2, 4, 8, 8)
    store.put_run(run.model_copy(update={"model": "renamed"}))
    assert store.get_run("r1") == run.model_copy(update={"model": "renamed"})
    assert list(archive.records("r1")) == several
    assert archive.add("c1", [RUN], several) == AddedCounts(same=8)


def test_numbers_that_json_has_none_for(archive: RunStore) -> None:
    odd = make_record(1, metadata={"scores": {"a": float("nan"), "b": float("inf"), "c": True}, "big": 10**30})
    archive.add("c1", [RUN], [odd])
    assert archive.graded("r1")[0].scores == {"c": 1.0}
    read = archive.record(odd.eval.id)
    assert read is not None
    assert read.metadata["big"] == 10**30


def test_nul_is_nowhere_in_what_users_read(archive: RunStore) -> None:
    talk = TRANSCRIPT.model_copy(update={"messages": (UserMessage(content="a\x00b \\u0000"),)})
    archive.add("c1", [RUN], [make_record(1, transcripts=(talk,), metadata={"a\x00": "\x00"})])
    read = archive.record("r1-1")
    assert read is not None
    assert read.transcripts[0].messages[0].content == "a\ufffdb \\u0000"
    assert read.metadata == {"a\ufffd": "\ufffd"}


OTHER = make_record(9, documents=(Document(role="log", path="l", text="other"),))


@pytest.mark.parametrize("name", ["metadata", "transcripts", "steps", "documents", "missing"])
def test_whatever_differs_is_stored(archive: RunStore, name: str) -> None:
    archive.add("c1", [RUN], [FULL_RECORD])
    changed = FULL_RECORD.model_copy(update={name: getattr(OTHER, name)})
    assert archive.add("c1", [], [changed]) == AddedCounts(changed=1)
    assert archive.record("e1") == changed
    reworded = changed.model_copy(update={"eval": changed.eval.model_copy(update={"reason": "another"})})
    assert archive.add("c1", [], [reworded, changed]) == AddedCounts(same=1)
    assert archive.add("c1", [], [reworded]) == AddedCounts(changed=1)


def test_agent_runs_are_listed_with_their_beginning_and_size(archive: RunStore) -> None:
    archive.add("c1", [RUN], [FULL_RECORD, make_record(2), make_record(3, transcripts=())])
    beginnings = archive.first_words("r1", ["e1", "r1-2", "r1-3", "nowhere"])
    assert beginnings == {"e1": "zeile\r\n\u2028 ünï", "r1-2": "hello 2"}
    sizes = archive.sizes("r1")
    assert set(sizes) == {"e1", "r1-2"}
    assert sizes["e1"] > 5000 > sizes["r1-2"] > 0


def test_places_of_agent_runs_by_id_and_by_run_and_path(archive: RunStore) -> None:
    for collection in ("c1", "c2"):
        archive.add(collection, [RUN], [FULL_RECORD, make_record(2)])
    places = archive.places(["e1", f"r1/{FULL_RECORD.eval.path}", "r1-2", "r1/none", "e9", "/"])
    assert set(places) == {"e1", f"r1/{FULL_RECORD.eval.path}", "r1-2"}
    assert places["e1"] == places[f"r1/{FULL_RECORD.eval.path}"]
    assert [place.collection_id for place in places["e1"]] == ["c1", "c2"]
    assert (places["e1"][0].run_id, places["e1"][0].transcripts) == ("r1", ("r1-e1-t", "r1-e1-u"))
