"""A `ports.Source` over a run that is in the store already: imported whole, or analysed before."""

from evalscribe.errors import NotFoundError
from evalscribe.evidence import Evidence, Unreadable
from evalscribe.ports import Archive, Store
from evalscribe.record_evidence import evidence_of
from evalscribe.run import Eval, Run


class StoredSource:
    """Reads nothing but the store, so nothing is redacted twice."""

    def __init__(self, store: Store, archive: Archive, run_id: str) -> None:
        """Store and archive are closed by whoever opened them."""
        self._store = store
        self._archive = archive
        self._run_id = run_id

    async def run(self) -> Run:
        run = self._store.get_run(self._run_id)
        if run is None:
            raise NotFoundError(f"there is no run {self._run_id} in the store")
        return run

    async def evidence(self, eval: Eval) -> Evidence | Unreadable:
        """Of a record; where the eval was never imported, what an earlier analysis kept."""
        record = self._archive.record(eval.id, run_id=self._run_id)
        if record is not None:
            return evidence_of(record)
        kept = self._store.get_evidence(self._run_id, eval.id)
        return kept or Unreadable(eval=eval, reason="its evidence is not in the store")

    async def close(self) -> None:
        return None
