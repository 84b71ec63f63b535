"""Behaviour of the store of analyses: in a file, on a server, and in memory as tests use it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from evalscribe.model.evidence import UnreadableEvidence
from evalscribe.model.finding import Finding, RunningAnalysis, Unclassified, Verdict
from evalscribe.model.repository import FileChange, Patch, StoredReport
from evalscribe.store.analyses import AnalysisStore, open_store
from support.analysis_graph import MemoryStore
from support.example_analyses import ANOTHER, BUSY, EVAL, EVIDENCE, LABEL, PROPOSAL, REFUSED, RUN, SIGHTING, VERDICT


@pytest.fixture(params=["file", "server", "memory"])
def any_store(request: pytest.FixtureRequest, folder: Path) -> Iterator[AnalysisStore]:
    place = request.getfixturevalue("server_url") if request.param == "server" else folder
    store: AnalysisStore = MemoryStore() if request.param == "memory" else open_store(place)
    yield store
    store.close()


def test_missing_values_are_none_or_empty(any_store: AnalysisStore) -> None:
    assert any_store.get_run("r") is None
    assert any_store.get_evidence("r", "e") is None
    assert any_store.get_verdict("k") is None
    assert any_store.get_report("r") is None
    assert any_store.proposal("k") is None
    assert any_store.sightings("r") == ()
    assert any_store.labels() == ()


def test_newer_value_replaces_the_older_one(any_store: AnalysisStore) -> None:
    any_store.put_evidence("r", UnreadableEvidence(eval=EVAL, reason="corrupt zip"))
    assert any_store.get_evidence("r", "e1") == UnreadableEvidence(eval=EVAL, reason="corrupt zip")
    any_store.put_evidence("r", EVIDENCE)
    assert any_store.get_evidence("r", "e1") == EVIDENCE
    any_store.put_run(RUN)
    any_store.put_run(RUN.model_copy(update={"passed": 7}))
    newest = any_store.get_run(RUN.id)
    assert newest is not None
    assert newest.passed == 7


def test_run_ids_are_found_by_prefix(any_store: AnalysisStore) -> None:
    for run_id in ("jn7b", "jn7a", "Jn7a", "x_1"):
        any_store.put_run(RUN.model_copy(update={"id": run_id}))
    assert any_store.run_ids("jn7") == ("jn7a", "jn7b")
    assert any_store.run_ids("x%") == ()
    assert len(any_store.run_ids()) == 4


def test_evidence_belongs_to_one_run(any_store: AnalysisStore) -> None:
    any_store.put_evidence("r1", EVIDENCE)
    assert any_store.get_evidence("r2", "e1") is None


@pytest.mark.parametrize(
    ("first", "later", "expected"),
    [
        pytest.param(VERDICT, BUSY, VERDICT, id="a paid verdict survives a failed second asking"),
        pytest.param(VERDICT, REFUSED, VERDICT, id="and a refusal"),
        pytest.param(BUSY, VERDICT, VERDICT, id="a verdict replaces a reason"),
        pytest.param(BUSY, REFUSED, REFUSED, id="a newer reason replaces an older"),
        pytest.param(VERDICT, ANOTHER, ANOTHER, id="fresh"),
    ],
)
def test_failed_attempt_never_replaces_a_verdict(
    any_store: AnalysisStore,
    first: Verdict | Unclassified,
    later: Verdict | Unclassified,
    expected: Verdict | Unclassified,
) -> None:
    any_store.put_verdict("k", first)
    any_store.put_verdict("k", later)
    assert any_store.get_verdict("k") == expected


def test_latest_report_is_returned(any_store: AnalysisStore) -> None:
    for text in ("one", "two"):
        any_store.put_report("r", StoredReport(path="a.md", text=text))
    assert any_store.get_report("r") == StoredReport(path="a.md", text="two")


def test_storing_failure_records_replaces_those_of_the_run_in_order(any_store: AnalysisStore) -> None:
    several = tuple(SIGHTING.model_copy(update={"eval_id": f"e{n}"}) for n in (2, 10, 1))
    any_store.put_sightings("r1", several)
    any_store.put_sightings("r2", [SIGHTING])
    assert any_store.sightings("r1") == several
    any_store.put_sightings("r1", several[1:])
    assert any_store.sightings("r1") == several[1:]
    any_store.put_sightings("r1", ())
    assert (any_store.sightings("r1"), any_store.sightings("r2")) == ((), (SIGHTING,))


def test_storing_labels_replaces_only_those_of_the_run(any_store: AnalysisStore) -> None:
    ben = LABEL.model_copy(update={"reviewer": "Ben", "in_force": False})
    other = LABEL.model_copy(update={"run": "r0"})
    any_store.put_labels({"r1": [LABEL, ben], "r0": [other]})
    assert any_store.labels() == (other, LABEL, ben)
    any_store.put_labels({"r1": [ben, LABEL]})
    assert any_store.labels() == (other, ben, LABEL)
    any_store.put_labels({"r1": ()})
    any_store.put_labels({})
    assert any_store.labels() == (other,)


def test_proposals_are_stored_by_key(any_store: AnalysisStore) -> None:
    any_store.put_proposal("k", PROPOSAL)
    assert any_store.proposal("k") == PROPOSAL
    newer = PROPOSAL.model_copy(update={"summary": "more"})
    any_store.put_proposal("k", newer)
    assert any_store.proposal("k") == newer


def make_patch(after: str = "b\n") -> Patch:
    change = FileChange(path="ruff.toml", before="a\n", after=after)
    return Patch(run="r", recommendation="R3", base="0" * 40, changes=(change,), summary="s", judge="p/m")


def test_requested_approval_is_taken_once(any_store: AnalysisStore) -> None:
    assert [any_store.request_approval(make_patch()) for _ in range(2)] == [False, False]
    assert any_store.take_approval(make_patch())
    assert not any_store.take_approval(make_patch()), "one yes is one answer"
    any_store.request_approval(make_patch())
    assert any_store.take_approval(make_patch()), "asked again, somebody may think otherwise"


def test_approval_cannot_be_taken_without_a_request(any_store: AnalysisStore) -> None:
    assert not any_store.take_approval(make_patch())


def test_approval_is_valid_for_one_patch_only(any_store: AnalysisStore) -> None:
    other = make_patch("c\n")
    any_store.request_approval(make_patch())
    assert not any_store.take_approval(other)
    assert any_store.request_approval(other), "another patch takes the question over"
    assert not any_store.take_approval(make_patch()), "what was agreed to is no longer asked"
    assert any_store.take_approval(other)


def test_dropped_approval_request_is_forgotten(any_store: AnalysisStore) -> None:
    any_store.request_approval(make_patch())
    any_store.drop_approval(make_patch())
    assert not any_store.request_approval(make_patch("c\n"))


def test_running_analysis_lists_its_findings_until_it_ends(any_store: AnalysisStore) -> None:
    begun = RunningAnalysis(run_id="r", provider="p", model="m", failures=3, started_at="2026-11-02", process=7)
    findings = [Finding(group=f"g{n}", evals=(EVAL,), verdict=verdict) for n, verdict in enumerate((VERDICT, BUSY))]
    any_store.put_running(begun)
    any_store.put_running(begun.model_copy(update={"run_id": "s"}))
    assert any_store.judged("r", 0, 10) == ()
    any_store.put_running(begun.model_copy(update={"judged": 1}), findings[:1])
    any_store.put_running(begun.model_copy(update={"judged": 2}), findings[1:], 2)
    assert [(analysis.run_id, analysis.judged) for analysis in any_store.running()] == [("r", 2), ("s", 0)]
    assert any_store.judged("r", 0, 10) == tuple(findings)
    assert any_store.judged("r", 1, 10) == tuple(findings[1:])
    assert any_store.judged("r", 0, 1) == tuple(findings[:1])
    any_store.end_running("r")
    assert any_store.judged("r", 0, 10) == ()
    assert [analysis.run_id for analysis in any_store.running()] == ["s"]
