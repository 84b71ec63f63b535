"""Every way of editing a report: read back, merged, or refused with the line, and no word of a person's is lost."""

import random
from collections.abc import Mapping

import pytest

from evalscribe.model.report import Report
from evalscribe.reports.page import render
from support import report_edits
from support.example_report import example_report


@pytest.fixture
def reports(report: Report) -> Mapping[str, Report]:
    return {"labels and a group": report, "notes and reviewers": example_report()}


@pytest.mark.parametrize("again", [True, False], ids=["same verdicts", "other verdicts"])
@pytest.mark.parametrize("kind", list(report_edits.KINDS))
def test_no_edit_is_lost(kind: str, again: bool, reports: Mapping[str, Report]) -> None:
    done = 0
    for name, report in reports.items():
        for base in report_edits.BASES:
            page = report_edits.Page(render(report, report_edits.DATA), report)
            edit = report_edits.KINDS[kind](page, random.Random(f"{kind} {name}"))
            if edit is not None:
                report_edits.judge(edit, report, base, again=again)
                done += 1
    assert done, "no report has anything to edit in this way"


def test_there_are_a_hundred_kinds() -> None:
    assert len(report_edits.KINDS) >= 100
