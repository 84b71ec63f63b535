"""The report that the last stage of an analysis writes."""

from pathlib import Path

import pytest

from evalscribe.analysis.analyze import open_analysis
from evalscribe.analysis.studio import StudioWatcher
from evalscribe.reports.page import render
from evalscribe.reports.reading import PageSource, read_page
from evalscribe.settings import Options
from evalscribe.workspace import Workspace


async def written() -> Path:
    """Analyse the sample, and return the file that the stage `write` names."""
    async with Workspace(Options(judge="rules")) as workspace:
        async with open_analysis(workspace, "sample", StudioWatcher(), date="2026-11-02") as analysis:
            name = await analysis.write()
        assert name is not None
        return workspace.reports.root / name


async def test_first_page_is_the_rendered_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = await written()
    source = PageSource(name=page.name, text=page.read_text(), data=page.with_suffix(".json").read_text())
    assert render(read_page(source).written) == page.read_text()


async def test_report_beside_an_edited_page_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = await written()
    # The edit of a label changes the generated text that the second edit is in.
    edited = (
        page.read_text().replace("\n**MODEL_FAULT**", "\n**AMBIGUOUS_TASK**", 1).replace("\n**", "\nWe think: **", 1)
    )
    page.write_text(edited)
    beside = await written()
    assert (beside == page, beside.is_file()) == (False, True)
    assert page.read_text() == edited
