"""Write reports as pages with data, and read them with the labels that people changed."""

from pathlib import Path

from evalscribe.model.analysis import analysis_from_report
from evalscribe.model.report import Report
from evalscribe.reports import reading
from evalscribe.reports.data import write_data
from evalscribe.reports.page import render
from evalscribe.reports.reading import PageSource

MODEL, STRICT, AMBIGUOUS, GAP = "MODEL_FAULT", "OVERLY_STRICT", "AMBIGUOUS_TASK", "KNOWN_GAP"


def read_labels(text: str) -> dict[str, str | None]:
    found = reading.read_report(text, "r.md").findings
    told = {one.eval: one.classification for one in found}
    assert len(told) == len(found)
    return told


def written(report: Report, name: str = "example/sample-model-1/smp7q2ka_2026-11-02.md") -> PageSource:
    """Return a report's page and data as evalscribe writes them."""
    page = PageSource(name=name, text="")
    data = write_data(analysis_from_report(report))
    return page.model_copy(update={"text": render(report), "data": data})


def load(page: Path) -> Report:
    """Return the report of a page on disk, with people's edits in force."""
    data = page.with_suffix(".json").read_text("utf-8")
    return reading.read_page(PageSource(name=page.name, text=page.read_text("utf-8"), data=data)).report
