"""Scores of runs, and the exact material that one rests on."""

from collections.abc import Iterator, Sequence

from pydantic import JsonValue

from evalscribe.app.experiments.desk import ExperimentDesk
from evalscribe.app.experiments.find import run_named
from evalscribe.errors import NotFoundError, UsageError
from evalscribe.ids import Frozen
from evalscribe.ports import ScoreQuery
from evalscribe.score import Score

PARTS = ("scorer_input", "scorer_output", "evidence")


class ShownScore(Frozen):
    """A score with what was asked of its evidence."""

    score: Score
    parts: dict[str, JsonValue]
    """By name; null where there is none."""
    metadata: dict[str, JsonValue]


def scores(desk: ExperimentDesk, query: ScoreQuery) -> Iterator[Score]:
    """`query.run_id` may be a name. Raises `NotFoundError` for a run or a run item that there is not."""
    if query.run_id is not None:
        query = query.model_copy(update={"run_id": run_named(desk, query.run_id).id})
    if query.run_item_id is not None and desk.runs.attempt(query.run_item_id) is None:
        raise NotFoundError(f"there is no run item {query.run_item_id!r}; `evalscribe reports failures RUN` shows some")
    if query.scorer is not None and (known := desk.definitions.scorer(query.scorer)) is not None:
        query = query.model_copy(update={"scorer": known.id})
    return desk.runs.scores(query)


def evidence(desk: ExperimentDesk, score_id: str, include: Sequence[str]) -> ShownScore:
    """Raises `UsageError` for a part that there is not, `NotFoundError` for the score."""
    if unknown := [part for part in include if part not in PARTS]:
        raise UsageError(f"--include {unknown[0]!r} is none of {', '.join(PARTS)}")
    score, found = desk.runs.score(score_id), desk.runs.evidence(score_id)
    if score is None or found is None:
        raise NotFoundError(
            f"there is no score {score_id!r}; `evalscribe scores list --run-id RUN` shows what there is"
        )
    said = found.scorer_output if found.scorer_output is not None else _returned(score)
    shown = {"scorer_input": found.scorer_input, "scorer_output": said, "evidence": found.evidence}
    parts = {part: shown[part] for part in PARTS if part in include}
    return ShownScore.model_construct(score=score, parts=parts, metadata=found.metadata)


def _returned(score: Score) -> JsonValue:
    """The answer of a scorer that has no raw one, such as a model's: what it returned."""
    told = score.model_dump(mode="json", include={"status", "value", "passed", "label", "explanation", "error_type"})
    return {name: value for name, value in told.items() if value is not None}
