"""Unpack, call, return. State holds ids, counts and status, plain JSON, never evidence."""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal

from langgraph.runtime import Runtime
from langgraph.types import Send
from typing_extensions import TypedDict  # pydantic reads no other one before Python 3.12, and Studio shows it

from evalscribe.graph.deps import Counts, Judged, Start
from evalscribe.graph.shift import Shift


class Row(TypedDict):
    """What one lane did."""

    lane: int
    shift: str
    """Which start it belonged to: a thread that goes on has lanes of several."""
    counts: dict[str, int]


class State(TypedDict, total=False):
    run_id: str
    judge: str
    groups: int
    lanes: Annotated[list[Row], operator.add]
    """One row per finished lane."""
    counts: dict[str, int]
    status: Literal["judging", "stopped", "done"]
    reason: str
    """What stopped the lanes."""


class Turn(TypedDict):
    """What one lane is sent: it takes its groups from the shift."""

    lane: int


@dataclass(frozen=True)
class Nodes:
    """What the nodes do, with the shift that they work on; None for a graph that is only looked at."""

    work: Shift | None

    @property
    def shift(self) -> Shift:
        assert self.work is not None, "a graph that is only looked at is not run"
        return self.work

    async def plan(self, state: State) -> State:  # noqa: ARG002  LangGraph asks for the name
        deps = self.shift.deps
        return {"run_id": deps.run.id, "judge": deps.judge.id, "groups": len(deps.groups), "status": "judging"}

    async def spread(self, state: State) -> list[Send] | Literal["tally"]:
        """A lane each for the first groups, never more than `concurrency`: the lanes take the rest as they get free."""
        lanes = min(max(1, self.shift.deps.concurrency), state["groups"])
        return [Send("lane", Turn(lane=number)) for number in range(1, lanes + 1)] or "tally"

    async def lane(self, state: Turn, runtime: Runtime[Start]) -> State:
        counts = Counts()
        while (group := await self.shift.take()) is not None:
            counts += await self.shift.answer(group, _streamed(runtime))
        return {"lanes": [Row(lane=state["lane"], shift=self.shift.id, counts=counts.model_dump())]}

    async def tally(self, state: State) -> State:
        counts = told(state.get("lanes", [])).model_dump()
        if self.shift.error is not None:
            return {"counts": counts, "status": "stopped", "reason": str(self.shift.error)}
        return {"counts": counts, "status": "done"}


def told(rows: list[Row]) -> Counts:
    """Of the start that answered most: where a thread went on, the last one met all that was answered before it."""
    starts: dict[str, Counts] = {}
    for row in rows:
        starts[row["shift"]] = starts.get(row["shift"], Counts()) + Counts(**row["counts"])
    return max(starts.values(), key=lambda counts: counts.total, default=Counts())


def _streamed(runtime: Runtime[Start]) -> Callable[[Judged], None]:
    """Whoever streams the thread sees each verdict as it comes."""
    return lambda event: runtime.stream_writer(event.told())
