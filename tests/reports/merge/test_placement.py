"""A run has one file; no other file is ever overwritten."""

from collections.abc import Callable
from pathlib import Path

import pytest

from evalscribe.model.report import Report, replaced
from evalscribe.model.repository import ReportFile
from evalscribe.model.run import Run
from evalscribe.reports.placement import ReportPlacement, place_report
from evalscribe.reports.reading import source_of
from support.edited_reports import on_disk, page_of

RUN = Run(id="runrunrun1", provider="example", model="example/m-1")
DATE = "2026-12-01"
HERE = "example/m-1"


def file(name: str, text: str) -> ReportFile:
    return ReportFile(path=Path("/") / name, name=name, text=text)


@pytest.fixture
def of_run(report: Report) -> Callable[[str], str]:
    return lambda run_id: render(replaced(report, run=replaced(report.run, id=run_id)))


def test_a_new_run() -> None:
    assert place_report(RUN, DATE, []) == ReportPlacement(name=f"{HERE}/runrunru_{DATE}.md")


@pytest.mark.parametrize("name", ["runrunru_2026-11-02.md", "renamed.md", "runrunru_2026-11-02.evalscribe.md"])
def test_the_runs_own_file_whatever_its_date_and_name(name: str, of_run: Callable[[str], str]) -> None:
    text = of_run("runrunrun1")
    files = [file(f"{HERE}/{name}", text), file(f"{HERE}/runrunru_{DATE}.md", "# by hand")]
    assert place_report(RUN, DATE, files) == ReportPlacement(name=f"{HERE}/{name}", current=text)


def test_eight_characters_of_another_run(of_run: Callable[[str], str]) -> None:
    files = [file(f"{HERE}/runrunru_2026-11-02.md", of_run("runrunrun2"))]
    assert place_report(RUN, DATE, files) == ReportPlacement(name=f"{HERE}/runrunrun1_{DATE}.md")
    files.append(file(f"{HERE}/runrunrun1_2026-11-02.md", of_run("runrun/run1")))
    assert place_report(RUN, DATE, files).name.startswith(f"{HERE}/runrunrun1-")


def test_a_free_form_report_is_left_alone() -> None:
    found = place_report(RUN, DATE, [file(f"{HERE}/runrunru_{DATE}.md", "# Model X failed\n")])
    assert found.name == f"{HERE}/runrunru_{DATE}.evalscribe.md"
    assert found.current is None
    assert found.message
    assert "is left as it is" in found.message


def test_a_broken_report_is_left_alone_and_the_line_named(of_run: Callable[[str], str]) -> None:
    text = of_run("runrunrun1")
    broken = file(f"{HERE}/runrunru_2026-11-02.md", text.replace("## Patterns", "## Musings"))
    found = place_report(RUN, DATE, [broken])
    assert found.name == f"{HERE}/runrunru_2026-11-02.evalscribe.md"
    assert found.message
    assert "line " in found.message
    beside = file(found.name, text)
    again = place_report(RUN, DATE, [broken, beside])
    assert (again.name, again.current) == (found.name, text)
    assert again.message
    both = place_report(RUN, DATE, [broken, file(found.name, broken.text)])
    assert both.name == f"{HERE}/runrunru_2026-11-02-2.evalscribe.md"


def test_contradicting_labels_are_for_merge_to_refuse(of_run: Callable[[str], str]) -> None:
    text = of_run("runrunrun1")
    edited = text.replace("1. a/1: MODEL_FAULT", "1. a/1: KNOWN_GAP").replace(
        "tests | MODEL_FAULT", "tests | OVERLY_STRICT"
    )
    assert place_report(RUN, DATE, [file(f"{HERE}/x.md", edited)]) == ReportPlacement(
        name=f"{HERE}/x.md", current=edited
    )


def test_front_matter_that_is_broken(of_run: Callable[[str], str]) -> None:
    text = of_run("runrunrun1").replace("kind: evalscribe-report/1", "kind: [")
    found = place_report(RUN, DATE, [file(f"{HERE}/runrunru_{DATE}.md", text)])
    assert found.name == f"{HERE}/runrunru_{DATE}.evalscribe.md"


@pytest.mark.parametrize("torn", ["<<<<<<< HEAD\n---\n", "A word first.\n\n---\n"])
def test_front_matter_that_is_torn_is_told_with_its_line_on_any_day(torn: str, of_run: Callable[[str], str]) -> None:
    text = of_run("runrunrun1").replace("---\n", torn, 1)
    found = place_report(RUN, DATE, [file(f"{HERE}/runrunru_2026-11-02.md", text)])
    assert found.name == f"{HERE}/runrunru_2026-11-02.evalscribe.md"
    assert found.message
    assert "line 1" in found.message


def test_hostile_names_stay_inside() -> None:
    run = Run(id="../../etc/passwd", provider="..", model="/../..\\x/\0")
    parts = place_report(run, DATE, []).name.split("/")
    assert ".." not in parts
    assert all(part and part.isprintable() for part in parts)
