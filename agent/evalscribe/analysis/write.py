"""Keep earlier verdicts if a judge decides nothing, and write the report with people's edits."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from evalscribe.analysis.estimates import AnalysisResult
from evalscribe.analysis.prepare import Spent
from evalscribe.errors import DataError, EvalscribeError, UnavailableError, UsageError
from evalscribe.git.report_folder import ReportsFolder
from evalscribe.judging.verdicts import JudgeQueue
from evalscribe.model.analysis import Analysis
from evalscribe.model.evidence import Citation
from evalscribe.model.finding import Collation, Correction, Finding, NoVerdictCause, Unclassified, Verdict, undecided
from evalscribe.model.report import Report, ReportEntry
from evalscribe.model.repository import StoredReport
from evalscribe.model.run import Run
from evalscribe.reports.edits import find_base
from evalscribe.reports.freeform.sections import actions_in
from evalscribe.reports.markdown.blocks import UnreadableReport
from evalscribe.reports.markdown.page import parse
from evalscribe.reports.merge import MergedReport, merge_report
from evalscribe.reports.outline import analysis_document
from evalscribe.reports.placement import ReportPlacement, place_report
from evalscribe.reports.pull_request_text import commit_message
from evalscribe.text import dollars, one_line
from evalscribe.workspace import Workspace

_ORDER: tuple[NoVerdictCause, ...] = ("service", "budget", "answer", "evidence")
_ADVICE: dict[NoVerdictCause, str] = {
    "service": "try again later, or name another model with `judge`",
    "budget": "raise `budget` or `max_tokens`, or let the rules judge: `judge` rules",
    "answer": "name another model with `judge`, or let the rules judge: `judge` rules",
    "evidence": "check that the source still has the output of the evals",
}
_FIELDS = ("judge", "budget", "max_tokens")


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
        return UnavailableError(message, fields=_FIELDS)
    return UsageError(message, fields=_FIELDS) if cause == "budget" else DataError(message, fields=_FIELDS)


def _cause(missing: Sequence[Unclassified]) -> NoVerdictCause:
    """Return the most frequent cause."""
    counts = Counter(verdict.cause for verdict in missing)
    return max(_ORDER, key=lambda cause: (counts[cause], -_ORDER.index(cause)))


def keep_standing_verdicts(findings: Sequence[Finding], standing: Mapping[str, Verdict]) -> tuple[Finding, ...]:
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


Draft = Callable[[Mapping[str, Correction]], tuple[Report, Collation]]
"""Function that builds the report as if new, with patterns and recommendations that follow the corrections by path."""


@dataclass(frozen=True)
class ReportTarget:
    """The file for a run's report, and the earlier versions of its text."""

    where: ReportPlacement
    path: Path
    last_written: str | None
    """The text as evalscribe last wrote it, if the store has it."""
    began: str | None
    """The text before people edited it, from git; read only if the store does not have it."""

    def standing(self) -> dict[str, Verdict]:
        """The judges' verdicts in the existing report, by eval path."""
        for text in (self.last_written, self.began, self.where.current):
            if text is not None:
                with suppress(UnreadableReport):
                    return standing_verdicts(parse(text))
        return {}


def report_target(workspace: Workspace, run: Run, date: str) -> ReportTarget:
    stored = workspace.store.analyses.get_report(run.id)
    files = workspace.reports.of_model(run.provider, run.model, run.id)
    where = place_report(run, date, files, stored.text if stored else None)
    last_written = stored.text if stored and stored.path == where.name else None
    path = next((file.path for file in files if file.name == where.name), workspace.reports.root / where.name)
    began = _begun(workspace.reports, where) if last_written is None else None
    return ReportTarget(where=where, path=path, last_written=last_written, began=began)


def write_report(
    workspace: Workspace, run: Run, target: ReportTarget, draft: Draft, spent: Spent, *, writes: bool = True
) -> AnalysisResult:
    """Write the run's report unless nothing in it changed. `spent` is the usage of this command.

    Without `writes`, only return what would be written, and where. Raises `DataError`, and writes nothing, if people's
    edits contradict each other or would be lost.
    """
    where, path, last_written, began = target.where, target.path, target.last_written, target.began
    report, collation = draft({})
    if where.current is not None:
        report, collation = draft(corrections(merge_report(report, where.current, last_written, began).report))
    merged = merge_report(report, where.current, last_written, began)
    if writes and merged.changed:
        path = workspace.reports.write(where.name, merged.text)
        workspace.store.analyses.put_report(run.id, StoredReport(path=where.name, text=merged.text))
    document = _document(merged, collation, path, spent)
    if writes:
        workspace.store.analyses.put_findings(run.id, document.findings)
    return AnalysisResult(
        run=run,
        report=merged.report,
        text=merged.text,
        path=path,
        state="unchanged" if not merged.changed else "updated" if where.current is not None else "new",
        analysis=document,
        notes=tuple(_notes(where, merged, known=bool(last_written or began))),
    )


def _begun(library: ReportsFolder, where: ReportPlacement) -> str | None:
    """Return the text from git that people started editing."""
    if where.current is None:
        return None
    try:
        texts = [version.text for version in library.versions(where.name, "HEAD") if version.text]
    except EvalscribeError:  # no repository, or one that cannot be read
        return None
    return find_base(where.current, texts)


def _notes(where: ReportPlacement, merged: MergedReport, known: bool) -> Iterator[str]:
    if where.message:
        yield where.message
    if merged.back:
        yield (
            f"taken out of {where.name} by a person and back in it, because they still fail: {', '.join(merged.back)}; "
            "correct the label instead"
        )
    if where.current is not None and merged.changed and not known:
        yield (
            f"nobody knows what was written last into {where.name}: neither the store nor git has it; what people "
            "reworded in another judge's findings may have been replaced"
        )


def corrections(report: Report) -> dict[str, Correction]:
    """Return the human labels that differ from the judge's, by eval path."""
    return {
        path: Correction(classification=entry.classification, cause_kind=entry.cause_kind)
        for entry in report.entries
        if entry.judge and entry.classification and entry.classification != entry.judge.classification
        for path in entry.paths
    }


def _document(merged: MergedReport, collation: Collation, path: Path, spent: Spent) -> Analysis:
    said = analysis_document(
        merged.report, collation.findings, report_path=str(path), changed=merged.changed, spent=spent
    )
    return said.model_copy(update={"actions_taken": actions_in(merged.report.actions_taken, said)})


def commit_report(library: ReportsFolder, done: AnalysisResult) -> str:
    """Commit only the report and return the commit id. Raises `EvalscribeError` with the reason if git fails."""
    return library.commit(done.path, commit_message(done.report))
