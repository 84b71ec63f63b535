"""What the store has of one eval: its record as it was imported, or its evidence in the shape of one."""

from evalscribe.model.evidence import Evidence
from evalscribe.model.record import Record
from evalscribe.model.storage import EvalStore, Store


def kept(archive: EvalStore, store: Store, run_id: str, eval_id: str) -> Record | None:
    """None where nothing was kept, or nothing that can be read."""
    record = archive.record(eval_id, run_id=run_id)
    if record is not None:
        return record
    evidence = store.get_evidence(run_id, eval_id)
    if not isinstance(evidence, Evidence):
        return None
    return Record(
        run_id=run_id,
        eval=evidence.eval,
        steps=evidence.steps,
        documents=evidence.documents,
        missing=evidence.missing,
    )
