"""Build an analysis from a run, its findings and its history, as a report and as a JSON document."""

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from evalscribe.evidence.locate import NAMES_ONLY
from evalscribe.failures.trials import count_trials, trial_rates
from evalscribe.ids import content_id, share_field_names
from evalscribe.model.analysis import (
    Analysis,
    CitationSummary,
    CostSummary,
    FindingSummary,
    StageUsage,
    UsageSummary,
    analysis_from_report,
    finding_summaries,
)
from evalscribe.model.cascade import STAGES, CascadeSaving, JudgeShare, Stage
from evalscribe.model.chat import Usage
from evalscribe.model.evidence import Citation, Role
from evalscribe.model.finding import (
    NO_REASON,
    Classification,
    Collation,
    Finding,
    TrialCount,
    Unclassified,
    Verdict,
    VerdictBasis,
    by_people,
)
from evalscribe.model.protocols import Estimate
from evalscribe.model.report import (
    ERROR_LIMIT,
    SNIPPET_LINES,
    EvalRef,
    JudgeAgreement,
    JudgeLabel,
    Report,
    ReportEntry,
    RunHeader,
    Snippet,
    join_entries,
    summarise_proof,
)
from evalscribe.model.run import Eval, Run
from evalscribe.text import cut, one_line

MAX_LINES_OF_ONE = 6
ORDER: dict[Role, int] = {
    "output": 0, "expected": 0, "log": 1, "grader": 2, "known_gaps": 3, "task": 4, "transcript": 5
}  # fmt: skip
"""Rank of each role in the order of quotations. Output and expected answer share a rank, so that each wrong line stands
before its correct line.
"""


TAG = re.compile(r"^\s*(?:\[[\w.-]+\]|\d+:\d+)?\s*(?:error\b)?")
"""Matches the text before the message in a log line, such as the name of a tool, or a place and a severity."""
CODES = re.compile(r"^TS\d+: |\s*\([\w@/-]+\)$|…$")
"""Matches text that evalscribe adds before or after the message of a tool."""
TIMES = re.compile(r"\s\d+\s?ms$")
COMPARED = 40
"""Number of letters at the start of an error that are looked up in a log line."""
SHORT = 16
"""Number of letters at the start of a log line that are looked up in an error. Later letters could be a remark of the
tool.
"""
SHORTEST = 8
"""Minimum number of letters of a log line for it to be searched for in an error."""


def snippets(citations: Sequence[Citation], error: str = "") -> tuple[Snippet, ...]:
    """Choose the citations that the report quotes, and sort them by `ORDER`.

    The report prints `error` itself. Log lines that only repeat the error are therefore quoted only if nothing else can
    be quoted. If the log does not state the reason for the failure, or states only which tests failed, no log lines are
    quoted.
    """
    unique = {(c.role, c.path, c.first, c.last): c for c in citations if c.text.strip()}
    ordered = sorted(unique.values(), key=lambda c: ORDER[c.role])
    if ordered and ordered[0].role == "expected":  # without pairs of output and expected lines, wrong lines come first
        ordered.sort(key=lambda c: (ORDER[c.role], c.role == "expected"))
    if error.endswith(NO_REASON) or error.startswith(NAMES_ONLY):
        ordered = [c for c in ordered if c.role != "log"]
    candidates = [c for c in ordered if c.role != "log" or (error and not _repeats(c.text, error))] or ordered
    chosen: list[Snippet] = []
    lines_left = SNIPPET_LINES
    for citation in candidates:
        lines = citation.text.split("\n")[: min(MAX_LINES_OF_ONE, lines_left)]
        if lines:
            chosen.append(_snippet(citation, lines))
            lines_left -= len(lines)
    return tuple(chosen)


def _repeats(quotation: str, error: str) -> bool:
    """Return whether a line of a quotation repeats the error.

    Punctuation, the text before the message and ends that were cut off are ignored.
    """
    error_letters = _letters(CODES.sub("", error))
    lines = [_letters(TIMES.sub("", TAG.sub("", line))) for line in quotation.split("\n")]
    return any(
        error_letters[:COMPARED] in line or (len(line) >= SHORTEST and line[:SHORT] in error_letters) for line in lines
    )


def _letters(text: str) -> str:
    return re.sub(r"\W+", "", text).lower()


def _snippet(citation: Citation, lines: Sequence[str]) -> Snippet:
    text = textwrap.dedent("\n".join(lines))
    return share_field_names(
        Snippet(role=citation.role, path=citation.path, first=citation.first, text=text, status=citation.status)
    )


def compose_report(
    run: Run,
    collation: Collation,
    *,
    judges: Sequence[str],
    date: str,
    evidence: Sequence[str],
    earlier: Sequence[str] = (),
    own_prompts: bool = False,
    cascade: CascadeSaving | None = None,
    agreement: Sequence[JudgeAgreement] = (),
    page_url: str | None = None,
) -> Report:
    """Compose the report of a run as if the run had no report yet. `merge_report` later adds the edits that people made
    to an existing report.

    Args:
        run: The analysed run.
        collation: Findings and patterns of the run.
        judges: Ids of all judges that could have decided.
        date: Date of the report in ISO format.
        evidence: Content ids of the evidence of all failures.
        earlier: Names of the earlier reports with which the run was compared, newest first.
        own_prompts: True if the workspace replaces shipped prompts with its own.
        cascade: Cost and savings of the cascade; None if no cascade was used.
        agreement: How often each judge agreed with people's corrections.
        page_url: Address at which the pages of all runs are published; None if they are not published.
    """
    trials = count_trials(run)
    return Report(
        run=_header(run),
        date=date,
        judges=tuple(judges),
        own_prompts=own_prompts,
        cascade=cascade,
        agreement=tuple(agreement),
        page_url=page_url and f"{page_url}/index.html#{quote(run.id, safe='')}",
        evidence=content_id(sorted(evidence))[: len("sha256:") + 8],
        earlier=tuple(earlier),
        entries=tuple(share_field_names(_entry(finding, trials)) for finding in collation.findings),
        incomplete_evals=run.incomplete_evals,
        patterns=collation.patterns,
        resolved=collation.resolved,
        recommendations=collation.recommendations,
        follow_ups=collation.follow_ups,
        proofs=tuple(
            summarise_proof(member.proof) for finding in collation.findings for member in finding.each if member.proof
        ),
    )


def _header(run: Run) -> RunHeader:
    shared = {name: getattr(run, name) for name in RunHeader.model_fields if name in Run.model_fields}
    return RunHeader(**shared, listed=len(run.failures), names_all=run.evals is not None, trials=trial_rates(run))


def _entry(finding: Finding, trials: Mapping[str, TrialCount]) -> ReportEntry:
    if finding.joined:
        return join_entries([_entry(member, trials) for member in finding.joined])
    refs = tuple(share_field_names(EvalRef(path=eval.path, url=eval.url)) for eval in finding.evals)
    verdict = finding.verdict
    tasks = {eval.task for eval in finding.evals}
    counted = trials.get(*tasks) if len(tasks) == 1 else None
    if isinstance(verdict, Unclassified):
        return ReportEntry(
            evals=refs,
            step=finding.step,
            classification=None,
            why=verdict.reason,
            reasoning=verdict.reason,
            recurrence=finding.recurrence,
            across=finding.across,
            trials=counted,
            scored=finding.scored,
            never_passed=finding.never_passed,
            missing="; ".join(finding.missing),
        )
    return ReportEntry(
        evals=refs,
        step=finding.step,
        classification=verdict.classification,
        cause=verdict.cause,
        cause_kind=verdict.cause_kind,
        uncertain=verdict.uncertain,
        basis=_basis(finding, verdict),
        contradicted=_judge_of(finding.contradicted) if finding.contradicted else None,
        judge=_judge_of(verdict),
        why=verdict.why,
        error=verdict.error,
        reasoning=verdict.reasoning,
        recurrence=finding.recurrence,
        across=finding.across,
        trials=counted,
        scored=finding.scored,
        never_passed=finding.never_passed,
        message=verdict.message,
        first_mistake=verdict.first_mistake,
        missing="; ".join(finding.missing),
        snippets=snippets(verdict.citations, cut(one_line(verdict.error), ERROR_LIMIT)),
    )


def _basis(finding: Finding, verdict: Verdict) -> VerdictBasis:
    if by_people(verdict.judge):
        return "corrected"
    return finding.proof.basis if finding.proof else "judged"


def _judge_of(verdict: Verdict) -> JudgeLabel:
    cost = verdict.usage.cost_usd if verdict.usage.calls else None
    return _label(verdict.judge, verdict.classification, verdict.confidence, verdict.stage, cost)


@lru_cache(1024)  # Few values are distinct. A copy for each of 10,000 findings would take 6 MB.
def _label(
    judge: str, classification: Classification, confidence: float, stage: Stage | None, cost: float | None
) -> JudgeLabel:
    return JudgeLabel(id=judge, classification=classification, confidence=confidence, stage=stage, cost_usd=cost)


def saved_by_cascade(verdict: Verdict) -> bool:
    """Return whether the cascade avoided a call of the expensive model because an earlier stage decided."""
    return verdict.stage in ("rules", "tag") and not verdict.provisional and verdict.before == Usage()


def cascade_saving(findings: Sequence[Finding], spared: Mapping[str, Estimate], against: str) -> CascadeSaving:
    """Compute how much a cascade saved.

    For each group that the model `against` did not have to judge, `spared` has an estimate of what that model would
    have used.
    """
    # Without the price of one model, the sum in USD would be too low.
    priced = all(estimate.cost_usd is not None for estimate in spared.values())
    spent = sum((finding.verdict.usage for finding in findings), Usage())
    # Without the cascade, the expensive model would have judged these findings too. Only the earlier stages are
    # therefore an extra cost.
    earlier_usage = (
        finding.judged.before for finding in findings if finding.judged and not saved_by_cascade(finding.judged)
    )
    cheap = (finding.verdict.usage for finding in findings if finding.group in spared)
    extra = sum((*earlier_usage, *cheap), Usage())
    avoided = sum(spared.values(), Estimate())
    saved = (avoided.cost_usd or 0.0) - extra.cost_usd if priced else _tokens(avoided) - _tokens(extra)
    return CascadeSaving(
        decided=_decided(findings),
        unit="usd" if priced else "tokens",
        spent=spent.cost_usd if priced else _tokens(spent),
        saved=max(0.0, saved),
        against=against,
    )


def _tokens(usage: Usage | Estimate) -> float:
    return float(usage.input_tokens + usage.output_tokens)


def _decided(findings: Sequence[Finding]) -> tuple[JudgeShare, ...]:
    """Return the number of evals that each judge decided. Judges are in the order of the cascade's stages."""
    order = (*STAGES, None)
    judged = sorted((f for f in findings if f.judged), key=lambda f: order.index(f.judged.stage if f.judged else None))
    counts: dict[str, int] = {}
    for finding in judged:
        counts[finding.verdict.judge] = counts.get(finding.verdict.judge, 0) + len(finding.evals)
    return tuple(JudgeShare(judge=judge, evals=evals) for judge, evals in counts.items())


def analysis_document(
    report: Report,
    findings: Iterable[Finding],
    *,
    report_path: str | None,
    changed: bool,
    spent: Mapping[str, Usage],
) -> Analysis:
    """Build the JSON document of an analysis.

    The report does not have ids, groups and citations, so they are taken from `findings`. `spent` is the usage of the
    current command, keyed by stage.
    """
    by_path = {
        # `EvalRef` normalises the path in the same way as the paths in the report.
        EvalRef(path=eval.path).path: (eval, member, finding.group)
        for finding in findings
        for member in finding.each
        for eval in member.evals
    }
    enriched = (_enriched(finding, *by_path[finding.eval]) for finding in finding_summaries(report))
    analysis = analysis_from_report(report, enriched)
    return analysis.model_copy(update={"report_path": report_path, "changed": changed, "usage": spent_summary(spent)})


def spent_summary(spent: Mapping[str, Usage]) -> CostSummary:
    stages = tuple(StageUsage(stage=stage, **_printed(usage)) for stage, usage in spent.items())
    return CostSummary(**_printed(sum(spent.values(), Usage())), stages=stages)


def _printed(usage: Usage) -> dict[str, Any]:
    return usage.model_dump(include=set(UsageSummary.model_fields))


def _enriched(summary: FindingSummary, eval: Eval, finding: Finding, group: str) -> FindingSummary:
    facts: dict[str, object] = {"eval_id": eval.id, "category": eval.category, "group": group}
    if isinstance(finding.verdict, Verdict):
        facts["citations"] = tuple(
            share_field_names(CitationSummary(**citation.model_dump())) for citation in finding.verdict.citations
        )
    return share_field_names(summary.model_copy(update=facts))
