from evalscribe.report import Report
from evalscribe.report_markdown import parse, render


def test_round_trip(report: Report) -> None:
    assert parse(render(report)) == report
