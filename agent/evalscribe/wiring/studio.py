"""The graph for a server, which gives settings in place of live objects: what `langgraph.json` names."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from langgraph_sdk.runtime import ServerRuntime

from evalscribe.app.analysis.thread import Nobody, shift
from evalscribe.graph.build import builder
from evalscribe.graph.deps import Start
from evalscribe.settings import Options
from evalscribe.wiring import analysis as wiring


@asynccontextmanager
async def make_graph(runtime: ServerRuntime[Start]) -> AsyncIterator[Any]:
    """Without a checkpointer, because the server brings its own; over nothing where the graph is only looked at."""
    given = runtime.execution_runtime
    if given is None:
        yield builder(None).compile(name="evalscribe")
        return
    start = Start.model_validate(given.context)
    async with wiring.open_desk(_choice(start), Nobody()) as desk, shift(desk) as work:
        yield builder(work).compile(name="evalscribe")


def _choice(start: Start) -> wiring.Choice:
    options = Options(judge=start.judge, concurrency=start.concurrency, budget=start.budget)
    return wiring.Choice(run=start.run, rubric=start.rubric, cascade=start.cascade, options=options)
