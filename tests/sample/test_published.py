"""The sample's report in `reports/` is what the command writes, and shows what it is meant to."""

import pytest

from evalscribe.model.report import Report
from sample.published import DATE, REPORTS, analysed
from sample.remake import texts
from support.report_pages import report_at

REPORT = f"example/sample-model-1/smp7q2ka_{DATE}.md"


@pytest.fixture(scope="module")
def report() -> Report:
    return report_at(REPORTS / REPORT)


def test_reports_are_what_the_command_writes() -> None:
    committed = {name: text for name, text in texts(REPORTS).items() if name != "README.md"}
    assert analysed() == committed


def test_labels_of_the_sample_are_right(report: Report) -> None:
    labels = {entry.evals[0].path: (entry.classification, entry.cause_kind) for entry in report.entries}
    assert {path: label for path, (label, _) in labels.items()} == {
        "basics/003-schedule": "MODEL_FAULT",
        "cli/001-args": "MODEL_FAULT",
        "deps/001-lock": "KNOWN_GAP",
        "http/001-retry": "OVERLY_STRICT",
        "query/007-range": "AMBIGUOUS_TASK",
        "query/010-page": "MODEL_FAULT",
        "style/002-loop": "OVERLY_STRICT",
        "style/005-any": "KNOWN_GAP",
        "text/004-tags": "KNOWN_GAP",
        "types/004-ids": "MODEL_FAULT",
    }
    assert labels["deps/001-lock"][1] == "infrastructure"
    assert labels["http/001-retry"][1] == "harness"
    assert [entry.evals[0].path for entry in report.entries if entry.uncertain] == ["query/007-range"]


def test_earlier_report_is_remembered(report: Report) -> None:
    seen = {entry.evals[0].path: entry.recurrence.kind for entry in report.entries if entry.recurrence.kind != "new"}
    assert seen == {
        "basics/003-schedule": "repeat",
        "http/001-retry": "fix-in-doubt",
        "style/005-any": "repeat",
        "types/004-ids": "changed",
    }
    assert report.resolved == ("basics/001-hello", "query/002-sort")


def test_every_printed_quotation_is_verified(report: Report) -> None:
    snippets = [snippet for entry in report.entries for snippet in entry.snippets]
    assert len(snippets) >= len(report.entries)
    assert {snippet.status for snippet in snippets} == {"verified"}
