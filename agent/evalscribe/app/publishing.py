"""Put a report where it belongs, with what people wrote into the last one."""

from collections.abc import Callable, Mapping
from pathlib import Path

from evalscribe.analysis import Analysis
from evalscribe.app.desk import Desk
from evalscribe.app.failures import Spent
from evalscribe.app.outcomes import Analyzed
from evalscribe.compose import analysis
from evalscribe.finding import Correction
from evalscribe.pattern import Collation
from evalscribe.ports import Library, StoredReport
from evalscribe.publish import Merged, merge, place
from evalscribe.recall import actions_in
from evalscribe.render.pull_request import commit_message
from evalscribe.report import Report
from evalscribe.run import Run

Draft = Callable[[Mapping[str, Correction]], tuple[Report, Collation]]
"""The report as if it were the first, its patterns and recommendations following the corrections by path."""


def publish(desk: Desk, run: Run, date: str, draft: Draft, spent: Spent) -> Analyzed:
    """Write the run's report, unless nothing in it changed. `spent` is what this command consumed.

    Raises `DataError` where people's edits contradict each other or could not be kept; then nothing is written.
    """
    stored = desk.store.get_report(run.id)
    files = desk.library.of_model(run.provider, run.model)
    where = place(run, date, files, stored.text if stored else None)
    last_written = stored.text if stored and stored.path == where.name else None
    report, collation = draft({})
    if where.current is not None:
        report, collation = draft(corrections(merge(report, where.current, last_written).report))
    merged = merge(report, where.current, last_written)
    if merged.changed:
        path = desk.library.write(where.name, merged.text)
        desk.store.put_report(run.id, StoredReport(path=where.name, text=merged.text))
    else:
        path = next(file.path for file in files if file.name == where.name)
    return Analyzed(
        run=run,
        report=merged.report,
        text=merged.text,
        path=path,
        state="unchanged" if not merged.changed else "updated" if where.current is not None else "new",
        analysis=_document(merged, collation, path, spent),
        notes=(where.message,) if where.message else (),
    )


def corrections(report: Report) -> dict[str, Correction]:
    """The labels of people that differ from the judge's, by the path of the eval."""
    return {
        path: Correction(classification=entry.classification, cause_kind=entry.cause_kind)
        for entry in report.entries
        if entry.judge and entry.classification and entry.classification != entry.judge.classification
        for path in entry.paths
    }


def _document(merged: Merged, collation: Collation, path: Path, spent: Spent) -> Analysis:
    said = analysis(merged.report, collation.findings, report_path=str(path), changed=merged.changed, spent=spent)
    return said.model_copy(update={"actions_taken": actions_in(merged.report.actions_taken, said)})


def committed(library: Library, done: Analyzed) -> str:
    """Commit the report alone; the commit's id. Raises `EvalscribeError` with the reason where git refuses."""
    return library.commit(done.path, commit_message(done.report))
