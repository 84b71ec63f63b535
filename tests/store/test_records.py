"""Imported runs are stored once and read back unchanged, and their counts follow from their records."""

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
def run_store(place: Path | str) -> Iterator[RunStore]:
    collection_store = open_collections(place)
    for collection in (HERE, THERE):
        collection_store.add_collection(collection)
    collection_store.close()
    run_store = open_collection_records(place)
    yield run_store
    run_store.close()


def counts(run_store: RunStore, collection_id: str = "c1") -> dict[str, tuple[int, int, int]]:
    return {run.id: (run.passed, run.failed, run.total) for run in run_store.runs(collection_id)}


def test_records_are_read_as_they_were_stored(run_store: RunStore) -> None:
    assert run_store.add("c1", [RUN], [FULL_RECORD, make_record(2)]) == AddedCounts(new=2)
    assert run_store.record("e1") == FULL_RECORD
    assert list(run_store.records("r1")) == [FULL_RECORD, make_record(2)]
    assert list(run_store.records("r1", "passed")) == [make_record(2)]
    assert run_store.documents("r1", "e1") == FULL_RECORD.documents
    assert run_store.transcript(TRANSCRIPT.id) == FULL_RECORD.model_copy(update={"transcripts": (TRANSCRIPT,)})
    assert run_store.runs("c1") == (RUN.model_copy(update={"passed": 1, "failed": 1, "total": 2}),)


def test_run_keeps_its_figures_and_lists_incomplete_evals(run_store: RunStore, store: AnalysisStore) -> None:
    run = RUN.model_copy(update={"started_at": "2026-11-01T10:00:00Z", "duration_s": 12.5, "cost_usd": 0.25})
    cut_off = make_record(3).model_copy(
        update={"eval": make_record(3).eval.model_copy(update={"status": "incomplete"})}
    )
    run_store.add("c1", [run], [FULL_RECORD, make_record(2), cut_off])
    stored = store.get_run("r1")
    assert stored is not None
    assert (stored.started_at, stored.duration_s, stored.cost_usd) == ("2026-11-01T10:00:00Z", 12.5, 0.25)
    assert stored.incomplete_evals == (cut_off.eval.path,)


def test_unknown_ids_return_none_or_empty(run_store: RunStore) -> None:
    run_store.add("c1", [RUN], [FULL_RECORD])
    assert run_store.record("e9") is None
    assert run_store.transcript("t9") is None
    assert run_store.documents("r1", "e9") == ()
    assert list(run_store.records("r9")) == []
    assert run_store.graded("r9") == ()
    assert run_store.runs("c2") == ()


def test_eval_id_in_two_runs_is_resolved_by_run(run_store: RunStore) -> None:
    """A retried log keeps the ids of the samples that it took over."""
    again = FULL_RECORD.model_copy(update={"run_id": "r2"})
    run_store.add("c1", [RUN, RUN.model_copy(update={"id": "r2"})], [FULL_RECORD, again])
    assert run_store.record("e1") == run_store.record("e1", run_id="r1") == FULL_RECORD
    assert run_store.record("e1", run_id="r2") == again
    assert run_store.record("e1", "c2", run_id="r2") is None
    assert run_store.record("e1", run_id="r9") is None


def test_records_are_visible_only_in_their_collection(run_store: RunStore) -> None:
    run_store.add("c1", [RUN], [FULL_RECORD])
    assert run_store.record("e1", "c1") == FULL_RECORD
    assert run_store.record("e1", "c2") is None
    assert run_store.transcript(TRANSCRIPT.id, "c2") is None
    assert run_store.transcript(TRANSCRIPT.id, "c1") is not None
    for query in (
        lambda: run_store.runs("c9"),
        lambda: run_store.add("c9", [RUN], []),
        lambda: run_store.remove("c9", "r1"),
    ):
        with pytest.raises(NotFoundError, match="collection 'c9' not found; available: c1, c2"):
            query()


def test_second_import_adds_nothing_and_collections_share_a_run(run_store: RunStore) -> None:
    batch = [make_record(n) for n in range(5)]
    assert run_store.add("c1", [RUN], batch) == AddedCounts(new=5)
    assert run_store.add("c1", [RUN], batch) == AddedCounts(same=5)
    assert run_store.add("c2", [RUN], batch) == AddedCounts(same=5)
    assert counts(run_store) == counts(run_store, "c2") == {"r1": (5, 0, 5)}
    run_store.remove("c1", "r1")
    assert counts(run_store) == {}
    assert counts(run_store, "c2") == {"r1": (5, 0, 5)}


def test_changed_record_is_replaced_in_place(run_store: RunStore) -> None:
    run_store.add("c1", [RUN], [FULL_RECORD, make_record(2), make_record(3)])
    poorer = FULL_RECORD.model_copy(update={"transcripts": (), "steps": (), "documents": FULL_RECORD.documents[:1]})
    graded = poorer.model_copy(update={"eval": poorer.eval.model_copy(update={"status": "passed"})})
    assert run_store.add("c1", [], [make_record(3), graded, make_record(4)]) == AddedCounts(new=1, changed=1, same=1)
    assert list(run_store.records("r1")) == [graded, make_record(2), make_record(3), make_record(4)]
    assert run_store.transcript(TRANSCRIPT.id) is None
    assert counts(run_store) == {"r1": (4, 0, 4)}


def test_keys_are_ordered_alike_on_both_engines_for_any_input_order(run_store: RunStore) -> None:
    """A judge reads them. Another order would be another prompt, which would be paid for again."""
    inside = {"longer": [{"z": 1, "aa": 2}], "b": None}
    for value in (inside, dict(reversed(inside.items()))):
        call = TranscriptToolCall(function="f", arguments={"z": value, "ab": 1, "b": 2})
        message = AssistantMessage(content="", tool_calls=(call,), metadata={"z": 1, "aa": value})
        transcript = Transcript(id="t", messages=(message,), metadata={"z": 1, "aa": value})
        last = run_store.add("c1", [RUN], [make_record(1, metadata={"z": 1, "aa": value}, transcripts=(transcript,))])
    assert last == AddedCounts(same=1)
    (loaded,) = run_store.records(RUN.id)
    ordered = {"b": None, "longer": [{"aa": 2, "z": 1}]}
    assert json.dumps(loaded.metadata) == json.dumps({"aa": ordered, "z": 1})
    (transcript,) = loaded.transcripts
    assert json.dumps([transcript.metadata, transcript.messages[0].metadata]) == json.dumps(
        [{"aa": ordered, "z": 1}] * 2
    )
    assert isinstance(transcript.messages[0], AssistantMessage)
    (call,) = transcript.messages[0].tool_calls
    assert json.dumps(call.arguments) == json.dumps({"ab": 1, "b": 2, "z": ordered})


def test_run_counts_do_not_depend_on_the_order_of_records(run_store: RunStore) -> None:
    for n in range(40):
        run_store.add("c1", [RUN] if n in (0, 7) else [], [make_record(n, STATUSES[n % 4]), make_record(n + 100)])
    assert counts(run_store) == {"r1": (50, 20, 80)}


def test_source_counts_are_used_until_all_evals_are_listed(run_store: RunStore, store: AnalysisStore) -> None:
    summary = RUN.model_copy(update={"passed": 2, "failed": 1, "total": 4})
    run_store.add("c1", [summary], [make_record(0, "failed")])
    assert counts(run_store) == {"r1": (2, 1, 4)}
    assert (run := store.get_run("r1")) is not None
    assert run.evals is None
    run_store.add("c1", [], [make_record(1), make_record(2)])
    assert counts(run_store) == {"r1": (2, 1, 4)}
    run_store.add("c1", [], [make_record(3, "incomplete"), make_record(4)])
    assert counts(run_store) == {"r1": (3, 1, 5)}
    assert (run := store.get_run("r1")) is not None
    assert run.evals == tuple(f"a/{n:03d}" for n in range(5))


def test_batch_is_stored_completely_or_not_at_all(run_store: RunStore) -> None:
    lost = make_record(1, run_id="r9")
    with pytest.raises(DataError, match="belongs to run 'r9', which does not exist"):
        run_store.add("c1", [RUN], [FULL_RECORD, lost])
    half = make_record(3).model_copy(update={"documents": (Document(role="log", path="p", text="\ud800"),)})
    with pytest.raises(DataError, match="an invalid character"):
        run_store.add("c1", [RUN], [FULL_RECORD, half])
    assert run_store.runs("c1") == ()
    assert run_store.record("e1") is None


def test_equal_texts_are_stored_once(run_store: RunStore, place: Path | str) -> None:
    run_store.add("c1", [RUN], [make_record(n) for n in range(100)])
    run_store.add("c1", [], [make_record(n) for n in range(100, 120)])
    database = open_database(place)
    with database.transaction() as connection:
        assert connection.scalar(select(func.count()).select_from(tables.texts)) == 1
        assert connection.scalar(select(func.count()).select_from(tables.documents)) == 120
    database.close()


def test_last_record_with_a_repeated_id_is_stored(run_store: RunStore) -> None:
    assert run_store.add("c1", [RUN], [make_record(1), make_record(1, "failed")]).new == 1
    assert counts(run_store) == {"r1": (0, 1, 1)}


def test_records_are_read_in_order_at_any_page_size(run_store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    several = [make_record(n, STATUSES[n % 4]) for n in (5, 3, 9, 1, 7, 2, 8)]
    run_store.add("c1", [RUN], several)
    for at_once in (1, 2, 7, 100):
        monkeypatch.setattr(records, "AT_ONCE", at_once)
        monkeypatch.setattr(records, "_NEXT", records._NEXT.limit(at_once))
        assert list(run_store.records("r1")) == several
    assert list(run_store.records("r1", "failed")) == [record for record in several if record.eval.status == "failed"]


def test_graded_lists_scores_and_digests(run_store: RunStore) -> None:
    run_store.add("c1", [RUN], [FULL_RECORD, make_record(2)])
    rich, plain = run_store.graded("r1")
    assert rich.eval == FULL_RECORD.eval
    assert rich.scores == {"reward": 0.5, "tries": 3.0}
    assert rich.task == files_digest([Document(role="task", path="TASK.txt", text="do it\n")], "task")
    assert rich.grader is None
    assert (plain.eval, plain.scores) == (make_record(2).eval, {"reward": 1.0})


def test_analysed_run_lists_its_failures(run_store: RunStore, store: AnalysisStore) -> None:
    failures = (Eval(id="x", category="a", name="1"), Eval(id="e1", category="a", name="2"))
    run = RUN.model_copy(update={"failures": failures, "failed": 2, "total": 9})
    store.put_run(run)
    loaded = Evidence(eval=failures[0], documents=(Document(role="task", path="t", text="do"),))
    store.put_evidence("r1", loaded)
    assert [record.eval for record in run_store.graded("r1")] == list(failures)
    store.put_sightings("r1", [failure_record(run, loaded)])
    assert run_store.graded("r1")[0].task == files_digest(loaded.documents, "task")
    assert run_store.documents("r1", "x") == loaded.documents
    assert run_store.record("x") is None
    assert list(run_store.records("r1")) == []


def test_import_completes_a_listed_failure_and_keeps_its_evidence(run_store: RunStore, store: AnalysisStore) -> None:
    listed = Eval(id="e1", category="a", name="one", reason="listed")
    store.put_run(RUN.model_copy(update={"failures": (listed, Eval(id="z", category="a", name="z"))}))
    gathered = Evidence(eval=listed, documents=(Document(role="log", path="l", text="boom"),))
    store.put_evidence("r1", gathered)
    assert run_store.add("c1", [RUN], [make_record(2), FULL_RECORD]) == AddedCounts(new=2)
    assert list(run_store.records("r1")) == [make_record(2), FULL_RECORD]
    assert store.get_evidence("r1", "e1") == gathered
    assert run_store.documents("r1", "e1") == FULL_RECORD.documents
    assert (run := store.get_run("r1")) is not None
    assert [eval.id for eval in run.failures] == ["z", "e1"]
    assert run.failures[1] == FULL_RECORD.eval


def test_changed_record_discards_its_evidence(run_store: RunStore, store: AnalysisStore) -> None:
    run_store.add("c1", [RUN], [FULL_RECORD])
    summary = Document(role="transcript", path="main", text="user: hello")
    store.put_evidence("r1", Evidence(eval=FULL_RECORD.eval, documents=(*FULL_RECORD.documents, summary)))
    assert run_store.record("e1") == FULL_RECORD
    assert run_store.documents("r1", "e1") == FULL_RECORD.documents
    run_store.add("c1", [], [FULL_RECORD.model_copy(update={"missing": ()})])
    assert store.get_evidence("r1", "e1") is None


def test_analysis_does_not_change_an_imported_run(run_store: RunStore, store: AnalysisStore) -> None:
    several = [make_record(n, STATUSES[n % 4]) for n in range(8)]
    run_store.add("c1", [RUN], several)
    run = store.get_run("r1")
    assert run is not None
    assert [eval.status for eval in run.failures] == ["failed", "error"] * 2
    assert (run.passed, run.failed, run.total, len(run.evals or ())) == (2, 4, 8, 8)
    store.put_run(run.model_copy(update={"model": "renamed"}))
    assert store.get_run("r1") == run.model_copy(update={"model": "renamed"})
    assert list(run_store.records("r1")) == several
    assert run_store.add("c1", [RUN], several) == AddedCounts(same=8)


def test_numbers_without_a_json_form_are_omitted_from_scores(run_store: RunStore) -> None:
    odd = make_record(1, metadata={"scores": {"a": float("nan"), "b": float("inf"), "c": True}, "big": 10**30})
    run_store.add("c1", [RUN], [odd])
    assert run_store.graded("r1")[0].scores == {"c": 1.0}
    read = run_store.record(odd.eval.id)
    assert read is not None
    assert read.metadata["big"] == 10**30


def test_nul_is_replaced_in_transcripts_and_metadata(run_store: RunStore) -> None:
    transcript = TRANSCRIPT.model_copy(update={"messages": (UserMessage(content="a\x00b \\u0000"),)})
    run_store.add("c1", [RUN], [make_record(1, transcripts=(transcript,), metadata={"a\x00": "\x00"})])
    read = run_store.record("r1-1")
    assert read is not None
    assert read.transcripts[0].messages[0].content == "a\ufffdb \\u0000"
    assert read.metadata == {"a\ufffd": "\ufffd"}


OTHER = make_record(9, documents=(Document(role="log", path="l", text="other"),))


@pytest.mark.parametrize("name", ["metadata", "transcripts", "steps", "documents", "missing"])
def test_record_with_one_changed_field_is_stored(run_store: RunStore, name: str) -> None:
    run_store.add("c1", [RUN], [FULL_RECORD])
    changed = FULL_RECORD.model_copy(update={name: getattr(OTHER, name)})
    assert run_store.add("c1", [], [changed]) == AddedCounts(changed=1)
    assert run_store.record("e1") == changed
    reworded = changed.model_copy(update={"eval": changed.eval.model_copy(update={"reason": "another"})})
    assert run_store.add("c1", [], [reworded, changed]) == AddedCounts(same=1)
    assert run_store.add("c1", [], [reworded]) == AddedCounts(changed=1)


def test_agent_runs_have_first_words_and_sizes(run_store: RunStore) -> None:
    run_store.add("c1", [RUN], [FULL_RECORD, make_record(2), make_record(3, transcripts=())])
    beginnings = run_store.first_words("r1", ["e1", "r1-2", "r1-3", "nowhere"])
    assert beginnings == {"e1": "zeile\r\n\u2028 ünï", "r1-2": "hello 2"}
    sizes = run_store.sizes("r1")
    assert set(sizes) == {"e1", "r1-2"}
    assert sizes["e1"] > 5000 > sizes["r1-2"] > 0


def test_agent_runs_are_found_by_id_and_by_run_and_path(run_store: RunStore) -> None:
    for collection in ("c1", "c2"):
        run_store.add(collection, [RUN], [FULL_RECORD, make_record(2)])
    places = run_store.places(["e1", f"r1/{FULL_RECORD.eval.path}", "r1-2", "r1/none", "e9", "/"])
    assert set(places) == {"e1", f"r1/{FULL_RECORD.eval.path}", "r1-2"}
    assert places["e1"] == places[f"r1/{FULL_RECORD.eval.path}"]
    assert [place.collection_id for place in places["e1"]] == ["c1", "c2"]
    assert (places["e1"][0].run_id, places["e1"][0].transcripts) == ("r1", ("r1-e1-t", "r1-e1-u"))
