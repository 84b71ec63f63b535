"""The failures of stored runs, and what other models' runs say of a failure."""

from collections import defaultdict
from collections.abc import Iterable

from evalscribe.evidence.same_failure import CompactFailure, CompleteRun, OtherRuns, compact_failure, complete_runs
from evalscribe.failures.prepare import RECORD_VERSION, failure_record
from evalscribe.ids import same_experiment
from evalscribe.model.evidence import FailureFingerprint, UnreadableEvidence
from evalscribe.model.run import Run
from evalscribe.model.storage import Store
from evalscribe.reports.history import PastReport


def sightings(store: Store, run: Run) -> tuple[FailureFingerprint, ...]:
    """One for each failure of a stored run; made from the stored evidence where they are missing or outdated."""
    known = store.sightings(run.id)
    if len(known) == len(run.failures) and all(one.method == RECORD_VERSION for one in known):
        return known
    made = tuple(
        failure_record(
            run, store.get_evidence(run.id, eval.id) or UnreadableEvidence(eval=eval, reason="not in the store")
        )
        for eval in run.failures
    )
    store.put_sightings(run.id, made)
    return made


def stored_runs(store: Store) -> Iterable[Run]:
    return (run for run_id in store.run_ids() if (run := store.get_run(run_id)) is not None)


def elsewhere(store: Store, run: Run, mine: Iterable[FailureFingerprint]) -> OtherRuns:
    """What the other runs of its experiment say of a run's failures. They are read one by one and not kept."""
    wanted = {sighting.eval for sighting in mine}
    clean: list[CompleteRun] = []
    failures: dict[str, list[CompactFailure]] = defaultdict(list)
    for other in stored_runs(store):
        if other.id == run.id or not other.experiment or not same_experiment(other.experiment, run.experiment):
            continue
        clean.extend(complete_runs(other))
        for one in sightings(store, other):
            if one.eval in wanted:
                failures[one.eval].append(compact_failure(one))
    return OtherRuns(failures, clean)


class StoredSightings:
    """The failure of an eval in the run of a report, where the store has it; each run is read once."""

    def __init__(self, store: Store | None) -> None:
        self._store = store
        self._ids = store.run_ids() if store else ()
        self._runs: dict[str, dict[str, FailureFingerprint]] = {}

    def __call__(self, report: PastReport, eval: str) -> FailureFingerprint | None:
        named = eval.partition("#")[0]
        known = (run_id for run_id in self._ids if report.is_of(run_id))
        return next((one for run_id in known if (one := self._of(run_id).get(named))), None)

    def _of(self, run_id: str) -> dict[str, FailureFingerprint]:
        if run_id not in self._runs:
            run = self._store.get_run(run_id) if self._store else None
            found = sightings(self._store, run) if self._store and run else ()
            self._runs[run_id] = {one.eval: one for one in found}
        return self._runs[run_id]
