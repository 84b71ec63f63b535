"""Compare two runs: whether they differ, and what was said of the items that changed."""

from collections.abc import Iterator, Sequence

from evalscribe.app.experiments.find import experiment_of, require_ended, run_named, version_of_run
from evalscribe.app.experiments.items import items_of
from evalscribe.errors import UsageError
from evalscribe.experiments.comparability import ComparedRun, ScoredTrial, build_compared_run
from evalscribe.experiments.compare import compare_experiment_runs
from evalscribe.experiments.run_text import short_value
from evalscribe.model.experiment import ExperimentRun
from evalscribe.model.experiment_storage import ScoreQuery
from evalscribe.model.run_comparison import ItemChange, ItemSide, RunComparison
from evalscribe.model.score import Score
from evalscribe.text import cut, one_line
from evalscribe.workspace import Workspace

MOST_EXPLAINED = 50
"""Changed items of a kind that are told with what was said of them."""
SAID_LENGTH = 160
OUTPUT_LENGTH = 120


def compare_runs(workspace: Workspace, base: str, candidate: str, *, allow_mismatch: bool = False) -> RunComparison:
    """Runs by id or name. Raises `UsageError` for one that has not ended and for one with itself, `NotFoundError`."""
    runs = [run_named(workspace, named) for named in (base, candidate)]
    for run in runs:
        require_ended(run, "it can be compared when it has ended")
    if runs[0].id == runs[1].id:
        raise UsageError(f"{base} and {candidate} are the same run, {runs[0].id}: compare it with another one")
    sides = [_side(workspace, run) for run in runs]
    found = compare_experiment_runs(sides[0], sides[1], allow_mismatch=allow_mismatch)
    kinds = ("regressed", "fixed", "flaky")
    return found.model_copy(
        update={kind: tuple(_explained(workspace, sides, getattr(found, kind), kind)) for kind in kinds}
    )


def _side(workspace: Workspace, run: ExperimentRun) -> ComparedRun:
    deployment = workspace.store.experiments.deployment(run.deployment_id) if run.deployment_id else None
    return build_compared_run(
        run,
        version_of_run(workspace, run),
        experiment_of(workspace, run).name,
        f"{deployment.name or deployment.id}, {deployment.build}" if deployment else None,
        items=items_of(workspace, run),
        tried=workspace.store.experiment_runs.items(run.id),
        scores=workspace.store.experiment_runs.scores(ScoreQuery(run_id=run.id)),
    )


def _explained(
    workspace: Workspace, sides: Sequence[ComparedRun], changed: Sequence[ItemChange], kind: str
) -> Iterator[ItemChange]:
    for number, one in enumerate(changed):
        if number >= MOST_EXPLAINED:
            yield one
            continue
        base = _told(workspace, sides[0], one, one.base, passed=kind == "regressed")
        candidate = _told(workspace, sides[1], one, one.candidate, passed=kind == "fixed")
        yield one.model_copy(update={"base": base, "candidate": candidate})


def _told(workspace: Workspace, side: ComparedRun, change: ItemChange, own: ItemSide, *, passed: bool) -> ItemSide:
    """By a try that ended as it is told, else by the first."""
    tries = side.scored(change.item)
    seen = next((one for one in tries if (one.verdict == "passed") == passed), tries[0])
    scores = tuple(workspace.store.experiment_runs.scores(ScoreQuery(run_id=side.run.id, run_item_id=seen.id)))
    attempt = workspace.store.experiment_runs.attempt(seen.id)
    said = "; ".join(f"{score.scorer}: {score.explanation}" for score in _telling(scores, seen, change))
    output = None if attempt is None else short_value(attempt.output, OUTPUT_LENGTH)
    return own.model_copy(update={"said": cut(one_line(said), SAID_LENGTH) or None, "output": output})


def _telling(scores: Sequence[Score], seen: ScoredTrial, change: ItemChange) -> Sequence[Score]:
    """Required scorers that failed a try; of one that passed those that differ between the sides."""
    failed = [score for score in scores if score.required and score.passed is False]
    return failed if seen.verdict == "failed" and failed else [one for one in scores if one.scorer in change.scorers]
