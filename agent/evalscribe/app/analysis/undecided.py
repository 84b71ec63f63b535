"""Keep earlier verdicts if a judge decides nothing, and turn an analysis without any verdict into an error."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from evalscribe.app.analysis.failures import Spent
from evalscribe.errors import DataError, EvalscribeError, UnavailableError, UsageError
from evalscribe.judging.verdicts import JudgeQueue
from evalscribe.model.evidence import Citation
from evalscribe.model.finding import Finding, NoVerdictCause, Unclassified, Verdict, undecided
from evalscribe.model.report import Report, ReportEntry
from evalscribe.model.run import Run
from evalscribe.text import dollars, one_line

_ORDER: tuple[NoVerdictCause, ...] = ("service", "budget", "answer", "evidence")
_ADVICE: dict[NoVerdictCause, str] = {
    "service": "try again later, or name another model with --judge",
    "budget": "raise --budget or --max-tokens, or let the rules judge: --judge rules",
    "answer": "name another model with --judge, or let the rules judge: --judge rules",
    "evidence": "check that the source still has the output of the evals",
}


def why_undecided(run: Run, queue: JudgeQueue, costs: Spent) -> EvalscribeError | None:
    """Return the error of an analysis whose judge decided none of the failures it was asked about; else None.

    The judge is not asked about failures whose verdict is cached. If it was asked about none because no evidence could
    be read, that is the error.
    """
    if queue.decided:
        return None
    missing = list(queue.undecided)
    if not missing:
        verdicts = [finding.verdict for finding in queue.findings()]
        missing = [verdict for verdict in verdicts if isinstance(verdict, Unclassified) and verdict.cause == "evidence"]
        if len(missing) < len(verdicts):
            return None
    cause = _cause(missing)
    reason = next(verdict.reason for verdict in missing if verdict.cause == cause)
    spent = sum(usage.cost_usd for usage in costs.values())
    cost = f" ({dollars(spent)} spent)" if spent else ""
    message = (
        f"no verdict on any of {len(missing)} failures of run {run.id}{cost}: {one_line(reason).rstrip('.')}"
        f"\nnothing was written; {_ADVICE[cause]}"
    )
    if cause == "service":
        return UnavailableError(message)
    return UsageError(message) if cause == "budget" else DataError(message)


def _cause(missing: Sequence[Unclassified]) -> NoVerdictCause:
    """Return the most frequent cause."""
    counts = Counter(verdict.cause for verdict in missing)
    return max(_ORDER, key=lambda cause: (counts[cause], -_ORDER.index(cause)))


def with_standing(findings: Sequence[Finding], standing: Mapping[str, Verdict]) -> tuple[Finding, ...]:
    """Replace missing verdicts by the existing ones (by eval path). Splits groups whose existing verdicts differ."""
    return tuple(part for finding in findings for part in _parts(finding, standing))


def _parts(finding: Finding, standing: Mapping[str, Verdict]) -> Iterator[Finding]:
    if undecided(finding.verdict) is None:
        yield finding
        return
    for verdict, evals in groupby(finding.evals, key=lambda eval: standing.get(eval.path)):
        change: dict[str, object] = {"evals": tuple(evals), "verdict": verdict or finding.verdict}
        yield finding.model_copy(update=change)


def standing_verdicts(report: Report) -> dict[str, Verdict]:
    """The judge's verdicts in a report, by eval path; failures without a verdict are left out."""
    verdicts = ((entry, _verdict(entry, report)) for entry in report.entries)
    return {path: verdict for entry, verdict in verdicts if verdict for path in entry.paths}


def _verdict(entry: ReportEntry, report: Report) -> Verdict | None:
    if entry.judge is None or entry.cause_kind is None:
        return None
    change = next(
        (r for r in report.recommendations if r.group in ("eval", "lint") and set(r.evals) & set(entry.paths)), None
    )
    return Verdict(
        classification=entry.judge.classification,
        cause=entry.cause or "",
        cause_kind=entry.cause_kind,
        confidence=entry.judge.confidence,
        uncertain=entry.uncertain,
        error=entry.error,
        why=entry.why,
        reasoning=entry.reasoning,
        citations=tuple(
            Citation(role=s.role, path=s.path, first=s.first, last=s.last, text=s.text, status=s.status)
            for s in entry.snippets
        ),
        judge=entry.judge.id,
        fix=change.text if change else None,
        would_pass=change.would_pass if change else False,
        stage=entry.judge.stage,
    )
