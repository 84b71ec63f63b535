"""A run's lanes for a server that drives the graph itself: the failures judged, no report written."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from evalscribe.app.analysis.desk import Desk
from evalscribe.app.analysis.failures import deps, docket
from evalscribe.graph.deps import Judged
from evalscribe.graph.shift import Shift
from evalscribe.run import Run


@asynccontextmanager
async def shift(desk: Desk) -> AsyncIterator[Shift]:
    """What the lanes share, with the run locked and its evidence in the store. Raises `EvalscribeError`."""
    run = await desk.source.run()
    with desk.store.lock(run.id):
        desk.store.put_run(run)
        found = await docket(desk, run, Nobody())
        desk.store.put_sightings(run.id, found.sightings)
        yield Shift(deps(found, Nobody().judged))


class Nobody:
    """A watcher: whoever waits reads the stream."""

    def started(self, run: Run) -> None: ...
    def fetched(self, done: int, total: int) -> None: ...
    def judged(self, event: Judged) -> None: ...
    def imported(self, evals: int, progress: float) -> None: ...
    def say(self, line: str) -> None: ...
