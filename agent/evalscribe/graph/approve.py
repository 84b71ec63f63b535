"""One question to a person: may this patch be committed? Asked by a graph, so that it outlives the process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

from evalscribe.graph.checkpoints import checkpoints, damaged
from evalscribe.graph.tracing import untraced
from evalscribe.ids import Frozen
from evalscribe.patch import Patch

NO_STATE = (AttributeError, LookupError, TypeError)
"""What LangGraph raises for a checkpoint that it did not write."""


class Consent(Frozen):
    """What a person says of one patch."""

    patch: str
    """Digest of the patch that was shown: an old yes never approves another one."""
    yes: bool


class Asked(TypedDict, total=False):
    patch: str
    run: str
    recommendation: str
    approved: bool


async def approve(state: Asked) -> Asked:
    question = {"patch": state["patch"], "run": state["run"], "recommendation": state["recommendation"]}
    answer = interrupt(question, response_schema=Consent)
    return {"approved": answer.yes and answer.patch == state["patch"]}


Approval = CompiledStateGraph[Asked, None, Asked, Asked]


def builder() -> StateGraph[Asked, None, Asked, Asked]:
    graph = StateGraph(Asked)
    graph.add_node("approve", approve)
    graph.add_edge(START, "approve")
    graph.add_edge("approve", END)
    return graph


async def put(patch: Patch, place: Path | str) -> bool:
    """Put the question about the patch that was just shown; whether another one stood for the same recommendation.

    That one is dropped with whatever somebody may still say to it.
    """
    async with _graph(place) as graph:
        stood = await _standing(graph, patch)
        if stood == patch.digest:
            return False
        if stood is not None:
            await _drop(graph, patch)
        question = Asked(patch=patch.digest, run=patch.run, recommendation=patch.recommendation)
        await graph.ainvoke(question, _thread(patch))
        return stood is not None


async def answered(patch: Patch, consent: Consent, place: Path | str) -> bool:
    """Whether the patch may be committed: the question stands, and this is a yes to this patch."""
    async with _graph(place) as graph:
        if await _standing(graph, patch) != patch.digest:
            return False
        state = await graph.ainvoke(Command(resume=consent.model_dump()), _thread(patch))
        return bool(state["approved"])


async def forget(patch: Patch, place: Path | str) -> None:
    """The question is settled: whoever wants the same patch again is asked anew."""
    async with _graph(place) as graph:
        await _drop(graph, patch)


async def _standing(graph: Approval, patch: Patch) -> str | None:
    """Digest of the patch that the recommendation's question is about; None where none waits for an answer."""
    state = await graph.aget_state(_thread(patch))
    return str(state.values["patch"]) if state.next else None


async def _drop(graph: Approval, patch: Patch) -> None:
    assert isinstance(graph.checkpointer, BaseCheckpointSaver)
    await graph.checkpointer.adelete_thread(_thread(patch)["configurable"]["thread_id"])


def _thread(patch: Patch) -> RunnableConfig:
    """One question at a time for each recommendation."""
    return {"configurable": {"thread_id": f"approve {patch.run} {patch.recommendation}"}}


@asynccontextmanager
async def _graph(place: Path | str) -> AsyncIterator[Approval]:
    try:
        async with checkpoints(place) as saver:
            with untraced():
                yield builder().compile(checkpointer=saver, name="approve")
    except NO_STATE as error:
        raise damaged(place, error) from error
