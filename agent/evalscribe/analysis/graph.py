"""The analysis of a run as a graph. The CLI, MCP, the Python client and `langgraph dev` build the same graph.

    load ──▶ history ──▶ prepare ──Send──▶ judge 1…n ──▶ collate ──▶ write

Nodes call one stage and return. State holds ids, counts and status, never evidence. The store, not the checkpoint,
shows which failures are still to be judged, because LangGraph only saves the result of a branch when the branch ends.
Four workers take failures from a shared queue and store each verdict at once, so no verdict is lost when the process is
killed. With one branch for each failure, finished verdicts would be lost, and the time would be quadratic (95 s for
10,000 failures, compared with 0.9 s here).
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
    """Context that a client of a LangGraph server sends to start a thread, and sends again to resume it."""

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
    """Number of failures that one worker answered, by outcome."""

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
    """Reason why the workers stopped."""
    report: str
    """Path of the report, relative to the reports folder."""


class WorkerInput(TypedDict):
    """Input of one worker, sent with `Send`: only the worker's number, because failures come from the shared queue."""

    number: int


class AnalysisStages(Protocol):
    """The stages that the graph's nodes call. `RunAnalysis` implements them; tests use scripted ones.

    A process computes each stage only once, when the stage is first needed. If a process resumes another process's
    analysis, it starts in the middle of the graph. Each stage therefore runs the earlier stages that it needs.
    """

    async def load(self) -> Run:
        """Read the run. If nothing failed, the graph ends after this stage."""

    async def history(self) -> ReportHistory:
        """Read earlier reports on the model."""

    async def prepare(self) -> JudgeQueue:
        """Read the evidence of the failures, group them, and queue the groups."""

    async def collate(self) -> tuple[Finding, ...]:
        """Compare the findings with each other and with earlier reports.

        Raises the error that stopped the workers, if any.
        """

    async def write(self) -> str | None:
        """Write the report. Returns the report's name, or None if nothing is written."""


def builder(stages: AnalysisStages) -> StateGraph[GraphState, GraphInput, GraphState, GraphState]:
    """Build the graph for the stages of one run. Nodes have no retry policy, because models retry their own calls."""
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

    The counts of several processes are not added up, because a process that resumes an analysis counts earlier verdicts
    again, as cached.
    """
    starts: dict[str, Counts] = {}
    for row in rows:
        starts[row["start"]] = starts.get(row["start"], Counts()) + Counts(**row["counts"])
    return max(starts.values(), key=lambda counts: counts.total, default=Counts())


async def run_graph(stages: AnalysisStages, thread: str, place: Path | str) -> Counts:
    """Run the graph to its end, with checkpoints in a file or a database, and return the number of groups by outcome.

    Checkpoints of a killed process are deleted first. That process may have had a different number of workers, and then
    the counts of both processes would be added up. Raises `EvalscribeError` for an error that affects all failures.
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
