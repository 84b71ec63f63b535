"""The JSON document of an analysis: what the report says, and what only the analysis knows."""

from collections.abc import Iterable, Mapping
from typing import Any

from evalscribe.model.analysis import (
    Analysis,
    CitationSummary,
    CostSummary,
    FindingSummary,
    StageUsage,
    UsageSummary,
    analysis_from_report,
)
from evalscribe.model.chat import Usage
from evalscribe.model.finding import Finding, Verdict
from evalscribe.model.report import EvalRef, Report
from evalscribe.model.run import Eval


def analysis(
    report: Report,
    findings: Iterable[Finding],
    *,
    report_path: str | None,
    changed: bool,
    spent: Mapping[str, Usage],
) -> Analysis:
    """`findings` add ids, groups and every citation; `spent` is this command's own usage, by stage."""
    known = {EvalRef(path=eval.path).path: (eval, finding) for finding in findings for eval in finding.evals}
    said = analysis_from_report(report)
    return said.model_copy(
        update={
            "report_path": report_path,
            "changed": changed,
            "findings": tuple(_enriched(finding, *known[finding.eval]) for finding in said.findings),
            "usage": spent_summary(spent),
        }
    )


def spent_summary(spent: Mapping[str, Usage]) -> CostSummary:
    stages = tuple(StageUsage(stage=stage, **_printed(usage)) for stage, usage in spent.items())
    return CostSummary(**_printed(sum(spent.values(), Usage())), stages=stages)


def _printed(usage: Usage) -> dict[str, Any]:
    return usage.model_dump(include=set(UsageSummary.model_fields))


def _enriched(said: FindingSummary, eval: Eval, finding: Finding) -> FindingSummary:
    known: dict[str, object] = {"eval_id": eval.id, "category": eval.category, "group": finding.group}
    if isinstance(finding.verdict, Verdict):
        known["citations"] = tuple(CitationSummary(**citation.model_dump()) for citation in finding.verdict.citations)
    return said.model_copy(update=known)
