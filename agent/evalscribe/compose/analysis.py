"""The JSON document of an analysis: what the report says, and what only the analysis knows."""

from collections.abc import Iterable

from evalscribe.analysis import Analysis, CitationSummary, FindingSummary, UsageSummary, of_report
from evalscribe.chat import Usage
from evalscribe.finding import Finding, Verdict
from evalscribe.report import EvalRef, Report
from evalscribe.run import Eval


def analysis(
    report: Report, findings: Iterable[Finding], *, report_path: str | None, changed: bool, usage: Usage
) -> Analysis:
    """`findings` add ids, groups and every citation; `usage` is this command's own."""
    known = {EvalRef(path=eval.path).path: (eval, finding) for finding in findings for eval in finding.evals}
    said = of_report(report)
    return said.model_copy(
        update={
            "report_path": report_path,
            "changed": changed,
            "findings": tuple(_enriched(finding, *known[finding.eval]) for finding in said.findings),
            "usage": UsageSummary(**{name: getattr(usage, name) for name in UsageSummary.model_fields}),
        }
    )


def _enriched(said: FindingSummary, eval: Eval, finding: Finding) -> FindingSummary:
    known: dict[str, object] = {"eval_id": eval.id, "category": eval.category, "group": finding.group}
    if isinstance(finding.verdict, Verdict):
        known["citations"] = tuple(CitationSummary(**citation.model_dump()) for citation in finding.verdict.citations)
    return said.model_copy(update=known)
