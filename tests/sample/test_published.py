"""The committed report and picture of the sample are up to date and have the intended content."""

import re
from xml.etree import ElementTree

import pytest

from evalscribe.model.report import Report
from sample.published import PICTURE, REPORT, REPORTS, analysed, picture
from sample.remake import texts
from support.report_pages import report_at


@pytest.fixture(scope="module")
def report() -> Report:
    return report_at(REPORTS / REPORT)


def test_committed_reports_match_the_analyze_command() -> None:
    committed = {name: text for name, text in texts(REPORTS).items() if name != "README.md"}
    assert analysed() == committed


def test_readme_picture_matches_the_current_output() -> None:
    committed = PICTURE.read_text("utf-8")
    assert picture() == committed
    assert picture(NO_COLOR="1", TERM="dumb", COLUMNS="40") == committed, "whatever terminal it is drawn in"
    words = " ".join("".join(ElementTree.fromstring(committed).itertext()).split())
    assert "sample-model-1: 10 of 24 evals failed" in words
    assert "Recommendations" in words
    assert "Net impact" not in words, "only the first screen"


def test_readme_picture_loads_no_external_resources() -> None:
    committed = PICTURE.read_text("utf-8")
    assert re.findall(r"https?://[^\s\"]+", committed) == ["http://www.w3.org/2000/svg"]
    assert {match[:1] for match in re.findall(r"url\(([^)]*)", committed)} == {"#"}
    assert {"import", "script", "image", "href"} & set(re.findall(r"[a-z]+", committed)) == set()


def test_sample_report_has_the_expected_labels(report: Report) -> None:
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


def test_earlier_report_determines_recurrence_and_resolved_evals(report: Report) -> None:
    recurrences = {
        entry.evals[0].path: entry.recurrence.kind for entry in report.entries if entry.recurrence.kind != "new"
    }
    assert recurrences == {
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
