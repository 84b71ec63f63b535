"""The tool that judges by a rubric."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from mcp.server.mcpserver import Context
from pydantic import Field, JsonValue

from evalscribe.errors import UsageError
from evalscribe.ids import Frozen
from evalscribe.mcp_server import fields
from evalscribe.mcp_server.asking import asking
from evalscribe.mcp_server.page import NOTICE
from evalscribe.mcp_server.place import Place
from evalscribe.mcp_server.progress import Told, watched
from evalscribe.model.protocols import Estimate
from evalscribe.model.result import CitationCounts

if TYPE_CHECKING:
    from evalscribe.app.judging.judge import JudgeOutcome

MOST_CHARACTERS = 60_000


class JudgedSubject(Frozen):
    subject: str
    """An agent run's id, or `run id/eval name` of a failed eval."""
    judge: str
    label: dict[str, JsonValue]
    """The fields that judges are compared by."""
    output: dict[str, JsonValue]
    """In the rubric's own schema; what cites is `{"text", "citations"}`, each with its status."""
    problem: str | None
    """Why it could not be judged."""
    citations: CitationCounts
    known: bool
    """Whether it was known before, so that nobody was asked."""


class Judged(Frozen):
    rubric: str
    message: str
    results: tuple[JudgedSubject, ...] = ()
    results_left_out: int = 0
    """Beyond the size of one answer: table `judge_results` has all."""
    could_not_be_judged: int = 0
    estimate: Estimate | None = None
    """Where nobody was asked: what the model would take at most."""
    spent_usd: float = 0.0
    notes: tuple[str, ...] = ()
    notice: str = NOTICE.replace("`text`", "What `results` quote")


@dataclass(frozen=True)
class Judging:
    place: Place

    async def judge(
        self,
        rubric: Annotated[
            str,
            Field(min_length=1, description="A rubric: `NAME`, `NAME@VERSION`, or a YAML file inside the workspace."),
        ],
        ctx: Context,
        subjects: Annotated[
            list[str] | None,
            Field(
                max_length=500,
                description="Runs (all failed evals of each), a run and names of its evals, "
                "or JSON files of agent runs inside the workspace. Default: evals of the collection.",
            ),
        ] = None,
        collection: fields.Collection = None,
        where: fields.Where = None,
        max_subjects: Annotated[int, Field(ge=1, le=2000, description="Judge at most so many.")] = 200,
        judge: fields.Judge = None,
        budget_usd: fields.Budget = 0.0,
        max_tokens: fields.MaxTokens = None,
        fresh: Annotated[bool, Field(description="Ask again what is already known.")] = False,
    ) -> Judged:
        """Judge agent runs or failed evals by a rubric: what it asks for, in its own schema, with citations that were
        verified. Without `subjects` evals of the collection are judged, those that `where` chooses. Rules only answer
        rubrics that ask for what they can say (such as `failure`); with a model in `judge` and no budget the estimate
        is told. Results are kept: table `judge_results` in SQL."""
        from evalscribe.app.judging.judge import judge as use_case
        from evalscribe.workspace import Workspace

        asked = asking(judge, budget_usd, max_tokens, self.place.settings())
        names = [self._subject(name) for name in subjects or ()]
        if names and where:
            raise UsageError("where chooses among the evals of a collection: leave out subjects")
        named = self._rubric(rubric)
        which = collection or self.place.collection
        if not names:
            with self.place.collection_of(collection) as (_, one):
                which = one.id
        options = asked.options().model_copy(update={"fresh": fresh})

        async def work(told: Told) -> Judged:
            async with Workspace(options) as workspace:
                done = await use_case(
                    workspace,
                    named,
                    names,
                    told,
                    judge=asked.judge,
                    collection=which,
                    where=where,
                    most=max_subjects,
                    dry_run=asked.only_plans,
                )
            return _answer(done)

        return await watched(ctx, work)

    def _subject(self, name: str) -> str:
        return self.place.inside(name) if name.endswith((".json", ".jsonl")) else self.place.run(name)

    def _rubric(self, name: str) -> str:
        is_path = "/" in name or name.endswith((".yaml", ".yml"))
        return self.place.inside(name) if is_path else name


def _answer(outcome: "JudgeOutcome") -> Judged:
    left_out = (f"{outcome.left_out} more were left out: max_subjects",) if outcome.left_out else ()
    notes = (*outcome.notes, *left_out)
    done = outcome.judgements
    if done is None:
        message = f"Nothing was asked: {outcome.judge} for {outcome.subjects} subjects. Call again with budget_usd."
        return Judged(rubric=outcome.rubric, message=message, estimate=outcome.estimate, notes=notes)
    lines = [
        JudgedSubject(
            subject=one.agent_run_id,
            judge=one.judge,
            label=one.label,
            output=one.output,
            problem=one.reason,
            citations=one.citations,
            known=one.known,
        )
        for one in done.results
    ]
    kept, size = list[JudgedSubject](), 0
    for line in lines:
        size += len(line.model_dump_json())
        if kept and size > MOST_CHARACTERS:
            break
        kept.append(line)
    failed = len(done.failures)
    return Judged(
        rubric=outcome.rubric,
        message=f"{len(lines) - failed} judged, {failed} could not be judged.",
        results=tuple(kept),
        results_left_out=len(lines) - len(kept),
        could_not_be_judged=failed,
        spent_usd=sum(usage.cost_usd for usage in done.spent.values()),
        notes=notes,
    )
