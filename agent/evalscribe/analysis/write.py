"""Write the report together with the edits that people made in it.

Failures on which the judge reached no verdict keep their earlier verdict.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path

from evalscribe.analysis.estimates import AnalysisResult
from evalscribe.analysis.prepare import Spent
from evalscribe.errors import DataError, EvalscribeError
from evalscribe.git.report_folder import OWN_FILES, ReportsFolder
from evalscribe.judging.rules.precedents import KINDS
from evalscribe.judging.verdicts import JudgeQueue, main_cause, no_answer_error
from evalscribe.model.analysis import Analysis
from evalscribe.model.chat import Usage
from evalscribe.model.evidence import Citation
from evalscribe.model.finding import (
    UNCERTAIN_CONFIDENCE,
    Collation,
    Correction,
    Finding,
    NoVerdictCause,
    Unclassified,
    Verdict,
    undecided,
)
from evalscribe.model.report import JudgeLabel, Report, ReportEntry
from evalscribe.model.repository import ReportFile, StoredReport, data_name, has_data
from evalscribe.model.run import Run
from evalscribe.reports.data import consists_of, data_parts
from evalscribe.reports.freeform.sections import actions_in
from evalscribe.reports.merge import MergedReport, carry_over, merge_report
from evalscribe.reports.outline import analysis_document
from evalscribe.reports.page import render
from evalscribe.reports.page_edits import PageEdits, UnmergedEdits
from evalscribe.reports.placement import ReportPlacement, beside, place_report
from evalscribe.reports.pull_request_text import commit_message
from evalscribe.reports.reading import read_page
from evalscribe.text import dollars, one_line
from evalscribe.workspace import Workspace

_ADVICE: dict[NoVerdictCause, str] = {
    "service": "try again later, or name another model with `judge`",
    "budget": "raise `budget` or `max_tokens`, or let the rules judge: `judge` rules",
    "answer": "name another model with `judge`, or let the rules judge: `judge` rules",
    "evidence": "check that the source still has the output of the evals",
}
_FIELDS = ("judge", "budget", "max_tokens")
NOT_IN_REPORT = "A replay contradicted this label, so the report does not have the judge's reasons."
"""Text that stands in for the judge's reasoning if a proof replaced that reasoning in the report."""


def undecided_error(run: Run, queue: JudgeQueue, costs: Spent) -> EvalscribeError | None:
    """Return the error to raise if the judge reached no verdict; None if the report can be written.

    If the judge was asked about failures, an error is returned if the judge reached a verdict on none of them. The
    judge is not asked about failures with a cached verdict. If the judge was not asked about any failure, an error is
    returned only if none of the failures has readable evidence.
    """
    if queue.decided:
        return None
    missing = list(queue.undecided)
    if not missing:
        verdicts = [finding.verdict for finding in queue.findings()]
        missing = [verdict for verdict in verdicts if isinstance(verdict, Unclassified) and verdict.cause == "evidence"]
        if len(missing) < len(verdicts):
            return None
    cause = main_cause(verdict.cause for verdict in missing)
    reason = next(verdict.reason for verdict in missing if verdict.cause == cause)
    spent = sum(usage.cost_usd for usage in costs.values())
    cost = f" ({dollars(spent)} spent)" if spent else ""
    message = (
        f"no verdict on any of {len(missing)} failures of run {run.id}{cost}: {one_line(reason).rstrip('.')}"
        f"\nnothing was written; {_ADVICE[cause]}"
    )
    return no_answer_error(cause, message, fields=_FIELDS)


def keep_current_verdicts(findings: Sequence[Finding], current: Mapping[str, Verdict]) -> tuple[Finding, ...]:
    """Fill in missing verdicts from `current`, which maps eval paths to verdicts.

    If the evals of a finding have different verdicts in `current`, split the finding.
    """
    return tuple(part for finding in findings for part in _parts(finding, current))


def _parts(finding: Finding, current: Mapping[str, Verdict]) -> Iterator[Finding]:
    if undecided(finding.verdict) is None:
        yield finding
        return
    for verdict, evals in groupby(finding.evals, key=lambda eval: current.get(eval.path)):
        change: dict[str, object] = {"evals": tuple(evals), "verdict": verdict or finding.verdict}
        yield finding.model_copy(update=change)


def current_verdicts(report: Report) -> dict[str, Verdict]:
    """Return the verdicts that judges reached in a report, keyed by eval path.

    Failures without a verdict are left out.
    """
    verdicts = ((part, _verdict(part, report)) for entry in report.entries for part in entry.each)
    return {path: verdict for entry, verdict in verdicts if verdict for path in entry.paths}


def _verdict(entry: ReportEntry, report: Report) -> Verdict | None:
    if entry.contradicted:
        return _contradicted_verdict(entry, entry.contradicted)
    judge = entry.judge
    if judge is None or entry.cause_kind is None:
        return None
    # A report does not store the fix of a finding, only the recommendation that was made of it.
    change = next(
        (r for r in report.recommendations if r.group in ("eval", "lint") and set(r.evals) & set(entry.paths)), None
    )
    return Verdict(
        classification=judge.classification,
        cause=entry.cause or "",
        cause_kind=entry.cause_kind,
        confidence=judge.confidence,
        uncertain=entry.uncertain,
        error=entry.error,
        why=entry.why,
        reasoning=entry.reasoning,
        citations=tuple(
            Citation(role=s.role, path=s.path, first=s.first, last=s.last, text=s.text, status=s.status)
            for s in entry.snippets
        ),
        judge=judge.id,
        fix=change.text if change else None,
        would_pass=change.would_pass if change else False,
        message=entry.message,
        first_mistake=entry.first_mistake,
        stage=judge.stage,
        usage=_usage(judge),
    )


def _contradicted_verdict(entry: ReportEntry, judge: JudgeLabel) -> Verdict:
    """Return the judge's verdict that a proof replaced. If the proof still holds, it replaces the verdict again later.

    The entry has the proof's cause, reasons and citations, so the returned verdict has no cause, reasons or citations.
    """
    return Verdict(
        classification=judge.classification,
        cause="",
        cause_kind=KINDS[judge.classification],
        confidence=judge.confidence,
        # The report does not store whether the judge was uncertain.
        uncertain=judge.confidence <= UNCERTAIN_CONFIDENCE,
        error=entry.error,
        why="",
        reasoning=NOT_IN_REPORT,
        judge=judge.id,
        stage=judge.stage,
        usage=_usage(judge),
    )


def _usage(judge: JudgeLabel) -> Usage:
    return Usage() if judge.cost_usd is None else Usage(calls=1, cost_usd=judge.cost_usd)


Draft = Callable[[Mapping[str, Correction]], tuple[Report, Collation]]
"""Function that builds the new report without reading the existing report.

The argument maps eval paths to people's corrections, because corrections change patterns and recommendations.
"""


@dataclass(frozen=True)
class ReportTarget:
    """The file of a run's report, and earlier versions of the report's text."""

    where: ReportPlacement
    files: tuple[ReportFile, ...]
    """The reports on the run's model."""
    path: Path
    last_written: str | None
    """The text of the page as evalscribe last wrote it; None if the store does not have that text."""
    versions: Callable[[], Iterator[str]]
    """Function that yields the versions of the page in git, oldest first."""

    def bases(self) -> Iterator[str]:
        """Yield earlier texts of the page.

        Callers look among them for the text that evalscribe wrote before people edited it.
        """
        if self.last_written is not None:
            yield self.last_written
        yield from self.versions()

    def read_existing(self) -> PageEdits | None:
        """Read the existing report. Return None if it does not exist or cannot be read.

        The result is not cached, because the reports of 10,000 failures take more than 100 MB.
        """
        with suppress(DataError):
            return None if self.where.current is None else read_page(self.where.current, self.bases())
        return None

    def current_verdicts(self) -> dict[str, Verdict]:
        """Return the verdicts that judges reached in the existing report, keyed by eval path."""
        existing = self.read_existing()
        return current_verdicts(existing.written) if existing else {}


def report_target(workspace: Workspace, run: Run, date: str) -> ReportTarget:
    stored = workspace.store.analyses.get_report(run.id)
    files = workspace.reports.of_model(run.provider, run.model, run.id)
    where = place_report(run, date, files, stored.text if stored else None)
    path = next((file.path for file in files if file.name == where.name), workspace.reports.root / where.name)
    last_written = stored.text if stored and stored.path == where.name else None
    versions = partial(workspace.reports.page_texts, where.name)
    return ReportTarget(where=where, files=tuple(files), path=path, last_written=last_written, versions=versions)


def write_report(
    workspace: Workspace, run: Run, target: ReportTarget, draft: Draft, spent: Spent, *, writes: bool = True
) -> AnalysisResult:
    """Write the run's report. An existing report is written again only if the page or its data has changed.

    `spent` is the model usage of this command. If `writes` is False, nothing is written, and the result shows what
    would be written and where. If people's edits contradict each other, `DataError` is raised before anything is
    written.
    """
    where = target.where
    new, collation = draft({})
    if where.current is None:
        merged = MergedReport(report=new, text=render(new), changed=True)
    else:
        edits = read_page(where.current, target.bases())
        # Corrections change patterns and recommendations, so the report is composed again with the corrections on the
        # page.
        if corrected := corrections(carry_over(new, edits)):
            new, collation = draft(corrected)
        try:
            merged = merge_report(new, where.current.text, edits)
        except UnmergedEdits as error:
            with_edits = carry_over(new, edits)
            # The page contains edits that cannot be merged. It stays as it is, and the report is written to a new file.
            where = beside(where, target.files, str(error))
            merged = MergedReport(report=with_edits, text=render(with_edits), changed=True)
        del edits
    del new
    path = target.path.parent / where.name.rpartition("/")[2]
    document = _document(merged, collation, path, spent)
    before = where.current.data if where.current is not None else None
    changed = merged.changed or before is None or not consists_of(before, data_parts(document))
    if writes and changed:
        path = workspace.reports.write_report(where.name, merged.text, data_parts(document))
        # Do not store a merged text: it contains people's free edits, which are found by comparing the page with the
        # stored text.
        stored = StoredReport(path=where.name, text=merged.text if where.current is None else render(merged.report))
        workspace.store.analyses.put_report(run.id, stored)
    if writes:
        workspace.store.analyses.put_findings(run.id, document.findings)
    return AnalysisResult(
        run=run,
        report=merged.report,
        text=merged.text,
        name=where.name,
        path=path,
        state="unchanged" if not changed else "updated" if where.current is not None else "new",
        analysis=document.model_copy(update={"changed": changed}),
        notes=tuple(_notes(where, merged)),
    )


def _notes(where: ReportPlacement, merged: MergedReport) -> Iterator[str]:
    if where.message:
        yield where.message
    if where.current is not None and merged.changed and not has_data(where.current.text):
        yield (
            f"{where.name} was written by an earlier version; it now has the new form and keeps people's labels, "
            "`Reviewer:` lines, notes and actions"
        )


def corrections(report: Report) -> dict[str, Correction]:
    """Return the corrections that people made to labels of the judge, keyed by eval path."""
    return {
        path: Correction(classification=entry.classification, cause_kind=entry.cause_kind)
        for entry in report.entries
        if entry.judge and entry.classification and entry.classification != entry.judge.classification
        for path in entry.paths
    }


def _document(merged: MergedReport, collation: Collation, path: Path, spent: Spent) -> Analysis:
    document = analysis_document(
        merged.report, collation.findings, report_path=str(path), changed=merged.changed, spent=spent
    )
    return document.model_copy(update={"actions_taken": actions_in(merged.report.actions_taken, document)})


def commit_report(library: ReportsFolder, done: AnalysisResult) -> str:
    """Commit the page, its data and the other files that evalscribe keeps in the reports folder, and nothing else.

    Return the commit id. Raises `EvalscribeError` with the reason if git fails.
    """
    beside = done.path.with_name(data_name(done.path.name))
    library_files = [library.root / name for name in OWN_FILES]
    return library.commit(done.path, commit_message(done.report), [beside, *library_files])
