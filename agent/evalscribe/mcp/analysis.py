"""Tools that find out why evals of a run failed."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Literal

from mcp.server.mcpserver import Context
from pydantic import Field

from evalscribe.analysis.analyze import analyze
from evalscribe.analysis.estimates import AnalysisPlan, AnalysisResult, NothingFailed
from evalscribe.analysis.explain import explain
from evalscribe.ids import Frozen
from evalscribe.mcp import tool
from evalscribe.mcp.context import ServerWorkspace
from evalscribe.mcp.progress import ProgressReporter, with_progress
from evalscribe.mcp.tool import NOTICE, JudgeOptions, judge_options
from evalscribe.model.analysis import (
    AnalyzedRun,
    CostSummary,
    FindingSummary,
    NetImpactSummary,
    PatternSummary,
    RecommendationSummary,
    analyzed_run,
)
from evalscribe.model.protocols import Estimate
from evalscribe.reports.explanation import explanation
from evalscribe.settings import RULES, Options
from evalscribe.text import pluralise
from evalscribe.workspace import Workspace

MOST_CHARACTERS = 40_000
"""Maximum characters of findings in one answer."""
Rubric = Annotated[
    str | None,
    Field(description="Rubric to judge failures by, `NAME` or `NAME@VERSION`; needs a model. Default: failure."),
]


class FindingLine(Frozen):
    """One failed eval; explain has the details."""

    eval: str
    eval_id: str | None
    step: str | None
    classification: str | None
    """MODEL_FAULT, OVERLY_STRICT, AMBIGUOUS_TASK or KNOWN_GAP; null if it could not be judged."""
    cause: str | None
    cause_kind: str | None
    confidence: float | None
    uncertain: bool | None
    basis: str
    """judged, corrected (as people labelled the same failure before), reproduced or proved (by replay)."""
    message: int | None
    """Number of the message, from 1, in which an agent run went wrong; null if unknown, or for other evals."""
    error: str | None
    reasoning: str | None
    unclassified: str | None


class AnalysisAnswer(Frozen):
    outcome: Literal["analysed", "plan", "nothing-failed"]
    message: str
    """Outcome, and what to do next."""
    run: AnalyzedRun
    labels: dict[str, int] = Field(default_factory=dict)
    findings: tuple[FindingLine, ...] = ()
    findings_left_out: int = 0
    """Number of findings left out for size; see list_evals, get_report and explain."""
    patterns: tuple[PatternSummary, ...] = ()
    recommendations: tuple[RecommendationSummary, ...] = ()
    net_impact: NetImpactSummary | None = None
    estimate: Estimate | None = None
    """Estimated cost of a model: for all failures, or for those that the rules are uncertain about."""
    report: str | None = None
    """Name of the report below the reports folder, if it was written or is unchanged."""
    spent: CostSummary | None = None
    notes: tuple[str, ...] = ()
    notice: str = NOTICE.replace("`text`", "What findings quote")


class ExplainAnswer(Frozen):
    eval: str
    finding: FindingSummary
    """Includes every quotation and whether it was verified."""
    recommendations: tuple[RecommendationSummary, ...]
    text: str
    """The finding in full, with history and the evidence that the judge read."""
    spent: CostSummary | None
    notes: tuple[str, ...]
    notice: str = NOTICE


@dataclass(frozen=True)
class AnalysisTools:
    place: ServerWorkspace
    turns: defaultdict[str, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))
    """Locks by run: at most one call at a time analyses a run."""

    async def analyze(
        self,
        run: tool.Run,
        ctx: Context,
        write_report: tool.WriteReport = False,
        judge: tool.Judge = None,
        budget_usd: tool.Budget = 0.0,
        max_tokens: tool.MaxTokens = None,
        rubric: Rubric = None,
        fresh: Annotated[bool, Field(description="Ask again even if an answer is stored.")] = False,
    ) -> AnalysisAnswer:
        """Find out why evals of a run failed, and whose fault it was: the model's, the grader's, the task's, or the
        harness's. Free by default: the rules judge, and no report is written. With a model in `judge` and no budget it
        returns the estimate; with `budget_usd` the model is asked, and nothing is ever paid for twice.
        """
        asked = judge_options(judge, budget_usd, max_tokens, self.place.settings())
        name = self.place.run(run)
        options = asked.options().model_copy(update={"fresh": fresh})

        async def work(told: ProgressReporter) -> AnalysisAnswer:
            return await _analysed(options, name, told, rubric=rubric, dry_run=asked.only_plans, writes=write_report)

        return await with_progress(ctx, work, self.turns[run])

    async def explain(
        self,
        run: tool.Run,
        eval: Annotated[str, Field(min_length=1, description="A failed eval of the run: its name or id.")],
        ctx: Context,
        judge: tool.Judge = None,
        budget_usd: tool.Budget = 0.0,
        max_tokens: tool.MaxTokens = None,
        rubric: Rubric = None,
    ) -> ExplainAnswer:
        """Explain one failed eval in full: label, cause, reasoning, every quotation with its place, and history. Free
        by default (rules); no report is written."""
        asked = judge_options(judge, budget_usd, max_tokens, self.place.settings())
        if asked.only_plans:
            asked = JudgeOptions()
        name = self.place.run(run)
        unpaid = judge not in (None, RULES) and asked.by_rules

        async def work(told: ProgressReporter) -> ExplainAnswer:
            if unpaid:
                told.say("The rules judged: a model is asked only with budget_usd above 0.")
            return await _explained(asked.options(), name, eval, told, rubric=None if asked.by_rules else rubric)

        return await with_progress(ctx, work, self.turns[run])


async def _analysed(
    options: Options, run: str, told: ProgressReporter, *, rubric: str | None, dry_run: bool, writes: bool
) -> AnalysisAnswer:
    async with _workspace(options) as workspace:
        done = await analyze(workspace, run, told, rubric=rubric, dry_run=dry_run, writes=writes)
        root = workspace.reports.root
    if isinstance(done, AnalysisPlan):
        return _plan(done, told)
    if isinstance(done, AnalysisResult):
        there = writes or done.state == "unchanged"
        return _done(done, told, str(done.path.resolve().relative_to(root.resolve())) if there else None)
    return _nothing(done, told)


@asynccontextmanager
async def _workspace(options: Options) -> AsyncIterator[Workspace]:
    """Open a workspace with its own checkpoints: concurrent or just cancelled calls must not wait for each other.

    The store records the remaining work, so the checkpoints are not needed afterwards.
    """
    with TemporaryDirectory(prefix="evalscribe-mcp-", ignore_cleanup_errors=True) as folder:
        async with Workspace(options, checkpoints=Path(folder) / "checkpoints.db") as workspace:
            yield workspace


def _plan(plan: AnalysisPlan, told: ProgressReporter) -> AnalysisAnswer:
    asked = plan.groups - plan.known
    again = f", and up to {pluralise(plan.again, 'trial')} once more" if plan.again else ""
    return AnalysisAnswer(
        outcome="plan",
        message=f"No model was asked: {plan.judge} would judge {asked} of {plan.groups} groups of failures"
        f"{again}. "
        "Call again with budget_usd to ask that model, or with judge `rules` for free.",
        run=analyzed_run(plan.run),
        estimate=plan.estimate,
        notes=told.notes,
    )


def _nothing(done: NothingFailed, told: ProgressReporter) -> AnalysisAnswer:
    return AnalysisAnswer(outcome="nothing-failed", message=done.message, run=analyzed_run(done.run), notes=told.notes)


def _done(done: AnalysisResult, told: ProgressReporter, report: str | None) -> AnalysisAnswer:
    said = done.analysis
    findings = [FindingLine(**{name: getattr(one, name) for name in FindingLine.model_fields}) for one in said.findings]
    kept = _bounded(findings)
    state = f"The report is {done.state}." if report else "No report was written: write_report=true writes one."
    unsure = f" Uncertain: {len(done.uncertain)}" if done.uncertain else ""
    if done.advice:
        unsure += f", for which {done.advice.judge} would take {done.advice.estimate.summary}"
    unsure += "." if unsure else ""
    return AnalysisAnswer(
        outcome="analysed",
        message=f"{pluralise(len(findings), 'failed eval')}.{unsure} {state} explain has the details of each.",
        run=said.run,
        labels=dict(Counter(one.classification or "unclassified" for one in findings)),
        findings=kept,
        findings_left_out=len(findings) - len(kept),
        patterns=said.patterns,
        recommendations=said.recommendations,
        net_impact=said.net_impact,
        estimate=done.advice.estimate if done.advice else None,
        report=report,
        spent=said.usage,
        notes=(*told.notes, *done.notes),
    )


def _bounded(findings: list[FindingLine]) -> tuple[FindingLine, ...]:
    size, kept = 0, list[FindingLine]()
    for one in findings:
        size += len(one.model_dump_json())
        if kept and size > MOST_CHARACTERS:
            break
        kept.append(one)
    return tuple(kept)


async def _explained(
    options: Options, run: str, eval: str, told: ProgressReporter, *, rubric: str | None
) -> ExplainAnswer:
    async with _workspace(options) as workspace:
        found = await explain(workspace, run, eval, told, rubric=rubric)
    said = found.analysis
    (finding,) = said.findings
    return ExplainAnswer(
        eval=finding.eval,
        finding=finding,
        recommendations=said.recommendations,
        text=explanation(found.finding, found.case, found.reviewed),
        spent=said.usage,
        notes=told.notes,
    )
