"""Put a report where it belongs, with what people wrote into the last one."""

from collections.abc import Iterable

from evalscribe.app.desk import Desk
from evalscribe.app.outcomes import Analyzed
from evalscribe.chat import Usage
from evalscribe.compose import analysis
from evalscribe.finding import Finding
from evalscribe.ports import Library, StoredReport
from evalscribe.publish import merge, place
from evalscribe.report import Report
from evalscribe.run import Run


def publish(desk: Desk, run: Run, report: Report, findings: Iterable[Finding], usage: Usage) -> Analyzed:
    """Write the run's report, unless nothing in it changed.

    Raises `DataError` where people's edits contradict each other or could not be kept; then nothing is written.
    """
    stored = desk.store.get_report(run.id)
    files = desk.library.of_model(run.provider, run.model)
    where = place(run, report.date, files, stored.text if stored else None)
    last_written = stored.text if stored and stored.path == where.name else None
    merged = merge(report, where.current, last_written)
    if merged.changed:
        path = desk.library.write(where.name, merged.text)
        desk.store.put_report(run.id, StoredReport(path=where.name, text=merged.text))
    else:
        path = next(file.path for file in files if file.name == where.name)
    said = analysis(merged.report, findings, report_path=str(path), changed=merged.changed, usage=usage)
    return Analyzed(
        run=run,
        report=merged.report,
        text=merged.text,
        path=path,
        state="unchanged" if not merged.changed else "updated" if where.current is not None else "new",
        analysis=said,
        notes=(where.message,) if where.message else (),
    )


def committed(library: Library, done: Analyzed) -> str:
    """Commit the report alone; the commit's id. Raises `EvalscribeError` with the reason where git refuses."""
    run, revision = done.report.run, done.report.revision
    again = f", revision {revision}" if revision > 1 else ""
    return library.commit(done.path, f"Analyze {run.model}, run {run.id[:8]}{again}")
