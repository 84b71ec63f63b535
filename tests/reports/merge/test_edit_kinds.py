"""Every kind of edit is read back, merged, or refused with its line; no text of a person is lost."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from evalscribe.model.report import Report
from evalscribe.reports.data import read_data, report_from_analysis
from support import report_edits
from support.example_report import example_report
from support.real_runs import analysed_by_rules


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
    if not any(outcomes):
        pytest.skip("only the real reports have something to edit in this way")


def test_at_least_a_hundred_kinds_of_edits_are_tried() -> None:
    assert len(report_edits.KINDS) >= 100


@pytest.fixture(scope="module")
def real_reports(tmp_path_factory: pytest.TempPathFactory) -> list[Report]:
    """Reports by the rules judge on the six real runs. Skips the test if the runs are missing."""
    data = os.environ.get("EVALSCRIBE_REAL_DATA")
    if not data:
        pytest.skip("EVALSCRIBE_REAL_DATA is not set")
    folder = analysed_by_rules(Path(data), tmp_path_factory)
    files = sorted(folder.glob("reports/**/*.json"))
    return [report_from_analysis(read_data(file.read_text("utf-8"), file.name)) for file in files]


@pytest.mark.parametrize("number", range(len(report_edits.KINDS)), ids=list(report_edits.KINDS))
def test_no_edit_of_a_real_report_is_lost(number: int, real_reports: list[Report]) -> None:
    """Each kind of edit is tried on one of the six reports, in turn."""
    kind = list(report_edits.KINDS)[number]
    report = real_reports[number % len(real_reports)]
    base = report_edits.BASES[number // len(real_reports) % len(report_edits.BASES)]
    report_edits.judge(kind, kind, report, base, again=number % 2 == 0)
