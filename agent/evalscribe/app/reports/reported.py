"""What the report of a run says of its failures."""

from evalscribe.errors import DataError
from evalscribe.model.analysis import FindingSummary
from evalscribe.model.protocols import Library
from evalscribe.model.run import Run
from evalscribe.reports.reading import read_report
from evalscribe.text import name as printed


def findings_of(library: Library, run: Run) -> dict[str, FindingSummary]:
    """Of the run's report as it stands, people's corrections included, by printed path; none without a report."""
    for file in library.of_model(run.provider, run.model, run.id):
        try:
            report = read_report(file.text, file.name.rpartition("/")[2])
        except DataError:
            continue  # `reports check` says what is wrong with it
        if report.run.id == printed(run.id):
            return {one.eval: one for one in report.findings}
    return {}
