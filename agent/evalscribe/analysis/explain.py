"""Explain one failure of a run in full.

The stages of `analyze` are run one after the other, and no report is written. LangGraph is not imported, because
judging a single failure needs neither workers nor checkpoints.
"""

import asyncio
from datetime import date

from evalscribe.analysis.estimates import announce_plan
from evalscribe.analysis.prepare import (
    judge_queue,
    open_run_source,
    past_reports,
    prepare,
    usage_by_stage,
    with_context,
)
from evalscribe.collections.runs import find_trials
from evalscribe.errors import DataError
from evalscribe.failures.collate import collate
from evalscribe.git.report_folder import ReportsFolder
from evalscribe.ids import Frozen
from evalscribe.judging.verdicts import AnalysisWatcher
from evalscribe.model.analysis import Analysis, FindingSummary
from evalscribe.model.evidence import UnreadableEvidence
from evalscribe.model.finding import Failure, Finding
from evalscribe.model.run import Eval, Run
from evalscribe.reports.outline import analysis_document, compose_report
from evalscribe.reports.reading import read_report
from evalscribe.text import join_first
from evalscribe.text import name as printed
from evalscribe.text import path as printed_path
from evalscribe.workspace import Workspace


class ExplainedFailure(Frozen):
    """One failure with its verdict and everything that the judge was shown."""

    finding: Finding
    case: Failure | UnreadableEvidence
    analysis: Analysis
    reviewed: FindingSummary | None = None
    """The finding in the run's report, if a person has reviewed it; otherwise None."""


async def explain(
    workspace: Workspace,
    run: str,
    eval: str,
    watcher: AnalysisWatcher,
    *,
    rubric: str | None = None,
    cascade: bool = False,
    provider: str | None = None,
    model: str | None = None,
) -> ExplainedFailure:
    """Explain one failed eval.

    Args:
        workspace: Workspace for verdicts; needs `async with`.
        run: As for `analyze`.
        eval: The id or path of the eval, the name of the trial in the source, or an eval name without its category. If
            several trials of one task match, the first failed trial is explained.
        watcher: Receives progress.
        rubric: As for `analyze`.
        cascade: As for `analyze`.
        provider: As for `analyze`.
        model: As for `analyze`.

    Raises:
        NotFoundError: No failed eval of the run has this name.
        UsageError: Several failed evals have this name.
        ConsentError: A model would have to be called, but the user does not consent.
    """
    opened = open_run_source(workspace, run, watcher, rubric=rubric, cascade=cascade, provider=provider, model=model)
    async with opened as (analyst, source):
        full_run = await source.run()
        failure, *later_trials = await asyncio.to_thread(find_trials, workspace, full_run, eval, "explain")
        if later_trials:
            watcher.say(f"This is {failure.path}; other failed trials: {join_first([o.path for o in later_trials], 5)}")
        reduced = full_run.model_copy(update={"failures": (failure,)})
        watcher.started(full_run)
        past = await asyncio.to_thread(past_reports, workspace, reduced)
        prepared = await prepare(workspace, analyst, source, reduced, past, watcher, full_run=full_run)
        for note in (*analyst.notes, *past.notes):
            watcher.say(note)
        # Only `analyze` lets the rules judge if the user does not consent.
        prepared = announce_plan(prepared, watcher, rules_instead=False)
        # Get the case before judging, because judging discards the prepared evidence.
        case = prepared.case(prepared.groups[0])
        queue = judge_queue(prepared, watcher.judged)
        await queue.work()
    (finding,) = with_context(prepared, queue.findings())
    costs = usage_by_stage(prepared, queue.usage)
    collation = collate(prepared.run, [finding], past.precedents)
    judges, today = prepared.analyst.judges, date.today().isoformat()
    report = compose_report(prepared.run, collation, judges=judges, date=today, evidence=prepared.digests)
    document = analysis_document(report, collation.findings, report_path=None, changed=False, spent=costs)
    reviewed = _reviewed(workspace.reports, full_run, failure)
    return ExplainedFailure(
        finding=collation.findings[0],
        case=case,
        analysis=document.model_copy(update={"revision": None, "findings": _in_force(document.findings, reviewed)}),
        reviewed=reviewed,
    )


def _reviewed(reports: ReportsFolder, run: Run, eval: Eval) -> FindingSummary | None:
    """Return the eval's finding in the report, if a person has reviewed it; otherwise None."""
    for file in reports.of_model(run.provider, run.model, run.id):
        try:
            report = read_report(file.text, file.name, file.data)
        except DataError:
            continue  # problems of the report are left to `reports check`
        # A report contains ids and paths in their printable form.
        if report.run.id == printed(run.id):
            hits = (
                finding for finding in report.findings if finding.eval == printed_path(eval.path) and finding.reviewer
            )
            return next(hits, None)
    return None


def _in_force(findings: tuple[FindingSummary, ...], reviewed: FindingSummary | None) -> tuple[FindingSummary, ...]:
    if reviewed is None:
        return findings
    change = {name: getattr(reviewed, name) for name in ("classification", "cause_kind", "uncertain", "reviewer")}
    return tuple(finding.model_copy(update=change) for finding in findings)
