"""`parse(render(r)) == r`, and nothing that a report holds can become more than text."""

import importlib.util
from pathlib import Path

from hypothesis import HealthCheck, given, settings

from evalscribe.report import Report
from evalscribe.report_markdown import parse, render

spec = importlib.util.spec_from_file_location("made_reports", Path(__file__).with_name("made_reports.py"))
assert spec
assert spec.loader
made_reports = importlib.util.module_from_spec(spec)
spec.loader.exec_module(made_reports)

often = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


def test_round_trip(report: Report) -> None:
    assert parse(render(report)) == report


@often
@given(made_reports.reports)
def test_every_report_round_trips(report: Report) -> None:
    assert parse(render(report)) == report
