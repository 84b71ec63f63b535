"""The analysis graph for a LangGraph server.

The file `langgraph.json` tells the server to open the graph with `make_graph`.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from langgraph_sdk.runtime import ServerRuntime

from evalscribe.analysis.analyze import open_analysis
from evalscribe.analysis.graph import GraphInput, builder
from evalscribe.judging.verdicts import JudgedGroup, JudgeQueue
from evalscribe.model.finding import Finding, Proof
from evalscribe.model.run import Run
from evalscribe.reports.history import ReportHistory
from evalscribe.settings import Options
from evalscribe.workspace import Workspace


@asynccontextmanager
async def make_graph(runtime: ServerRuntime[GraphInput]) -> AsyncIterator[Any]:
    """Compile the graph without a checkpointer, because the server has its own.

    Sometimes the server opens the graph only to display it; then there is no run to analyse.
    """
    execution = runtime.execution_runtime
    if execution is None:
        yield builder(StudioStages()).compile(name="evalscribe")
        return
    start = GraphInput.model_validate(execution.context)
    options = Options(judge=start.judge, concurrency=start.concurrency, budget=start.budget)
    async with (
        Workspace(options) as workspace,
        open_analysis(workspace, start.run, StudioWatcher(), rubric=start.rubric, cascade=start.cascade) as analysis,
    ):
        yield builder(analysis).compile(name="evalscribe")


class StudioStages:
    """Placeholder stages for a graph that is only displayed and never run."""

    async def load(self) -> Run:
        raise NotImplementedError

    async def history(self) -> ReportHistory:
        raise NotImplementedError

    async def prepare(self) -> JudgeQueue:
        raise NotImplementedError

    async def collate(self) -> tuple[Finding, ...]:
        raise NotImplementedError

    async def write(self) -> str | None:
        raise NotImplementedError


class StudioWatcher:
    """A watcher that ignores all events. Clients of the server read the events from the graph's stream instead."""

    def started(self, run: Run) -> None: ...
    def fetched(self, done: int, total: int) -> None: ...
    def replayed(self, proof: Proof, done: int, total: int) -> None: ...
    def judged(self, event: JudgedGroup) -> None: ...
    def imported(self, evals: int, progress: float) -> None: ...
    def say(self, line: str, fields: Sequence[str] = ()) -> None: ...
