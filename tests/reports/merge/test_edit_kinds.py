"""Every way of editing a report: read back, merged, or refused with the line, and no word of a person's is lost."""

from collections.abc import Mapping

import pytest

from evalscribe.model.report import Report
from support import report_edits
from support.example_report import example_report


@pytest.fixture
def reports(report: Report) -> Mapping[str, Report]:
    return {"labels and a group": report, "notes and reviewers": example_report()}


@pytest.mark.parametrize("kind", list(report_edits.KINDS))
def test_no_edit_is_lost(kind: str, reports: Mapping[str, Report]) -> None:
    outcomes = [
        report_edits.judge(kind, f"{kind} {name}", report, base, again=again)
        for name, report in reports.items()
        for base in report_edits.BASES
        for again in (True, False)
    ]
    assert any(outcomes), "no report has anything to edit in this way"


def test_there_are_a_hundred_kinds() -> None:
    assert len(report_edits.KINDS) >= 100
