"""The analysis of a run as a LangGraph graph.

The CLI, the MCP server, the Python client and `langgraph dev` all build the same graph.

    load ──▶ history ──▶ prepare ──Send──▶ judge 1…n ──▶ collate ──▶ write

Each node calls one stage and returns. The graph's state has ids, counts and a status, but no evidence. The store,
not the checkpoint, shows which failures are still to be judged, because LangGraph saves the result of a branch only
when the branch ends. By default, four workers take failures from a shared queue and store each verdict
immediately, so no verdict is lost if the process is killed. The alternative, a branch of the graph for each failure,
would lose finished verdicts. The time with branches would also grow with the square of the number of failures: 10,000
branches took 95 s, whereas the shared queue takes less than 1 s of CPU time for 5,000 failures.
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
"""Environment variables of a former LangChain tracer.

LangChain raises an error if one of these is set while tracing is off.
"""


class GraphInput(Frozen):
    """Context that a client of a LangGraph server sends to start a thread, and sends again to resume the thread."""

    run: str
    """Address or id of a run, a snapshot folder, or `sample`."""
    judge: str | None = None
    """The judge: `rules` or `provider/model`; None for the configured judge."""
    rubric: str | None = None
    cascade: bool = False
    concurrency: int | None = None
    budget: float | None = None
    """Maximum cost of the model calls of this process, in US dollars."""


# `TypedDict` comes from typing_extensions: before Python 3.12, pydantic cannot read the one from `typing`, and Studio
# would show no schema.
class WorkerRow(TypedDict):
    """Number of groups of failures that one worker handled, by outcome."""

    worker: int
    start: str
    """Random id of the process that ran the worker.

    If a LangGraph thread is resumed, its workers ran in different processes.
    """
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
    """Error that stopped the workers."""
    report: str
    """Path of the report, relative to the reports folder."""


class WorkerInput(TypedDict):
    """Input that LangGraph's `Send` passes to one worker.

    A worker only needs its number, because failures come from the shared queue.
    """

    number: int


class AnalysisStages(Protocol):
    """The stages that the graph's nodes call. `RunAnalysis` implements them; tests use a scripted implementation.

    A process computes each stage only once, when the stage is first needed. A process that resumes another
    process's analysis starts in the middle of the graph. Each stage therefore runs the earlier stages that it needs.
    """

    async def load(self) -> Run:
        """Read the run. If nothing failed, the graph ends after this stage."""

    async def history(self) -> ReportHistory:
        """Read earlier reports on the model."""

    async def prepare(self) -> JudgeQueue:
        """Read the evidence of the failures, group them, and queue the groups."""

    async def collate(self) -> tuple[Finding, ...]:
        """Compare the findings with each other and with earlier reports.

        If an error stopped the workers, that error is raised.
        """

    async def write(self) -> str | None:
        """Write the report. Returns the report's name, or None if nothing is written."""


def builder(stages: AnalysisStages) -> StateGraph[GraphState, GraphInput, GraphState, GraphState]:
    """Build the graph that runs the stages for one run.

    The nodes have no retry policy, because `llm.service` already retries model calls that fail temporarily.
    """
    # LangGraph runs plain functions in a thread pool. All nodes and routers are therefore coroutines, even those that
    # await nothing.
    start = uuid4().hex

    async def load(state: GraphState) -> GraphState:  # noqa: ARG001  LangGraph requires this name
        run = await stages.load()
        failures = len(run.failures)
        return {"run_id": run.id, "failures": failures, "status": "loaded" if failures else "nothing failed"}

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
    """Return the counts of the process that handled the most groups.

    The counts of different processes are not added up, because a process that resumes an analysis counts the verdicts
    of earlier processes again, as cached verdicts.
    """
    starts: dict[str, Counts] = {}
    for row in rows:
        starts[row["start"]] = starts.get(row["start"], Counts()) + Counts(**row["counts"])
    return max(starts.values(), key=lambda counts: counts.total, default=Counts())


async def run_graph(stages: AnalysisStages, thread: str, place: Path | str) -> Counts:
    """Run the graph to its end, with checkpoints in a file or a database, and return the number of groups by outcome.

    Raises `EvalscribeError` for an error that affects all failures.
    """
    async with open_checkpoints(place) as saver:
        # Start anew, because a checkpoint of an earlier release can name nodes that no longer exist. The store shows
        # which failures are still to be judged.
        await saver.adelete_thread(thread)
        graph = builder(stages).compile(checkpointer=saver, name="evalscribe")
        with untraced():
            state = await graph.ainvoke({}, {"configurable": {"thread_id": thread}})
    if state["status"] == "stopped":
        # This raises the error that stopped the workers. The graph only has its text.
        (await stages.prepare()).findings()
    return Counts(**state.get("counts", {}))


@contextmanager
def untraced() -> Iterator[None]:
    """Prevent LangGraph from uploading its state, even if `LANGSMITH_TRACING=true` is set in the environment."""
    hidden = {name: os.environ.pop(name) for name in ANCIENT_TRACERS if name in os.environ}
    # `tracing_context` turns LangSmith off. This variable holds a tracer that LangChain's `tracing_v2_enabled` opened.
    token = tracing_v2_callback_var.set(None)
    try:
        with tracing_context(enabled=False):
            yield
    finally:
        tracing_v2_callback_var.reset(token)
        os.environ.update(hidden)
