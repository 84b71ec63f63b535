"""Some of the tries of a run, for whoever reads them a page at a time."""

from collections.abc import Sequence

from evalscribe.app.experiments.inspect import told_try
from evalscribe.ids import Frozen
from evalscribe.model.experiment import ExperimentRun, ItemVerdict, TrialDetail
from evalscribe.workspace import Workspace


class Page(Frozen):
    """Which tries; none of the filters means all that were made."""

    verdicts: tuple[ItemVerdict, ...] = ()
    item: str | None = None
    """Key of an item."""
    offset: int = 0
    limit: int


def some_tries(workspace: Workspace, run: ExperimentRun, page: Page) -> tuple[Sequence[TrialDetail], int]:
    """In the order of the dataset, then by repetition; and how many there are on all pages."""
    total, chosen = 0, []
    for one in workspace.store.experiment_runs.items(run.id, page.verdicts):
        if page.item not in (None, one.item_key):
            continue
        if page.offset <= total < page.offset + page.limit:
            chosen.append(one.id)
        total += 1
    attempts = (workspace.store.experiment_runs.attempt(id) for id in chosen)
    return [told_try(workspace, run, attempt) for attempt in attempts if attempt is not None], total
