"""MCP tools that find out why evals of a run failed."""

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
from evalscribe.mcp.tool import NOTICE, JudgeOptions, first_fitting, judge_options
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
"""Maximum total number of characters of the findings in one answer."""
Rubric = Annotated[
    str | None,
    Field(description="Rubric to judge failures by, `NAME` or `NAME@VERSION`; needs a model. Default: failure."),
]


class FindingLine(Frozen):
    """One failed eval. The tool `explain` gives the details."""

    eval: str
    eval_id: str | None
    step: str | None
    classification: str | None
    """The label: MODEL_FAULT, OVERLY_STRICT, AMBIGUOUS_TASK or KNOWN_GAP. Null if the eval could not be judged."""
    cause: str | None
    cause_kind: str | None
    confidence: float | None
    uncertain: bool | None
    basis: str
    """Basis of the label: `judged`, `corrected` (a person labelled the same failure), `reproduced` or `proved` (both
    by replay).
    """
    message: int | None
    """Number of the message in which an agent run went wrong, starting at 1.

    Null if that message is unknown, or if the eval is not an agent run.
    """
    error: str | None
    reasoning: str | None
    unclassified: str | None


class AnalysisAnswer(Frozen):
    outcome: Literal["analysed", "plan", "nothing-failed"]
    message: str
    """Text that states the outcome and what to do next."""
    run: AnalyzedRun
    labels: dict[str, int] = Field(default_factory=dict)
    findings: tuple[FindingLine, ...] = ()
    findings_left_out: int = 0
    """Number of findings that did not fit into the answer. The tools list_evals, get_report and explain return them."""
    patterns: tuple[PatternSummary, ...] = ()
    recommendations: tuple[RecommendationSummary, ...] = ()
    net_impact: NetImpactSummary | None = None
    estimate: Estimate | None = None
    """Estimated cost of asking a model.

    In a plan, the estimate covers all failures without a stored verdict. Otherwise, it covers the failures about which
    the rules are uncertain.
    """
    report: str | None = None
    """Name of the report, for the tool get_report.

    Null if no report was written and no existing report is up to date.
    """
    spent: CostSummary | None = None
    notes: tuple[str, ...] = ()
    notice: str = NOTICE.replace("`text`", "What findings quote")


class ExplainAnswer(Frozen):
    eval: str
    finding: FindingSummary
    """The finding, with every quotation and whether the quotation was verified."""
    recommendations: tuple[RecommendationSummary, ...]
    text: str
    """The finding as text, including the history of the failure and the evidence that the judge read."""
    spent: CostSummary | None
    notes: tuple[str, ...]
    notice: str = NOTICE


@dataclass(frozen=True)
class AnalysisTools:
    server_workspace: ServerWorkspace
    turns: defaultdict[str, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))
    """Locks, keyed by run, so that a run is analysed by only one call at a time."""

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
        harness's.

        Free by default: the rules judge, and no report is written. With a model in `judge` and no budget, the tool only
        returns the estimated cost. With `budget_usd` as well, the model is asked; stored verdicts are not paid for
        again.
        """
        request = judge_options(judge, budget_usd, max_tokens, self.server_workspace.settings())
        name = self.server_workspace.run(run)
        options = request.options().model_copy(update={"fresh": fresh})

        async def work(progress: ProgressReporter) -> AnalysisAnswer:
            return await _analyze(
                options, name, progress, rubric=rubric, dry_run=request.only_plans, writes=write_report
            )

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
        """Explain one failed eval in full: label, cause, reasoning, every quotation with its place, and history.

        Free by default, because the rules judge. No report is written.
        """
        request = judge_options(judge, budget_usd, max_tokens, self.server_workspace.settings())
        # explain has no dry run. Without a budget, the rules judge in place of the model.
        if request.only_plans:
            request = JudgeOptions()
        name = self.server_workspace.run(run)
        unpaid = judge not in (None, RULES) and request.by_rules

        async def work(progress: ProgressReporter) -> ExplainAnswer:
            if unpaid:
                progress.say("The rules judged: a model is asked only with budget_usd above 0.")
            return await _explain(request.options(), name, eval, progress, rubric=None if request.by_rules else rubric)

        return await with_progress(ctx, work, self.turns[run])


async def _analyze(
    options: Options, run: str, progress: ProgressReporter, *, rubric: str | None, dry_run: bool, writes: bool
) -> AnalysisAnswer:
    async with _workspace(options) as workspace:
        result = await analyze(workspace, run, progress, rubric=rubric, dry_run=dry_run, writes=writes)
        root = workspace.reports.root
    if isinstance(result, AnalysisPlan):
        return _plan(result, progress)
    if isinstance(result, AnalysisResult):
        has_report = writes or result.state == "unchanged"
        return _analysis_answer(
            result, progress, str(result.path.resolve().relative_to(root.resolve())) if has_report else None
        )
    return _nothing_failed(result, progress)


@asynccontextmanager
async def _workspace(options: Options) -> AsyncIterator[Workspace]:
    """Open a workspace with a checkpoint file of its own.

    With a shared file, calls would wait for each other, and for calls that were just cancelled. The file is deleted
    afterwards, because the store records which work remains.
    """
    with TemporaryDirectory(prefix="evalscribe-mcp-", ignore_cleanup_errors=True) as folder:
        async with Workspace(options, checkpoints=Path(folder) / "checkpoints.db") as workspace:
            yield workspace


def _plan(plan: AnalysisPlan, progress: ProgressReporter) -> AnalysisAnswer:
    to_judge = plan.groups - plan.cached
    retries = f", and up to {pluralise(plan.again, 'trial')} once more" if plan.again else ""
    return AnalysisAnswer(
        outcome="plan",
        message=f"No model was asked: {plan.judge} would judge {to_judge} of {plan.groups} groups of failures"
        f"{retries}. "
        "Call again with budget_usd to ask that model, or with judge `rules` for free.",
        run=analyzed_run(plan.run),
        estimate=plan.estimate,
        notes=progress.notes,
    )


def _nothing_failed(result: NothingFailed, progress: ProgressReporter) -> AnalysisAnswer:
    return AnalysisAnswer(
        outcome="nothing-failed", message=result.message, run=analyzed_run(result.run), notes=progress.notes
    )


def _analysis_answer(result: AnalysisResult, progress: ProgressReporter, report: str | None) -> AnalysisAnswer:
    analysis = result.analysis
    findings = [
        FindingLine(**{name: getattr(finding, name) for name in FindingLine.model_fields})
        for finding in analysis.findings
    ]
    lines = first_fitting(findings, MOST_CHARACTERS)
    state = f"The report is {result.state}." if report else "No report was written: write_report=true writes one."
    uncertain_note = f" Uncertain: {len(result.uncertain)}" if result.uncertain else ""
    if result.advice:
        uncertain_note += f", for which {result.advice.judge} would take {result.advice.estimate.summary}"
    uncertain_note += "." if uncertain_note else ""
    return AnalysisAnswer(
        outcome="analysed",
        message=f"{pluralise(len(findings), 'failed eval')}.{uncertain_note} {state} explain has the details of each.",
        run=analysis.run,
        labels=dict(Counter(finding.classification or "unclassified" for finding in findings)),
        findings=lines,
        findings_left_out=len(findings) - len(lines),
        patterns=analysis.patterns,
        recommendations=analysis.recommendations,
        net_impact=analysis.net_impact,
        estimate=result.advice.estimate if result.advice else None,
        report=report,
        spent=analysis.usage,
        notes=(*progress.notes, *result.notes),
    )


async def _explain(
    options: Options, run: str, eval: str, progress: ProgressReporter, *, rubric: str | None
) -> ExplainAnswer:
    async with _workspace(options) as workspace:
        result = await explain(workspace, run, eval, progress, rubric=rubric)
    analysis = result.analysis
    (finding,) = analysis.findings
    return ExplainAnswer(
        eval=finding.eval,
        finding=finding,
        recommendations=analysis.recommendations,
        text=explanation(result.finding, result.case, result.reviewed),
        spent=analysis.usage,
        notes=progress.notes,
    )
