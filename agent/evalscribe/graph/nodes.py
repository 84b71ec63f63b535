"""Unpack, call, return. State holds ids, counts and status, plain JSON, never evidence."""

import operator
from typing import Annotated, Literal

from langgraph.runtime import Runtime
from langgraph.types import Send
from typing_extensions import TypedDict  # pydantic reads no other one before Python 3.12, and Studio shows it

from evalscribe.graph.deps import Counts
from evalscribe.graph.shift import Shift


class State(TypedDict, total=False):
    run_id: str
    judge: str
    groups: int
    lanes: Annotated[list[dict[str, int]], operator.add]
    """One row per finished lane: its `Counts`."""
    counts: dict[str, int]
    status: Literal["judging", "stopped", "done"]


class Turn(TypedDict):
    """What one lane is sent: it takes its groups from the shift."""

    lane: int


async def plan(state: State, runtime: Runtime[Shift]) -> State:  # noqa: ARG001  LangGraph asks for the name
    deps = runtime.context.deps
    return {"run_id": deps.run.id, "judge": deps.judge.id, "groups": len(deps.groups), "status": "judging"}


async def spread(state: State, runtime: Runtime[Shift]) -> list[Send] | Literal["tally"]:
    """A lane each for the first groups, never more than `concurrency`: the lanes take the rest as they get free."""
    lanes = min(max(1, runtime.context.deps.concurrency), state["groups"])
    return [Send("lane", Turn(lane=number)) for number in range(1, lanes + 1)] or "tally"


async def lane(state: Turn, runtime: Runtime[Shift]) -> State:
    shift, counts = runtime.context, Counts()
    while (group := await shift.take()) is not None:
        counts += await shift.answer(group)
    return {"lanes": [{"lane": state["lane"], **counts.model_dump()}]}


async def tally(state: State, runtime: Runtime[Shift]) -> State:
    rows = [{name: row[name] for name in Counts.model_fields} for row in state.get("lanes", [])]
    counts = sum((Counts(**row) for row in rows), Counts())
    return {"counts": counts.model_dump(), "status": "stopped" if runtime.context.error else "done"}
