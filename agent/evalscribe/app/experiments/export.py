"""Every try of a run with what was asked, expected, answered and scored, one after the other."""

from collections.abc import Iterator

from evalscribe.app.experiments.inspect import told
from evalscribe.app.experiments.kept import PlannedTry, planned_tries
from evalscribe.model.experiment import ExperimentRun, TrialDetail
from evalscribe.workspace import Workspace


def tries(workspace: Workspace, run: ExperimentRun) -> Iterator[TrialDetail]:
    """In the order of the dataset, then by repetition; those that were never made too. One in memory at a time."""
    return map(_told, planned_tries(workspace, run))


def _told(one: PlannedTry) -> TrialDetail:
    item = one.item
    if one.kept is not None:
        return told(one.kept.attempt, one.kept.scores, split=item.split, asked=(item.input, item.expected_output))
    return TrialDetail(
        item_key=item.key,
        repetition=one.repetition,
        split=item.split,
        verdict="missing",
        input=item.input,
        expected_output=item.expected_output,
    )
