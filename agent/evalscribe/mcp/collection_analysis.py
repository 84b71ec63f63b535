"""Tools that judge, compare and explore collections."""

from dataclasses import dataclass
from typing import Annotated, Literal

from mcp.server.mcpserver import Context
from pydantic import Field, JsonValue

from evalscribe.collections.comparisons import WrittenComparison, compare
from evalscribe.collections.explorations import ExplorationResult, explore
from evalscribe.collections.judge import JudgeOutcome
from evalscribe.collections.judge import judge as use_case
from evalscribe.errors import UsageError
from evalscribe.ids import Frozen
from evalscribe.mcp import tool
from evalscribe.mcp.context import ServerWorkspace
from evalscribe.mcp.progress import ProgressReporter, with_progress
from evalscribe.mcp.tool import NOTICE, JudgeOptions, judge_options
from evalscribe.model.comparison import (
    Behaviour,
    CategoryFlips,
    Comparison,
    ComparisonSide,
    ExcludedEval,
    Matrix,
    MatrixColumn,
    MeanDifference,
    WithinRunComparison,
)
from evalscribe.model.protocols import Estimate
from evalscribe.model.result import CitationCounts
from evalscribe.settings import Options
from evalscribe.workspace import Workspace

JUDGED_CHARACTERS = 60_000


class JudgedSubject(Frozen):
    subject: str
    """Id of an agent run, or `run id/eval name` of a failed eval."""
    judge: str
    label: dict[str, JsonValue]
    """The output fields by which judges are compared."""
    output: dict[str, JsonValue]
    """In the rubric's own schema; a text with citations is `{"text", "citations"}`, each with its status."""
    problem: str | None
    """Why the subject could not be judged; null if it was."""
    citations: CitationCounts
    known: bool
    """Whether the result was cached, so that no model was asked."""


class JudgeAnswer(Frozen):
    rubric: str
    message: str
    results: tuple[JudgedSubject, ...] = ()
    results_left_out: int = 0
    """Number of results left out for size: table `judge_results` has all."""
    could_not_be_judged: int = 0
    estimate: Estimate | None = None
    """If no model was asked: the maximum cost of asking the model."""
    spent_usd: float = 0.0
    notes: tuple[str, ...] = ()
    notice: str = NOTICE.replace("`text`", "What `results` quote")


@dataclass(frozen=True)
class JudgeTools:
    place: ServerWorkspace

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
                description=(
                    "Runs (all failed evals of each), a run and names of its evals, or JSON files of agent runs "
                    "inside the workspace. Default: evals of the collection."
                ),
            ),
        ] = None,
        collection: tool.Collection = None,
        where: tool.Where = None,
        max_subjects: Annotated[int, Field(ge=1, le=2000, description="Maximum number of subjects to judge.")] = 200,
        judge: tool.Judge = None,
        budget_usd: tool.Budget = 0.0,
        max_tokens: tool.MaxTokens = None,
        fresh: Annotated[bool, Field(description="Ask again even if an answer is stored.")] = False,
    ) -> JudgeAnswer:
        """Judge agent runs or failed evals by a rubric; results follow its schema, with verified citations.

        Without `subjects`, the evals of the collection that `where` selects are judged. Rules answer only some rubrics
        (such as `failure`); with a model in `judge` and no budget it returns the estimate. Results are stored in the
        SQL table `judge_results`.
        """
        asked = judge_options(judge, budget_usd, max_tokens, self.place.settings())
        names = [self._subject(name) for name in subjects or ()]
        if names and where:
            raise UsageError("where selects evals of a collection and cannot be combined with subjects")
        named = self._rubric(rubric)
        which = collection or self.place.collection
        if not names:
            with self.place.collection_of(collection) as (_, one):
                which = one.id
        options = asked.options().model_copy(update={"fresh": fresh})

        async def work(told: ProgressReporter) -> JudgeAnswer:
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
            return _judge_answer(done)

        return await with_progress(ctx, work)

    def _subject(self, name: str) -> str:
        return self.place.inside(name) if name.endswith((".json", ".jsonl")) else self.place.run(name)

    def _rubric(self, name: str) -> str:
        is_path = "/" in name or name.endswith((".yaml", ".yml"))
        return self.place.inside(name) if is_path else name


def _judge_answer(outcome: JudgeOutcome) -> JudgeAnswer:
    left_out = (f"{outcome.left_out} more were left out: max_subjects",) if outcome.left_out else ()
    notes = (*outcome.notes, *left_out)
    done = outcome.judgements
    if done is None:
        message = f"No model was asked: {outcome.judge} for {outcome.subjects} subjects. Call again with budget_usd."
        return JudgeAnswer(rubric=outcome.rubric, message=message, estimate=outcome.estimate, notes=notes)
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
        if kept and size > JUDGED_CHARACTERS:
            break
        kept.append(line)
    failed = len(done.failures)
    return JudgeAnswer(
        rubric=outcome.rubric,
        message=f"{len(lines) - failed} judged, {failed} could not be judged.",
        results=tuple(kept),
        results_left_out=len(lines) - len(kept),
        could_not_be_judged=failed,
        spent_usd=sum(usage.cost_usd for usage in done.spent.values()),
        notes=notes,
    )


COMPARED_CHARACTERS = 30_000
COMPARED_NAMES = 300


class ComparedRuns(Frozen):
    kind: Literal["two", "within", "many"]
    sides: tuple[ComparisonSide | MatrixColumn, ...]
    """Base first."""
    passes: MeanDifference | None = None
    """With two sides: the difference of the candidate from the base, and whether it is noise."""
    regressed: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    """Names of evals."""
    apart: tuple[ExcludedEval, ...] = ()
    """Evals left out of the figures, with the reason."""
    categories: tuple[CategoryFlips, ...] = ()
    behaviours: tuple[Behaviour, ...] = ()
    """What regressed evals have in common."""
    notes: tuple[str, ...] = ()
    text: str
    """The page as markdown; if it is cut, get_report reads the whole written page."""
    text_left_out: int = 0
    """Characters."""
    estimate: Estimate | None = None
    """Estimated cost of asking a model why; null if no model would be asked."""
    report: str | None = None
    """Name of the page below the reports folder; null if it was not written."""
    spent_usd: float = 0.0
    notice: str = NOTICE


@dataclass(frozen=True)
class CompareTools:
    place: ServerWorkspace

    async def compare(
        self,
        sides: Annotated[
            list[str],
            Field(
                min_length=1,
                max_length=20,
                description=(
                    "Base, candidate, and more for a matrix: run ids or prefixes, URLs, or all runs of a "
                    "`provider/model` in the collection. With a single run, each failed trial is compared with a "
                    "passed one of its task."
                ),
            ),
        ],
        ctx: Context,
        collection: tool.Collection = None,
        write_report: tool.WriteReport = False,
        judge: tool.Judge = None,
        budget_usd: tool.Budget = 0.0,
        max_tokens: tool.MaxTokens = None,
    ) -> ComparedRuns:
        """Compare two runs or checkpoints: what regressed, what was fixed, whether it is noise (exact paired test),
        and what changed in behaviour. One run: compares its failed with its passed trials. Three or more runs: a
        matrix with flakiness. Free by default: rules say why; with a model in `judge` and `budget_usd` each regressed
        eval is compared by the model, with verified quotations."""
        asked = judge_options(judge, budget_usd, max_tokens, self.place.settings())
        names = [self._side(name) for name in sides]
        options, within = asked.options(), collection or self.place.collection
        return await with_progress(
            ctx, lambda told: _compared(options, names, within, asked, told, writes=write_report)
        )

    def _side(self, name: str) -> str:
        if not name.strip():
            raise UsageError("a side is empty: give runs by id, or `provider/model`")
        return self.place.run(name)


async def _compared(
    options: Options,
    names: list[str],
    collection: str | None,
    asked: JudgeOptions,
    told: ProgressReporter,
    *,
    writes: bool,
) -> ComparedRuns:
    async with Workspace(options) as workspace:
        done = await compare(workspace, names, told, collection=collection, dry_run=asked.only_plans, writes=writes)
        spent = sum(usage.cost_usd for usage in workspace.models.spent().values())
    answer = _comparison_answer(done)
    notes = (*told.notes, *answer.notes, *([done.put.note] if done.put and done.put.note else []))
    return answer.model_copy(update={"spent_usd": spent, "notes": notes})


def _comparison_answer(done: WrittenComparison) -> ComparedRuns:
    kind, sides = _sides(done.found)
    two = done.found if isinstance(done.found, Comparison) else None
    return ComparedRuns(
        kind=kind,
        sides=sides,
        passes=two.passes if two else None,
        regressed=tuple(pair.eval for pair in two.of("regressed"))[:COMPARED_NAMES] if two else (),
        fixed=tuple(pair.eval for pair in two.of("fixed"))[:COMPARED_NAMES] if two else (),
        apart=two.apart[:COMPARED_NAMES] if two else (),
        categories=two.categories if two else (),
        behaviours=() if isinstance(done.found, Matrix) else done.found.behaviours,
        notes=done.found.notes,
        text=done.text[:COMPARED_CHARACTERS],
        text_left_out=max(0, len(done.text) - COMPARED_CHARACTERS),
        estimate=done.estimate,
        report=done.put.name if done.put else None,
    )


def _sides(
    found: Comparison | WithinRunComparison | Matrix,
) -> tuple[Literal["two", "within", "many"], tuple[ComparisonSide | MatrixColumn, ...]]:
    if isinstance(found, Comparison):
        return "two", (found.base, found.candidate)
    if isinstance(found, WithinRunComparison):
        return "within", (found.side,)
    return "many", found.columns


EXPLORED_CHARACTERS = 30_000
EXPLORED_NAMES = 20


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
    """Clusters with the most agent runs first."""
    nothing_seen_in: int = 0
    """Agent runs without any observation on the question."""
    unverified: int = 0
    """Observations without a verified citation; they are not counted."""
    notes: tuple[str, ...] = ()
    text: str = ""
    """The page as markdown; if it is cut, get_report reads the whole written page."""
    text_left_out: int = 0
    """Characters."""
    estimate: Estimate | None = None
    """Estimated cost of asking a model; null if no model would be asked."""
    report: str | None = None
    """Name of the page below the reports folder; null if it was not written."""
    spent_usd: float = 0.0
    notice: str = NOTICE


@dataclass(frozen=True)
class ExploreTools:
    place: ServerWorkspace

    async def explore(
        self,
        question: Annotated[str, Field(min_length=1, description="The question to answer from many evals.")],
        ctx: Context,
        collection: tool.Collection = None,
        where: tool.Where = None,
        max_runs: Annotated[int | None, Field(ge=1, description="Maximum number of evals to read.")] = None,
        write_report: tool.WriteReport = False,
        judge: tool.Judge = None,
        budget_usd: tool.Budget = 0.0,
        max_tokens: tool.MaxTokens = None,
    ) -> ExploredCollection:
        """Ask a question about a whole collection: observations in its evals, clustered, named and counted, with
        quotations. Free by default: rules group failures by cause. With a model in `judge` and `budget_usd` every eval
        is read in batches and the question is answered; without a budget it returns the estimate.
        """
        asked = judge_options(judge, budget_usd, max_tokens, self.place.settings())
        with self.place.collection_of(collection) as (_, chosen):
            which = chosen.id

        async def work(told: ProgressReporter) -> ExploredCollection:
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
            answer = _exploration_answer(done, asked)
            return answer.model_copy(update={"spent_usd": spent, "notes": (*told.notes, *answer.notes)})

        return await with_progress(ctx, work)


def _exploration_answer(done: ExplorationResult, asked: JudgeOptions) -> ExploredCollection:
    found = done.found
    if found is None:
        message = f"No model was asked: call again with budget_usd to ask {asked.judge}, or with judge `rules` (free)."
        return ExploredCollection(message=message, estimate=done.estimate)
    clusters = tuple(
        ClusterLine(
            name=one.name, text=one.text, agent_runs=len(one.agent_runs), examples=one.agent_runs[:EXPLORED_NAMES]
        )
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
        text=done.text[:EXPLORED_CHARACTERS],
        text_left_out=max(0, len(done.text) - EXPLORED_CHARACTERS),
        estimate=done.estimate,
        report=done.put.name if done.put else None,
    )
