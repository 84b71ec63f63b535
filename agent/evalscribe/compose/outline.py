"""The report's outline: which entry says what."""

from collections.abc import Sequence

from evalscribe.compose.snippets import snippets
from evalscribe.ids import content_id
from evalscribe.model.cascade import CascadeSaving
from evalscribe.model.finding import Collation, Finding, Unclassified, Verdict
from evalscribe.model.report import EvalRef, JudgeLabel, Report, ReportEntry, RunHeader
from evalscribe.model.run import Run


def compose(
    run: Run,
    collation: Collation,
    *,
    judges: Sequence[str],
    date: str,
    evidence: Sequence[str],
    earlier: Sequence[str] = (),
    own_prompts: bool = False,
    cascade: CascadeSaving | None = None,
) -> Report:
    """The report of a run as if it were the first; `publish` carries over what people wrote into the last one.

    `date` is ISO; `evidence` are the content ids of all evidence; `earlier` names compared reports, newest first;
    `judges` are the ids of all that may have decided.
    """
    return Report(
        run=_header(run),
        date=date,
        judges=tuple(judges),
        own_prompts=own_prompts,
        cascade=cascade,
        evidence=content_id(sorted(evidence))[: len("sha256:") + 8],
        earlier=tuple(earlier),
        entries=tuple(_entry(finding) for finding in collation.findings),
        patterns=collation.patterns,
        resolved=collation.resolved,
        recommendations=collation.recommendations,
        follow_ups=collation.follow_ups,
    )


def _header(run: Run) -> RunHeader:
    shared = {name: getattr(run, name) for name in RunHeader.model_fields if name in Run.model_fields}
    return RunHeader(**shared, listed=len(run.failures), names_all=run.evals is not None)


def _entry(finding: Finding) -> ReportEntry:
    refs = tuple(EvalRef(path=eval.path, url=eval.url) for eval in finding.evals)
    verdict = finding.verdict
    if isinstance(verdict, Unclassified):
        return ReportEntry(
            evals=refs,
            step=finding.step,
            classification=None,
            why=verdict.reason,
            reasoning=verdict.reason,
            recurrence=finding.recurrence,
            across=finding.across,
            missing="; ".join(finding.missing),
        )
    return _judged_entry(refs, finding, verdict)


def _judged_entry(refs: tuple[EvalRef, ...], finding: Finding, verdict: Verdict) -> ReportEntry:
    return ReportEntry(
        evals=refs,
        step=finding.step,
        classification=verdict.classification,
        cause=verdict.cause,
        cause_kind=verdict.cause_kind,
        uncertain=verdict.uncertain,
        judge=JudgeLabel(
            id=verdict.judge,
            classification=verdict.classification,
            confidence=verdict.confidence,
            stage=verdict.stage,
        ),
        why=verdict.why,
        error=verdict.error,
        reasoning=verdict.reasoning,
        recurrence=finding.recurrence,
        across=finding.across,
        missing="; ".join(finding.missing),
        snippets=snippets(verdict.citations),
    )
