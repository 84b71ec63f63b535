"""Every try of a run with what was asked, expected, answered and scored, one after the other."""

from collections.abc import Iterator

from evalscribe.app.experiments.inspect import told
from evalscribe.app.experiments.kept import PlannedTry, planned_tries
from evalscribe.experiment import ExperimentRun
from evalscribe.run_summary import ToldTry
from evalscribe.workspace import Workspace


def tries(workspace: Workspace, run: ExperimentRun) -> Iterator[ToldTry]:
    """In the order of the dataset, then by repetition; those that were never made too. One in memory at a time."""
    return map(_told, planned_tries(workspace, run))


def _told(one: PlannedTry) -> ToldTry:
    item = one.item
    if one.kept is not None:
        return told(one.kept.attempt, one.kept.scores, split=item.split, asked=(item.input, item.expected_output))
    return ToldTry(
        item_key=item.key,
        repetition=one.repetition,
        split=item.split,
        verdict="missing",
        input=item.input,
        expected_output=item.expected_output,
    )
