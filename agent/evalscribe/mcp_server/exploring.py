"""The tool that asks a question of a whole collection."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from mcp.server.mcpserver import Context
from pydantic import Field

from evalscribe.ids import Frozen
from evalscribe.mcp_server import fields
from evalscribe.mcp_server.asking import Asking, asking
from evalscribe.mcp_server.page import NOTICE
from evalscribe.mcp_server.place import Place
from evalscribe.mcp_server.progress import Told, watched
from evalscribe.model.protocols import Estimate

if TYPE_CHECKING:
    from evalscribe.app.explorations.explore import Explored

MOST_CHARACTERS = 30_000
MOST_NAMED = 20


class ClusterLine(Frozen):
    name: str
    text: str
    agent_runs: int
    examples: tuple[str, ...]
    """Ids of evals, for get_eval."""


class ExploredCollection(Frozen):
    message: str
    explored: int = 0
    """Agent runs."""
    answer: str | None = None
    clusters: tuple[ClusterLine, ...] = ()
    """Of the most agent runs first."""
    nothing_seen_in: int = 0
    """Agent runs in which nothing speaks to the question."""
    unverified: int = 0
    """Observations that nothing holds up: they count for nothing."""
    notes: tuple[str, ...] = ()
    text: str = ""
    """The page as markdown, cut where it is long: then get_report reads the written one."""
    text_left_out: int = 0
    """Characters."""
    estimate: Estimate | None = None
    """What asking a model would take; null where nobody would be asked."""
    report: str | None = None
    """Its name below the reports folder; null where it was not written."""
    spent_usd: float = 0.0
    notice: str = NOTICE


@dataclass(frozen=True)
class Exploring:
    place: Place

    async def explore(
        self,
        question: Annotated[str, Field(min_length=1, description="What you want to know of many evals.")],
        ctx: Context,
        collection: fields.Collection = None,
        where: fields.Where = None,
        max_runs: Annotated[int | None, Field(ge=1, description="Read at most so many evals.")] = None,
        write_report: fields.WriteReport = False,
        judge: fields.Judge = None,
        budget_usd: fields.Budget = 0.0,
        max_tokens: fields.MaxTokens = None,
    ) -> ExploredCollection:
        """Ask a question of a whole collection: what is seen in its evals, clustered, named and counted, with
        quotations. Free by default: rules group failures by cause. With a model in `judge` and `budget_usd` every eval
        is read in batches and the question is answered; without a budget the estimate is told."""
        from evalscribe.app.explorations.explore import explore
        from evalscribe.workspace import Workspace

        asked = asking(judge, budget_usd, max_tokens, self.place.settings())
        with self.place.collection_of(collection) as (_, chosen):
            which = chosen.id

        async def work(told: Told) -> ExploredCollection:
            async with Workspace(asked.options()) as workspace:
                done = await explore(
                    workspace,
                    question,
                    told,
                    collection=which,
                    where=where,
                    max_runs=max_runs,
                    dry_run=asked.only_plans,
                    writes=write_report,
                )
                spent = sum(usage.cost_usd for usage in workspace.models.spent().values())
            answer = _answer(done, asked)
            return answer.model_copy(update={"spent_usd": spent, "notes": (*told.notes, *answer.notes)})

        return await watched(ctx, work)


def _answer(done: "Explored", asked: Asking) -> ExploredCollection:
    found = done.found
    if found is None:
        message = f"Nothing was asked: call again with budget_usd to ask {asked.judge}, or with judge `rules` for free."
        return ExploredCollection(message=message, estimate=done.estimate)
    clusters = tuple(
        ClusterLine(name=one.name, text=one.text, agent_runs=len(one.agent_runs), examples=one.agent_runs[:MOST_NAMED])
        for one in found.clusters
    )
    return ExploredCollection(
        message=f"{len(found.members)} agent runs were explored by {found.judge}.",
        explored=len(found.members),
        answer=found.answer,
        clusters=clusters,
        nothing_seen_in=len(found.silent),
        unverified=len(found.unverified),
        notes=found.notes,
        text=done.text[:MOST_CHARACTERS],
        text_left_out=max(0, len(done.text) - MOST_CHARACTERS),
        estimate=done.estimate,
        report=done.put.name if done.put else None,
    )
