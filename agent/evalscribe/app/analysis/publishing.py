"""Put a report where it belongs, with what people wrote into the last one."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from evalscribe.app.analysis.failures import Spent
from evalscribe.app.analysis.outcomes import Analyzed
from evalscribe.app.analysis.undecided import standing_verdicts
from evalscribe.errors import EvalscribeError
from evalscribe.model.analysis import Analysis
from evalscribe.model.finding import Collation, Correction, Verdict
from evalscribe.model.protocols import Library
from evalscribe.model.report import Report
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
from evalscribe.workspace import Workspace

Draft = Callable[[Mapping[str, Correction]], tuple[Report, Collation]]
"""The report as if it were the first, its patterns and recommendations following the corrections by path."""


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


def target(workspace: Workspace, run: Run, date: str) -> ReportTarget:
    stored = workspace.store.analyses.get_report(run.id)
    files = workspace.reports.of_model(run.provider, run.model, run.id)
    where = place_report(run, date, files, stored.text if stored else None)
    last_written = stored.text if stored and stored.path == where.name else None
    path = next((file.path for file in files if file.name == where.name), workspace.reports.root / where.name)
    began = _begun(workspace.reports, where) if last_written is None else None
    return ReportTarget(where=where, path=path, last_written=last_written, began=began)


def publish(
    workspace: Workspace, run: Run, target: ReportTarget, draft: Draft, spent: Spent, *, writes: bool = True
) -> Analyzed:
    """Write the run's report, unless nothing in it changed. `spent` is what this command consumed.

    Without `writes` it is only told what would be written, and where.
    Raises `DataError` where people's edits contradict each other or could not be kept; then nothing is written.
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
    return Analyzed(
        run=run,
        report=merged.report,
        text=merged.text,
        path=path,
        state="unchanged" if not merged.changed else "updated" if where.current is not None else "new",
        analysis=document,
        notes=tuple(_notes(where, merged, known=bool(last_written or began))),
    )


def _begun(library: Library, where: ReportPlacement) -> str | None:
    """What git has of the text that people began with."""
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
    """The labels of people that differ from the judge's, by the path of the eval."""
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


def committed(library: Library, done: Analyzed) -> str:
    """Commit the report alone; the commit's id. Raises `EvalscribeError` with the reason where git refuses."""
    return library.commit(done.path, commit_message(done.report))
