"""Read and find reports: ours by front matter, all others as free-form pages."""

from dataclasses import dataclass

from evalscribe.errors import DataError
from evalscribe.model.analysis import Analysis, analysis_from_report
from evalscribe.model.report import Report
from evalscribe.reports.freeform.blocks import split_blocks
from evalscribe.reports.freeform.read import front_values, iso_date, read_freeform
from evalscribe.reports.freeform.sections import actions_in
from evalscribe.reports.markdown import page

OURS = "evalscribe-report/"


@dataclass(frozen=True, slots=True)
class ParsedReport:
    """A report as read, with what the document has no field for."""

    analysis: Analysis
    date: str | None
    """ISO date, from the report, else from its file name."""
    run_ids: tuple[str, ...]
    """Every run that it says it is about."""
    other_experiments: tuple[str, ...]
    """Experiments that it speaks of besides the one whose failures it lists."""


def read_report(text: str, name: str) -> Analysis:
    """What a report says, null where it does not say. Raises `DataError` for what is no readable report."""
    return parse_report(text, name).analysis


def parse_report(text: str, name: str) -> ParsedReport:
    """As `read_report`; `name` is the report's file name and dates a report that has no date of its own.

    The text is redacted, because people edit reports and the result goes into prompts and new reports.
    """
    try:
        return _reading(text, name)
    except DataError as error:
        raise DataError(f"{name}: {error}") from error


def _reading(text: str, name: str) -> ParsedReport:
    from evalscribe.redaction.redact import redact  # `reports list` on an empty folder imports no judging code

    text = redact(text)
    kind = _kind(text)
    if kind is not None and not kind.startswith(OURS):
        raise DataError(f"a document of kind {kind!r}, not a report")
    if kind is not None:
        report = page.parse(text)
        return ParsedReport(_ours(report), report.date, (report.run.id,), ())
    analysis, header = read_freeform(split_blocks(text))
    return ParsedReport(analysis, header.date or iso_date(name), header.run_ids, header.other_experiments)


def _ours(report: Report) -> Analysis:
    analysis = analysis_from_report(report)
    return analysis.model_copy(update={"actions_taken": actions_in(report.actions_taken, analysis)})


def _kind(text: str) -> str | None:
    """The `kind` of the front matter, read without reading the rest."""
    head = text.lstrip("\ufeff").replace("\r\n", "\n")
    if not head.startswith("---\n"):
        return None
    front, end, _ = head[4:].partition("\n---")
    kind = front_values(front).get("kind") if end else None
    return str(kind) if kind is not None else None
