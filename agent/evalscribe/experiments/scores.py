"""Scores of runs, and the evidence behind each."""

from collections.abc import Collection, Iterator, Sequence
from itertools import chain

from pydantic import JsonValue

from evalscribe.errors import NotFoundError, UsageError
from evalscribe.experiments.lookup import run_named, version_of_run
from evalscribe.ids import Frozen
from evalscribe.model.experiment_storage import ScoreQuery
from evalscribe.model.score import Binding, Score
from evalscribe.store.lookup import MOST_NAMED
from evalscribe.text import join_last
from evalscribe.workspace import Workspace

PARTS = ("scorer_input", "scorer_output", "evidence")


class ShownScore(Frozen):
    """A score with the requested parts of its evidence."""

    score: Score
    parts: dict[str, JsonValue]
    """By name; null if there is none."""
    metadata: dict[str, JsonValue]


def list_scores(workspace: Workspace, query: ScoreQuery) -> Iterator[Score]:
    """List scores. `query.run_id` may be a name.

    Raises:
        NotFoundError: The run or run item does not exist.
        UsageError: No score can match a filter.
    """
    wanted = _resolved(workspace, query)
    found = workspace.store.experiment_runs.scores(wanted)
    first = next(found, None)
    if first is not None:
        return chain((first,), found)
    _require_scorer(workspace, query, wanted)
    return found


def _resolved(workspace: Workspace, query: ScoreQuery) -> ScoreQuery:
    if query.since is not None and query.until is not None and query.since >= query.until:
        raise UsageError("--since must be before --until")
    if query.run_id is not None:
        query = query.model_copy(update={"run_id": run_named(workspace, query.run_id).id})
    if query.run_item_id is not None:
        query = query.model_copy(update={"run_id": _run_of_item(workspace, query)})
    if query.scorer is not None and (known := workspace.store.experiments.scorer(query.scorer)) is not None:
        query = query.model_copy(update={"scorer": known.id})
    return query


def _run_of_item(workspace: Workspace, query: ScoreQuery) -> str:
    attempt = workspace.store.experiment_runs.attempt(query.run_item_id or "")
    if attempt is None:
        raise NotFoundError(
            f"run item {query.run_item_id!r} not found; `evalscribe reports failures RUN` lists failed ones"
        )
    if query.run_id not in (None, attempt.item.run_id):
        raise UsageError(f"run item {query.run_item_id} belongs to run {attempt.item.run_id}, not to {query.run_id}")
    return attempt.item.run_id


def _require_scorer(workspace: Workspace, asked: ScoreQuery, query: ScoreQuery) -> None:
    """Check an empty result. Raises `UsageError`, listing the scorers of the run, if the scorer is not one of them."""
    bindings = _bindings(workspace, query.run_id)
    where = f"run {asked.run_id or query.run_id}" if query.run_id else "any run"
    named = {name for one in bindings for name in (one.spec.name, one.scorer_id)}
    if query.scorer is not None and query.scorer not in named:
        there = dict.fromkeys(one.spec.name for one in bindings)
        raise UsageError(f"--scorer-id {asked.scorer!r} is not a scorer of {where}; {_there(there)}")
    if query.scorer_version_id not in (None, *(one.spec.id for one in bindings)):
        there = dict.fromkeys(f"{one.spec.id} ({one.spec.name})" for one in bindings)
        raise UsageError(
            f"--scorer-version-id {query.scorer_version_id!r} is not a scorer version of {where}; {_there(there)}"
        )


def _bindings(workspace: Workspace, run_id: str | None) -> list[Binding]:
    """Return the bindings of the run's version, or of all runs."""
    runs = workspace.store.experiment_runs.runs() if run_id is None else [run_named(workspace, run_id)]
    versions = {run.experiment_version_id: run for run in runs}
    return [one for run in versions.values() for one in version_of_run(workspace, run).bindings]


def _there(names: Collection[str]) -> str:
    return f"scorers: {join_last(list(names), MOST_NAMED)}" if names else "nothing has run yet"


def score_evidence(workspace: Workspace, score_id: str, include: Sequence[str]) -> ShownScore:
    """Return a score with parts of its evidence.

    Raises `UsageError` for an unknown part, `NotFoundError` if the score does not exist.
    """
    if unknown := [part for part in include if part not in PARTS]:
        raise UsageError(f"--include {unknown[0]!r} is unknown; use one of {', '.join(PARTS)}")
    score, found = workspace.store.experiment_runs.score(score_id), workspace.store.experiment_runs.evidence(score_id)
    if score is None or found is None:
        raise NotFoundError(f"score {score_id!r} not found; `evalscribe scores list --run-id RUN` lists scores")
    said = found.scorer_output if found.scorer_output is not None else _returned(score)
    shown = {"scorer_input": found.scorer_input, "scorer_output": said, "evidence": found.evidence}
    parts = {part: shown[part] for part in PARTS if part in include}
    return ShownScore.model_construct(score=score, parts=parts, metadata=found.metadata)


def _returned(score: Score) -> JsonValue:
    """Return the result of a score as JSON, in place of a raw answer that the scorer does not have."""
    told = score.model_dump(mode="json", include={"status", "value", "passed", "label", "explanation", "error_type"})
    return {name: value for name, value in told.items() if value is not None}
