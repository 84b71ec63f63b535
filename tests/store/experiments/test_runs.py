"""Runs of experiments with their trials and scores, in a file and on a server."""

import pytest

from evalscribe.errors import DataError, NotFoundError, UnavailableError, UsageError
from evalscribe.model.score import ScoreQuery
from evalscribe.store import experiment_runs
from evalscribe.store.experiment_runs import ExperimentRunStore
from evalscribe.text import NAME_LIMIT
from support.example_experiments import RUN, make_score, make_trial


def test_run_is_found_by_id_prefix_and_name(runs: ExperimentRunStore) -> None:
    assert runs.add(RUN) == RUN
    other = runs.add(RUN.model_copy(update={"id": "0123456789zzz", "experiment_id": "exp-2"}))
    assert runs.run(RUN.id) == RUN
    assert runs.run("pr-1") == RUN
    assert runs.run("pr-1-2") == other
    assert runs.run("0123456789a") == RUN
    assert runs.run("0123") is None
    assert runs.run("0123456_") is None
    assert runs.runs() == (RUN, other)
    assert runs.runs("exp-2") == (other,)
    with pytest.raises(UsageError, match=f"several runs begin with '01234567': {RUN.id}, {other.id}"):
        runs.run("01234567")


def test_duplicate_run_name_gets_the_first_free_suffix(runs: ExperimentRunStore) -> None:
    def named(name: str | None) -> str | None:
        return runs.add(RUN.model_copy(update={"id": f"{len(runs.runs()):020}", "name": name})).name

    assert [named("ci") for _ in range(3)] == ["ci", "ci-2", "ci-3"]
    assert [named("c%"), named("c_"), named("c%")] == ["c%", "c_", "c%-2"]
    long = "n" * NAME_LIMIT
    assert [named(long), named(long), named(long)] == [long, f"{long[:-2]}-2", f"{long[:-2]}-3"]
    assert (named(None), named(None)) == (None, None)


def test_ambiguous_run_name_is_refused(runs: ExperimentRunStore) -> None:
    runs.add(RUN)
    other = runs.add(RUN.model_copy(update={"id": "0123456789zzz"}))
    runs._change(other.id, name=RUN.name)
    with pytest.raises(UsageError, match=f"several runs are called 'pr-1', the newest last: {RUN.id} .*, {other.id} "):
        runs.run("pr-1")
    assert runs.run(other.id) is not None


def test_run_is_started_cancelled_archived_and_resumed(runs: ExperimentRunStore) -> None:
    runs.add(RUN)
    began = runs.begin(RUN.id, "here:1", "t1")
    assert (began.state, began.worker, began.started_at, began.heartbeat_at) == ("running", "here:1", "t1", "t1")
    assert runs.beat(RUN.id, "t2") is False
    runs.ask_cancel(RUN.id)
    assert runs.beat(RUN.id, "t3") is True
    ended = runs.end(RUN.id, "cancelled", "t4", "asked for")
    assert (ended.state, ended.ended_at, ended.reason) == ("cancelled", "t4", "asked for")
    runs.set_archived(RUN.id, True)
    runs.set_budget(RUN.id, 3.0)
    again = runs.begin(RUN.id, "here:2", "t5", resumed=True)
    assert (again.started_at, again.ended_at, again.reason, again.cancelling) == ("t1", None, None, False)
    assert (again.archived, again.budget_usd) == (False, 3.0)
    with pytest.raises(NotFoundError):
        runs.beat("nope", "t")


def test_starting_worker_keeps_an_earlier_cancel_request(runs: ExperimentRunStore) -> None:
    """The request can arrive after the worker has checked for one and before it starts the run."""
    runs.add(RUN)
    runs.ask_cancel(RUN.id)
    assert runs.begin(RUN.id, "here:1", "t1").cancelling
    assert runs.beat(RUN.id, "t2") is True


def test_run_is_claimed_by_one_process_at_a_time(runs: ExperimentRunStore) -> None:
    with runs.claim(RUN.id) as claimed, runs.claim(RUN.id) as again, runs.claim("other") as other:
        assert (claimed, again, other) == (True, False, True)


def test_trial_is_read_as_it_was_stored(runs: ExperimentRunStore) -> None:
    runs.add(RUN)
    trial = make_trial()
    bare = make_trial(1, output=None, transcript=None, state={}, log="")
    score, evidence = make_score(trial)
    runs.put(trial, [(score, evidence)])
    runs.put(bare, [])
    assert runs.attempt(trial.item.id) == trial
    assert list(runs.attempts(RUN.id)) == [trial, bare]
    assert list(runs.items(RUN.id)) == [trial.item, bare.item]
    assert list(runs.scores(ScoreQuery(run_id=RUN.id))) == [score]
    assert runs.score(score.id) == score
    assert runs.evidence(score.id) == evidence
    assert (runs.attempt("nope"), runs.score("nope"), runs.evidence("nope")) == (None, None, None)


def test_trial_is_stored_once(runs: ExperimentRunStore) -> None:
    trial = make_trial()
    runs.put(trial, [make_score(trial)])
    runs.put(make_trial(output="other"), [make_score(trial, id="score-2")])
    assert runs.attempt(trial.item.id) == trial
    assert len(list(runs.scores(ScoreQuery(run_id=RUN.id)))) == 1
    assert runs.done(RUN.id) == {("k0", 1)}
    assert runs.spent(RUN.id) == 0.75


def test_trials_are_listed_in_dataset_order(runs: ExperimentRunStore) -> None:
    for number, repetition in ((2, 1), (0, 2), (0, 1), (1, 1)):
        runs.put(make_trial(number, repetition), [])
    expected = [("k0", 1), ("k0", 2), ("k1", 1), ("k2", 1)]
    assert [(trial.item_key, trial.repetition) for trial in runs.items(RUN.id)] == expected
    assert runs.tally(RUN.id) == {"passed": 4}
    assert list(runs.items(RUN.id, ["failed"])) == []


def test_rescoring_supersedes_the_earlier_score(runs: ExperimentRunStore) -> None:
    runs.add(RUN)
    trial = make_trial()
    old, new = (
        make_score(trial)[0],
        make_score(trial, id="score-2", passed=False, value=0.0, supersedes=make_score(trial)[0].id),
    )
    runs.put(trial, [make_score(trial)])
    runs.set_archived(RUN.id, True)
    before = runs.scores_digest(RUN.id)
    runs.rescore(RUN.id, [new], {trial.item.id: "failed"})
    gone = old.model_copy(update={"current": False})
    assert list(runs.scores(ScoreQuery(run_id=RUN.id))) == [new[0]]
    assert list(runs.scores(ScoreQuery(run_id=RUN.id, superseded=True))) == [gone, new[0]]
    assert runs.tally(RUN.id) == {"failed": 1}
    assert runs.scores_digest(RUN.id) != before
    found = runs.run(RUN.id)
    assert found is not None
    assert not found.archived
    late = make_score(trial, id="score-3", supersedes=old.id)
    with pytest.raises(UnavailableError, match="superseded meanwhile"):
        runs.rescore(RUN.id, [late], {trial.item.id: "passed"})
    assert runs.tally(RUN.id) == {"failed": 1}


def test_scores_are_filtered(runs: ExperimentRunStore) -> None:
    runs.add(RUN)
    trial, two = make_trial(0), make_trial(1)
    runs.put(two, [make_score(two, "exact", created_at="2026-11-22"), make_score(two, "judge", passed=False)])
    runs.put(trial, [make_score(trial, "exact")])

    def ids(**fields: object) -> list[str]:
        return [score.id for score in runs.scores(ScoreQuery.model_validate(fields))]

    first, second, third = (
        make_score(of, name)[0].id for of, name in ((trial, "exact"), (two, "exact"), (two, "judge"))
    )
    assert ids() == ids(run_id=RUN.id) == [first, second, third]
    assert ids(run_item_id=two.item.id) == [second, third]
    assert ids(run_item_id="nope") == []
    assert ids(scorer="judge") == ids(passed=False) == ids(scorer_version_id="scv-judge") == [third]
    assert ids(status="error") == []
    assert ids(since="2026-11-22") == [second]
    assert ids(until="2026-11-22") == [first, third]


BAD = {
    "no number": float("nan"),
    "an invalid character": "\ud800",
    "half a name": [{"\udfff": 1}],
    "too long": 10**5000,
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_error_about_an_unstorable_value_names_its_item(runs: ExperimentRunStore, bad: object) -> None:
    with pytest.raises(DataError, match="output of item 'k0' cannot be stored"):
        runs.put(make_trial(output=bad), [])
    trial = make_trial()
    score, evidence = make_score(trial)
    with pytest.raises(DataError, match="evidence of scorer 'exact' for item 'k0' cannot be stored"):
        runs.put(trial, [(score, evidence.model_copy(update={"evidence": bad}))])
    assert runs.done(RUN.id) == frozenset()


def test_more_rows_than_one_page_are_read_in_order(runs: ExperimentRunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiment_runs, "PAGE", 2)
    monkeypatch.setattr(experiment_runs, "WHOLE_PAGE", 2)
    runs.add(RUN)
    trials = [make_trial(number, repetition) for number in range(3) for repetition in (1, 2)]
    for trial in trials:
        runs.put(trial, [make_score(trial, "exact"), make_score(trial, "judge"), make_score(trial, "length")])
    assert list(runs.items(RUN.id)) == [trial.item for trial in trials]
    assert list(runs.items(RUN.id, ["passed"])) == [trial.item for trial in trials]
    assert list(runs.attempts(RUN.id)) == trials
    expected = [make_score(trial, name)[0].id for trial in trials for name in ("exact", "judge", "length")]
    assert [score.id for score in runs.scores(ScoreQuery())] == expected
    assert [score.item_key for score in runs.scores(ScoreQuery(scorer="judge"))] == [
        trial.item.item_key for trial in trials
    ]
