"""Every way of editing a report: read right or refused with the line, and no word of a person's is lost."""

import random

import pytest

from evalscribe.model.report import Report
from evalscribe.reports.markdown.page import render
from support import report_edits


@pytest.mark.parametrize("kind", list(report_edits.KINDS))
def test_an_edit_is_read_or_refused_and_nothing_is_lost(kind: str, report: Report) -> None:
    text = render(report)
    edit = report_edits.KINDS[kind](report_edits.Page(text, report), random.Random(kind))
    if edit is None:
        pytest.skip("this report has nothing to edit in this way")
    report_edits.judge(edit, report, text)
    if edit.fate != "refused":  # some things can only be read without the text last written
        report_edits.judge(edit, report, None)
