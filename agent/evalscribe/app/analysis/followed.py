"""What was done after earlier reports, followed into the runs that came later."""

from collections.abc import Iterable

from evalscribe.app.analysis.sightings import sightings
from evalscribe.finding import Finding
from evalscribe.pattern import FollowUp
from evalscribe.ports import Library, Store
from evalscribe.recall import History, PastReport, follow_ups
from evalscribe.run import Run
from evalscribe.sighting import Sighting


class StoredSightings:
    """The failure of an eval in the run of a report, where the store has it; each run is read once."""

    def __init__(self, store: Store | None) -> None:
        self._store = store
        self._ids = store.run_ids() if store else ()
        self._runs: dict[str, dict[str, Sighting]] = {}

    def __call__(self, report: PastReport, eval: str) -> Sighting | None:
        named = eval.partition("#")[0]
        known = (run_id for run_id in self._ids if report.is_of(run_id))
        return next((one for run_id in known if (one := self._of(run_id).get(named))), None)

    def _of(self, run_id: str) -> dict[str, Sighting]:
        if run_id not in self._runs:
            run = self._store.get_run(run_id) if self._store else None
            found = sightings(self._store, run) if self._store and run else ()
            self._runs[run_id] = {one.eval: one for one in found}
        return self._runs[run_id]


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
