"""Fetch the evidence of a run's failures a few at a time, store it, and keep only what triage needs."""

import asyncio
from collections.abc import Callable, Iterator

from evalscribe.gather.digest import likeness
from evalscribe.gather.pack import prepare
from evalscribe.gather.sighting import sighting
from evalscribe.ids import content_id
from evalscribe.model.evidence import Evidence, GatheredEvidence, UnreadableEvidence
from evalscribe.model.protocols import RunSource
from evalscribe.model.run import Eval, Run
from evalscribe.model.storage import Store
from evalscribe.signature.locate import signature

FETCHES = 8
"""How many evals are fetched at once."""


async def gather(
    source: RunSource, run: Run, store: Store, on_progress: Callable[[int, int], None] | None = None
) -> tuple[GatheredEvidence, ...]:
    """Every failed eval of the run, in its order; its evidence is then in the store and no longer in memory.

    `on_progress` hears how many of how many are done. Raises what concerns all evals: then no more are fetched, and
    those that were are stored.
    """
    gathered: dict[str, GatheredEvidence] = {}
    waiting = iter(run.failures)

    async def fetch() -> None:
        for eval in waiting:
            gathered[eval.id] = await _one(source, run, store, eval)
            if on_progress:
                on_progress(len(gathered), len(run.failures))

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(FETCHES, len(run.failures))):
                group.create_task(fetch())
    except BaseExceptionGroup as failed:
        raise next(_leaves(failed)) from None
    return tuple(gathered[eval.id] for eval in run.failures)


async def _one(source: RunSource, run: Run, store: Store, eval: Eval) -> GatheredEvidence:
    evidence = await source.evidence(eval)
    if isinstance(evidence, UnreadableEvidence) and isinstance(known := store.get_evidence(run.id, eval.id), Evidence):
        evidence = known  # evidence never changes, but stored files get deleted and deployments fail
    store.put_evidence(run.id, evidence)
    await asyncio.sleep(0)  # a source that never waits would keep signals waiting
    return gathered(evidence, run)


def gathered(evidence: Evidence | UnreadableEvidence, run: Run | None = None) -> GatheredEvidence:
    """Compute what the later stages need to know of one failed eval; without a run no sighting."""
    if isinstance(evidence, UnreadableEvidence):
        own = content_id(["unreadable", evidence.eval.id, evidence.reason])
        return GatheredEvidence(
            eval_id=evidence.eval.id, digest=own, likeness=own, sighting=sighting(run, evidence) if run else None
        )
    prepared = prepare(evidence)
    diagnosis = prepared.diagnosis
    return GatheredEvidence(
        eval_id=evidence.eval.id,
        digest=prepared.digest,
        likeness=likeness(evidence, prepared),
        signature=signature(evidence.eval.failed_step, diagnosis.located),
        sighting=sighting(run, evidence, diagnosis) if run else None,
        failed_step=evidence.eval.failed_step,
        missing=evidence.missing,
        prepared=prepared.compressed,
    )


def _leaves(failed: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in failed.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error
