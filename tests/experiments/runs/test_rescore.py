"""Rescoring of stored trials."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest

from evalscribe.errors import UsageError
from evalscribe.experiments.definitions import update_experiment
from evalscribe.experiments.worker import rescore_run
from evalscribe.model.experiment import ExperimentRun, ExperimentVersion
from evalscribe.model.score import ScoreQuery, ScoreResult, ScorerRequest, ScorerRunner
from evalscribe.model.target import TargetCall, TargetFailure, TargetReply
from evalscribe.workspace import Workspace
from support.scripted_experiments import EqualityScorer, ExperimentLab, ScriptedTarget, answer_key, binding

Labs = Callable[..., ExperimentLab]


class Kind(EqualityScorer):
    """Scorer that passes every trial."""

    async def score(self, request: ScorerRequest) -> ScoreResult:
        self.requests.append(request)
        return ScoreResult(value=1.0, passed=True, explanation="kind")


def show_nothing(_done: int, _total: int) -> None: ...


def open_runners(*scorers: ScorerRunner):  # type: ignore[no-untyped-def]
    @asynccontextmanager
    async def open(
        _workspace: Workspace, _run: ExperimentRun, _version: ExperimentVersion
    ) -> AsyncIterator[Sequence[ScorerRunner]]:
        yield scorers

    return open


def half(call: TargetCall) -> TargetReply | TargetFailure:
    if call.item_key == "k2":
        return TargetFailure(reason="no answer")
    return TargetReply(output=call.item_key if call.item_key == "k0" else "wrong")


async def test_rescoring_supersedes_scores_and_updates_verdicts(lab: Labs) -> None:
    one = lab(items=3)
    run = await one.work(one.run(), ScriptedTarget(half))
    before = one.workspace.store.experiment_runs.scores_digest(run.id)
    kind = Kind()
    seen: list[tuple[int, int]] = []
    result = await rescore_run(
        one.workspace, run, lambda *done: seen.append(done), reason="too strict", runners=open_runners(kind)
    )
    assert (result.tries, result.scores, result.changed, result.run.archived) == (3, 2, 1, True)
    assert seen == [(3, 3)]
    assert one.verdicts(run) == {"k0/1": "passed", "k1/1": "passed", "k2/1": "error"}
    current = list(one.workspace.store.experiment_runs.scores(ScoreQuery(run_id=run.id)))
    every = list(one.workspace.store.experiment_runs.scores(ScoreQuery(run_id=run.id, superseded=True)))
    assert [score.reason for score in current] == ["too strict", "too strict"]
    assert {score.supersedes for score in current} == {score.id for score in every if not score.current}
    assert len(every) == 4
    assert one.workspace.store.experiment_runs.scores_digest(run.id) != before
    (archived,) = one.workspace.store.runs.runs(one.experiment.collection_id)
    assert (archived.passed, archived.failed, archived.total) == (2, 1, 3)
    assert kind.requests[1].output == "wrong"
    assert kind.requests[1].expected == "k1"


async def test_rescoring_with_the_same_scorer_changes_no_verdict_and_keeps_history(lab: Labs) -> None:
    one = lab(items=2)
    run = await one.work(one.run(), ScriptedTarget(answer_key))
    for _ in range(2):
        result = await rescore_run(one.workspace, run, show_nothing, runners=open_runners(EqualityScorer()))
        assert result.changed == 0
    assert len(list(one.workspace.store.experiment_runs.scores(ScoreQuery(run_id=run.id, superseded=True)))) == 6
    assert len(list(one.workspace.store.experiment_runs.scores(ScoreQuery(run_id=run.id)))) == 2


async def test_rescoring_one_scorer_combines_with_stored_scores_of_the_others(lab: Labs) -> None:
    one = lab(items=1)
    update_experiment(
        one.workspace, one.experiment, one.wanted.model_copy(update={"bindings": (binding("equal"), binding("kind"))})
    )
    run = one.run(experiment=one.workspace.store.experiments.experiment("quality"))
    run = await one.work(run, ScriptedTarget(lambda _: TargetReply(output="wrong")), (EqualityScorer(), Kind("kind")))
    strict = EqualityScorer("kind")
    result = await rescore_run(
        one.workspace, run, show_nothing, scorers=("kind",), runners=open_runners(EqualityScorer(), strict)
    )
    assert (result.scores, one.verdicts(run)) == (1, {"k0/1": "failed"})
    with pytest.raises(UsageError, match="`scorer` 'nix' is not in version 2 of the experiment; scorers: equal, kind"):
        await rescore_run(one.workspace, run, show_nothing, scorers=("nix",), runners=open_runners())


async def test_rescoring_can_use_the_scorers_of_another_version(lab: Labs) -> None:
    one = lab(items=1)
    run = await one.work(one.run(), ScriptedTarget(lambda _: TargetReply(output="wrong")))
    update_experiment(one.workspace, one.experiment, one.wanted.model_copy(update={"bindings": (binding("kind"),)}))
    result = await rescore_run(one.workspace, run, show_nothing, version="2", runners=open_runners(Kind("kind")))
    assert (result.changed, one.verdicts(run)) == (1, {"k0/1": "passed"})


async def test_rescoring_a_queued_run_is_refused(lab: Labs) -> None:
    one = lab()
    with pytest.raises(UsageError, match="is queued"):
        await rescore_run(one.workspace, one.run(), show_nothing, runners=open_runners())
