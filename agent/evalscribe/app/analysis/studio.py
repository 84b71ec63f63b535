"""The graph for a server that drives it itself; `langgraph.json` names it. It judges failures and writes no report."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from langgraph_sdk.runtime import ServerRuntime

from evalscribe.app.analysis.failures import deps, docket, opened
from evalscribe.graph.build import builder
from evalscribe.graph.deps import Judged, Start
from evalscribe.graph.shift import Shift
from evalscribe.run import Run
from evalscribe.settings import Options
from evalscribe.workspace import Workspace


@asynccontextmanager
async def make_graph(runtime: ServerRuntime[Start]) -> AsyncIterator[Any]:
    """Without a checkpointer, because the server brings its own; over nothing where the graph is only looked at."""
    given = runtime.execution_runtime
    if given is None:
        yield builder(None).compile(name="evalscribe")
        return
    start = Start.model_validate(given.context)
    options = Options(judge=start.judge, concurrency=start.concurrency, budget=start.budget)
    async with Workspace(options) as workspace, _shift(workspace, start) as work:
        yield builder(work).compile(name="evalscribe")


@asynccontextmanager
async def _shift(workspace: Workspace, start: Start) -> AsyncIterator[Shift]:
    """What the lanes share, with the run locked and its evidence in the store. Raises `EvalscribeError`."""
    async with opened(workspace, start.run, Nobody(), rubric=start.rubric, cascade=start.cascade) as (analyst, source):
        run = await source.run()
        with workspace.store.analyses.lock(run.id):
            workspace.store.analyses.put_run(run)
            found = await docket(workspace, analyst, source, run, Nobody())
            workspace.store.analyses.put_sightings(run.id, found.sightings)
            yield Shift(deps(found, Nobody().judged))


class Nobody:
    """A watcher: whoever waits reads the stream."""

    def started(self, run: Run) -> None: ...
    def fetched(self, done: int, total: int) -> None: ...
    def judged(self, event: Judged) -> None: ...
    def imported(self, evals: int, progress: float) -> None: ...
    def say(self, line: str) -> None: ...
