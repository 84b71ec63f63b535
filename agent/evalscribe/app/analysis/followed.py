"""What was done after earlier reports, followed into the runs that came later."""

from collections.abc import Iterable

from evalscribe.app.sightings import StoredSightings
from evalscribe.finding import Finding
from evalscribe.pattern import FollowUp
from evalscribe.ports import Library, Store
from evalscribe.recall import History, follow_ups
from evalscribe.run import Run
from evalscribe.sighting import Sighting


def followed(
    store: Store,
    library: Library,
    run: Run,
    date: str,
    history: History,
    findings: Iterable[Finding],
    seen: Iterable[Sighting],
) -> tuple[FollowUp, ...]:
    """What a run analysed on this date says of what was done after earlier reports of any model."""
    known = {one.eval_id: one for one in seen}
    others = tuple(library.all())
    return follow_ups(run, history.date or date, history, others, findings, known, StoredSightings(store))
