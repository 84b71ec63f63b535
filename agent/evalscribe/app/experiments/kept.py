"""The tries of a run as they are stored, each with its item and its scores."""

from collections.abc import Iterator
from typing import NamedTuple

from evalscribe.app.experiments.desk import ExperimentDesk
from evalscribe.dataset import Item
from evalscribe.experiment import Attempt, ExperimentRun
from evalscribe.ports import ScoreQuery
from evalscribe.score import Score


class KeptTry(NamedTuple):
    item: Item
    attempt: Attempt
    scores: tuple[Score, ...]
    """The current ones, in the order they were made."""


def kept_tries(desk: ExperimentDesk, run: ExperimentRun) -> Iterator[KeptTry]:
    """In the order of the dataset, then by repetition; a page of each in memory at a time."""
    items = desk.datasets.items(run.dataset_version_id)
    item = next(items, None)
    scored = _by_try(desk.runs.scores(ScoreQuery(run_id=run.id)))
    its = next(scored, None)
    for attempt in desk.runs.attempts(run.id):
        while item is not None and item.key != attempt.item.item_key:
            item = next(items, None)
        assert item is not None, "a version's items never change"
        scores: tuple[Score, ...] = ()
        if its is not None and its[0].run_item_id == attempt.item.id:
            scores, its = its, next(scored, None)
        yield KeptTry(item, attempt, scores)


def _by_try(scores: Iterator[Score]) -> Iterator[tuple[Score, ...]]:
    """Those of one try stand together."""
    its: list[Score] = []
    for score in scores:
        if its and its[0].run_item_id != score.run_item_id:
            yield tuple(its)
            its = []
        its.append(score)
    if its:
        yield tuple(its)
