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


def file(name: str, text: str, data: str | None = None) -> ReportFile:
    return ReportFile(path=Path("/") / name, name=name, text=text, data=data)


@pytest.fixture
def of_run(report: Report) -> Callable[[str, str], ReportFile]:
    """Return a function that creates a file with the report of a run."""

    def of(run_id: str, name: str) -> ReportFile:
        run_report = replaced(report, run=replaced(report.run, id=run_id))
        return file(f"{HERE}/{name}", page_of(run_report), on_disk("", run_report).data)

    return of


def test_new_run_gets_a_new_file() -> None:
    assert place_report(RUN, DATE, []) == ReportPlacement(name=f"{HERE}/runrunru_{DATE}.md")


@pytest.mark.parametrize("name", ["runrunru_2026-11-02.md", "renamed.md", "runrunru_2026-11-02.evalscribe.md"])
def test_existing_file_of_the_run_is_used_whatever_its_date_and_name(
    name: str, of_run: Callable[[str, str], ReportFile]
) -> None:
    own = of_run("runrunrun1", name)
    files = [own, file(f"{HERE}/runrunru_{DATE}.md", "# by hand")]
    assert place_report(RUN, DATE, files) == ReportPlacement(name=f"{HERE}/{name}", current=source_of(own))


def test_file_name_is_lengthened_if_another_run_has_the_same_prefix(of_run: Callable[[str, str], ReportFile]) -> None:
    files = [of_run("runrunrun2", "runrunru_2026-11-02.md")]
    assert place_report(RUN, DATE, files) == ReportPlacement(name=f"{HERE}/runrunrun1_{DATE}.md")
    files.append(of_run("runrun/run1", "runrunrun1_2026-11-02.md"))
    assert place_report(RUN, DATE, files).name.startswith(f"{HERE}/runrunrun1-")


def test_free_form_report_is_not_overwritten() -> None:
    placement = place_report(RUN, DATE, [file(f"{HERE}/runrunru_{DATE}.md", "# Model X failed\n")])
    assert placement.name == f"{HERE}/runrunru_{DATE}.evalscribe.md"
    assert placement.current is None
    assert placement.message
    assert "is left as it is" in placement.message


def test_broken_report_is_not_overwritten_and_its_lines_are_named(of_run: Callable[[str, str], ReportFile]) -> None:
    whole = of_run("runrunrun1", "runrunru_2026-11-02.md")
    broken = whole.model_copy(update={"text": whole.text.replace("## Failures", "## Musings")})
    placement = place_report(RUN, DATE, [broken])
    assert placement.name == f"{HERE}/runrunru_2026-11-02.evalscribe.md"
    assert placement.message
    assert "lines 24 and 25" in placement.message
    beside = of_run("runrunrun1", "runrunru_2026-11-02.evalscribe.md")
    again = place_report(RUN, DATE, [broken, beside])
    assert (again.name, again.current) == (placement.name, source_of(beside))
    assert again.message
    both = place_report(RUN, DATE, [broken, broken.model_copy(update={"name": placement.name})])
    assert both.name == f"{HERE}/runrunru_2026-11-02-2.evalscribe.md"


@pytest.mark.parametrize("data", [None, "{"])
def test_page_without_valid_data_is_not_overwritten_and_the_data_file_is_named(
    data: str | None, of_run: Callable[[str, str], ReportFile]
) -> None:
    alone = of_run("runrunrun1", "runrunru_2026-11-02.md").model_copy(update={"data": data})
    placement = place_report(RUN, DATE, [alone])
    assert placement.name == f"{HERE}/runrunru_2026-11-02.evalscribe.md"
    assert placement.message
    assert "runrunru_2026-11-02.json" in placement.message


def test_edited_label_does_not_change_the_placement(of_run: Callable[[str, str], ReportFile]) -> None:
    own = of_run("runrunrun1", "x.md")
    edited = own.text.replace("### 1. a/1\n**MODEL_FAULT**", "### 1. a/1\n**KNOWN_GAP**")
    assert edited != own.text
    own = own.model_copy(update={"text": edited})
    assert place_report(RUN, DATE, [own]) == ReportPlacement(name=f"{HERE}/x.md", current=source_of(own))


@pytest.mark.parametrize("torn", ["<<<<<<< HEAD\n---\n", "A word first.\n\n---\n"])
def test_report_with_broken_front_matter_is_not_overwritten_and_the_line_is_named(
    torn: str, of_run: Callable[[str, str], ReportFile]
) -> None:
    own = of_run("runrunrun1", "runrunru_2026-11-02.md")
    placement = place_report(RUN, DATE, [own.model_copy(update={"text": own.text.replace("---\n", torn, 1)})])
    assert placement.name == f"{HERE}/runrunru_2026-11-02.evalscribe.md"
    assert placement.message
    assert "line 1" in placement.message


def test_hostile_run_and_model_names_stay_inside_the_folder() -> None:
    run = Run(id="../../etc/passwd", provider="..", model="/../..\\x/\0")
    parts = place_report(run, DATE, []).name.split("/")
    assert ".." not in parts
    assert all(part and part.isprintable() for part in parts)
