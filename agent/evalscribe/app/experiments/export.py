"""Every try of a run with what was asked, expected, answered and scored, one after the other."""

from collections.abc import Iterator
from itertools import groupby

from evalscribe.app.experiments.desk import ExperimentDesk
from evalscribe.app.experiments.inspect import told
from evalscribe.experiment import ExperimentRun
from evalscribe.ports import ScoreQuery
from evalscribe.run_summary import ToldTry


def tries(desk: ExperimentDesk, run: ExperimentRun) -> Iterator[ToldTry]:
    """In the order of the dataset, then by repetition; those that were never made too. One in memory at a time."""
    scores = groupby(desk.runs.scores(ScoreQuery(run_id=run.id)), key=lambda score: score.run_item_id)
    scored, of_item = next(scores, (None, iter(())))
    attempts = desk.runs.attempts(run.id)
    attempt = next(attempts, None)
    for item in desk.datasets.items(run.dataset_version_id):
        for repetition in range(1, run.repetitions + 1):
            made = attempt is not None and (attempt.item.item_key, attempt.item.repetition) == (item.key, repetition)
            if attempt is None or not made:
                yield ToldTry(
                    item_key=item.key,
                    repetition=repetition,
                    split=item.split,
                    verdict="missing",
                    input=item.input,
                    expected_output=item.expected_output,
                )
                continue
            found = tuple(of_item) if scored == attempt.item.id else ()
            yield told(attempt, found, split=item.split, asked=(item.input, item.expected_output))
            if found:
                scored, of_item = next(scores, (None, iter(())))
            attempt = next(attempts, None)
