"""One start of the lanes over the groups of one run."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from evalscribe.graph.build import builder
from evalscribe.graph.checkpoints import checkpoints
from evalscribe.graph.deps import Counts, Deps, Outcome
from evalscribe.graph.saver import Saver
from evalscribe.graph.shift import Shift
from evalscribe.graph.tracing import untraced


async def judge_groups(deps: Deps, place: Path | str) -> Outcome:
    """Answer every group, at most `deps.concurrency` at once; what the store knows is not asked again.

    The store, not the checkpoint, decides what is left to do, so a start after a kill plans anew with whatever
    `concurrency` it has; the checkpoint tells where a run is. Raises `EvalscribeError` for what concerns all.
    """
    shift = Shift(deps)
    async with _saver(place, deps.run.id) as saver:
        graph = builder(shift).compile(checkpointer=saver, name="evalscribe")
        with untraced():
            state = await graph.ainvoke({}, {"configurable": {"thread_id": deps.run.id}})
    return shift.outcome(Counts(**state["counts"]))


@asynccontextmanager
async def _saver(place: Path | str, thread: str) -> AsyncIterator[Saver]:
    """Checkpoints of this start only: an earlier one's would add up with them."""
    async with checkpoints(place) as saver:
        await saver.adelete_thread(thread)
        yield saver
