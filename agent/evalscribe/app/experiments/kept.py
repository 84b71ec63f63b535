"""The tries of a run, each with its item and, where it was made, what is stored of it."""

from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

from evalscribe.app.experiments.items import items_of
from evalscribe.model.dataset import Item
from evalscribe.model.experiment import ExperimentRun, ItemTrial
from evalscribe.model.experiment_storage import ScoreQuery
from evalscribe.model.score import Score
from evalscribe.workspace import Workspace


class KeptTry(NamedTuple):
    item: Item
    attempt: ItemTrial
    scores: tuple[Score, ...]
    """The current ones, in the order they were made."""


class PlannedTry(NamedTuple):
    item: Item
    repetition: int
    """From 1."""
    kept: KeptTry | None
    """None where it was never made."""


def kept_tries(workspace: Workspace, run: ExperimentRun) -> Iterator[KeptTry]:
    """Those that were made, as `planned_tries` has them."""
    return (one.kept for one in planned_tries(workspace, run) if one.kept is not None)


def planned_tries(workspace: Workspace, run: ExperimentRun) -> Iterator[PlannedTry]:
    """In the order of the dataset, then by repetition; a page of each in memory at a time."""
    attempts = workspace.store.experiment_runs.attempts(run.id)
    attempt = next(attempts, None)
    scored = groupby(
        workspace.store.experiment_runs.scores(ScoreQuery(run_id=run.id)), key=lambda score: score.run_item_id
    )
    of_item, its = next(scored, (None, iter(())))
    for item in items_of(workspace, run):
        for repetition in range(1, run.repetitions + 1):
            if attempt is None or (attempt.item.item_key, attempt.item.repetition) != (item.key, repetition):
                yield PlannedTry(item, repetition, None)
                continue
            scores: tuple[Score, ...] = ()
            if of_item == attempt.item.id:
                scores = tuple(its)
                of_item, its = next(scored, (None, iter(())))
            yield PlannedTry(item, repetition, KeptTry(item, attempt, scores))
            attempt = next(attempts, None)
