"""The data file beside a page contains the whole report."""

import json

from hypothesis import given, settings

from evalscribe.model.analysis import Analysis, analysis_from_report
from evalscribe.model.report import Report, join_entries, replaced
from evalscribe.reports.data import OF_ONE_COMMAND, consists_of, data_parts, read_data, report_from_analysis, write_data
from support import generated_reports

DATA = "x_2026-01-01.json"


def without_quotations(report: Report) -> Report:
    """Remove the snippets, which are selected again from the citations in the data."""
    plain = (join_entries([replaced(one, snippets=()) for one in entry.each]) for entry in report.entries)
    return replaced(report, entries=tuple(plain))


@settings(max_examples=40)
@given(generated_reports.reports)
def test_any_report_is_restored_from_its_data(report: Report) -> None:
    text = write_data(analysis_from_report(report))
    analysis = read_data(text, DATA)
    assert isinstance(analysis, Analysis)
    back = report_from_analysis(analysis)
    assert without_quotations(back) == without_quotations(report)


@settings(max_examples=40)
@given(generated_reports.reports)
def test_the_parts_of_a_data_file_are_the_whole_document_line_by_line(report: Report) -> None:
    analysis = analysis_from_report(report)
    text = write_data(analysis)
    assert text.endswith("}\n")
    document = analysis.model_dump(mode="json", exclude_defaults=True, exclude=set(OF_ONE_COMMAND))
    assert text == json.dumps(document, ensure_ascii=False, indent=1) + "\n"
    assert consists_of(text, data_parts(analysis))
    assert not consists_of(text[:-1], data_parts(analysis))
    assert not consists_of(text + "\n", data_parts(analysis))
    assert not consists_of(text.replace('"run"', '"Run"'), data_parts(analysis))
