"""The analysis of a run as a graph. The CLI, MCP, the Python client and `langgraph dev` build the same graph.

    load ──▶ history ──▶ prepare ──Send──▶ judge 1…n ──▶ collate ──▶ write

Nodes call one stage and return. State holds ids, counts and status, never evidence. The store decides what is left to
judge, not the checkpoint, because LangGraph keeps the result of a branch only when the branch ends. Four workers take
failures from a shared queue and store each verdict at once, so nothing is lost when the process is killed. One branch
for each failure would lose finished verdicts and take quadratic time (95 s for 10,000 branches, 0.9 s here).
"""

import operator
import os
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from typing import Annotated, Literal, Protocol
from uuid import uuid4

from langchain_core.tracers.context import tracing_v2_callback_var
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import Send
from langsmith import tracing_context
from typing_extensions import TypedDict

from evalscribe.analysis.checkpoints import Saver, open_file_checkpoints
from evalscribe.ids import Frozen
from evalscribe.judging.verdicts import Counts, JudgeQueue
from evalscribe.model.finding import Finding
from evalscribe.model.run import Run
from evalscribe.reports.history import ReportHistory


def open_checkpoints(place: Path | str) -> AbstractAsyncContextManager[Saver]:
    """Open checkpoints in a file or at a postgresql:// address. Raises `EvalscribeError` if they cannot be opened."""
    if isinstance(place, Path):
        return open_file_checkpoints(place)
    from evalscribe.analysis.postgres_checkpoints import open_server_checkpoints

    return open_server_checkpoints(place)


ANCIENT_TRACERS = ("LANGCHAIN_TRACING", "LANGCHAIN_HANDLER")
"""Environment variables of a former tracer. langchain raises an error if one is set while tracing is off."""


class GraphInput(Frozen):
    """Context that a client of a LangGraph server sends, the same to start and to resume a thread."""

    run: str
    """A run's address or id, a snapshot folder, or `sample`."""
    judge: str | None = None
    """`rules` or `provider/model`; None for the configured judge."""
    rubric: str | None = None
    cascade: bool = False
    concurrency: int | None = None
    budget: float | None = None
    """Budget of this process, in US dollars."""


class WorkerRow(TypedDict):
    """Number of answers of one worker."""

    worker: int
    start: str
    """Id of the process that ran the worker: a resumed thread has workers of several processes."""
    counts: dict[str, int]


class GraphState(TypedDict, total=False):
    run_id: str
    failures: int
    earlier_reports: int
    judge: str
    groups: int
    workers: Annotated[list[WorkerRow], operator.add]
    counts: dict[str, int]
    findings: int
    status: Literal["nothing failed", "loaded", "judging", "stopped", "collated", "done"]
    reason: str
    """Reason why the workers stopped."""
    report: str
    """Path of the report, relative to the reports folder."""


class WorkerInput(TypedDict):
    """Input of one worker, sent with `Send`: only the worker's number, because failures come from the shared queue."""

    number: int


class AnalysisStages(Protocol):
    """The stages that the graph's nodes call. `RunAnalysis` implements them; tests use scripted ones.

    Each stage is computed once per process, when it is first needed. An analysis that another process resumes starts
    in the middle of the graph, so a stage runs the earlier stages that it needs.
    """

    async def load(self) -> Run:
        """Read the run. The graph ends here if nothing failed."""

    async def history(self) -> ReportHistory:
        """Read earlier reports on the model."""

    async def prepare(self) -> JudgeQueue:
        """Read and group the evidence of the failures."""

    async def collate(self) -> tuple[Finding, ...]:
        """Find what the findings have in common. Raises the error that stopped the workers, if any."""

    async def write(self) -> str | None:
        """Write the report. Returns the report's name, or None if nothing is written."""


def builder(stages: AnalysisStages) -> StateGraph[GraphState, GraphInput, GraphState, GraphState]:
    """Build the graph over the stages of one run. No node has a retry policy: models retry their own calls."""
    start = uuid4().hex

    async def load(state: GraphState) -> GraphState:  # noqa: ARG001  LangGraph requires this name
        run = await stages.load()
        return {"run_id": run.id, "failures": len(run.failures), "status": "loaded"}

    async def any_failure(state: GraphState) -> Literal["history", "__end__"]:
        return "history" if state["failures"] else "__end__"

    async def history(state: GraphState) -> GraphState:  # noqa: ARG001
        return {"earlier_reports": len((await stages.history()).reports)}

    async def prepare(state: GraphState) -> GraphState:  # noqa: ARG001
        queue = await stages.prepare()
        return {"judge": queue.judge.id, "groups": len(queue.groups), "status": "judging"}

    async def spread(_: GraphState) -> list[Send] | Literal["collate"]:
        queue = await stages.prepare()
        return [Send("judge", WorkerInput(number=number)) for number in range(1, queue.workers + 1)] or "collate"

    async def judge(state: WorkerInput, runtime: Runtime[GraphInput]) -> GraphState:
        queue = await stages.prepare()
        counts = await queue.work(lambda event: runtime.stream_writer(event.summary))
        return {"workers": [WorkerRow(worker=state["number"], start=start, counts=counts.model_dump())]}

    async def collate(state: GraphState) -> GraphState:
        queue = await stages.prepare()
        counts = total_counts(state.get("workers", [])).model_dump()
        if queue.error is not None:
            return {"counts": counts, "status": "stopped", "reason": str(queue.error)}
        return {"counts": counts, "findings": len(await stages.collate()), "status": "collated"}

    async def not_stopped(state: GraphState) -> Literal["write", "__end__"]:
        return "__end__" if state["status"] == "stopped" else "write"

    async def write(state: GraphState) -> GraphState:  # noqa: ARG001
        name = await stages.write()
        return {"status": "done"} if name is None else {"status": "done", "report": name}

    graph = StateGraph(GraphState, context_schema=GraphInput)
    graph.add_node("load", load)
    graph.add_node("history", history)
    graph.add_node("prepare", prepare)
    graph.add_node("judge", judge)
    graph.add_node("collate", collate)
    graph.add_node("write", write)
    graph.add_edge(START, "load")
    graph.add_conditional_edges("load", any_failure, ["history", END])
    graph.add_edge("history", "prepare")
    graph.add_conditional_edges("prepare", spread, ["judge", "collate"])
    graph.add_edge("judge", "collate")
    graph.add_conditional_edges("collate", not_stopped, ["write", END])
    graph.add_edge("write", END)
    return graph


def total_counts(rows: list[WorkerRow]) -> Counts:
    """Return the counts of the process that answered the most groups.

    A process that resumes an analysis counts earlier verdicts as cached, so the counts of processes are not added up.
    """
    starts: dict[str, Counts] = {}
    for row in rows:
        starts[row["start"]] = starts.get(row["start"], Counts()) + Counts(**row["counts"])
    return max(starts.values(), key=lambda counts: counts.total, default=Counts())


async def run_graph(stages: AnalysisStages, thread: str, place: Path | str) -> Counts:
    """Run the graph to its end, with checkpoints in a file or a database. Returns the number of groups by outcome.

    Drops the checkpoints of a killed process: it may have had another number of workers, and both would be counted.
    Raises `EvalscribeError` for an error that concerns all failures.
    """
    async with open_checkpoints(place) as saver:
        await saver.adelete_thread(thread)
        graph = builder(stages).compile(checkpointer=saver, name="evalscribe")
        with untraced():
            state = await graph.ainvoke({}, {"configurable": {"thread_id": thread}})
    if state["status"] == "stopped":
        (await stages.prepare()).findings()
    return Counts(**state.get("counts", {}))


@contextmanager
def untraced() -> Iterator[None]:
    """Keep LangGraph from uploading its state, even with `LANGSMITH_TRACING=true` in the environment."""
    hidden = {name: os.environ.pop(name) for name in ANCIENT_TRACERS if name in os.environ}
    token = tracing_v2_callback_var.set(None)
    try:
        with tracing_context(enabled=False):
            yield
    finally:
        tracing_v2_callback_var.reset(token)
        os.environ.update(hidden)
