"""What was done after earlier reports, followed into the runs that came later."""

from collections.abc import Iterable

from evalscribe.app.sightings import StoredSightings
from evalscribe.model.evidence import FailureFingerprint
from evalscribe.model.finding import Finding, FollowUp
from evalscribe.model.protocols import Library
from evalscribe.model.run import Run
from evalscribe.model.storage import Store
from evalscribe.reports.follow_ups import follow_ups
from evalscribe.reports.history import ReportHistory


def followed(
    store: Store,
    library: Library,
    run: Run,
    date: str,
    history: ReportHistory,
    findings: Iterable[Finding],
    seen: Iterable[FailureFingerprint],
) -> tuple[FollowUp, ...]:
    """What a run analysed on this date says of what was done after earlier reports of any model."""
    known = {one.eval_id: one for one in seen}
    others = tuple(library.all())
    return follow_ups(run, history.date or date, history, others, findings, known, StoredSightings(store))
