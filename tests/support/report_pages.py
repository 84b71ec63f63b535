"""Read a report from disk in the same way as the product: its data, with the edits of the page in force."""

from pathlib import Path

from evalscribe.model.report import Report
from evalscribe.reports.reading import PageSource, read_page


def report_at(page: Path) -> Report:
    data = page.with_suffix(".json")
    source = PageSource(
        name=page.name, text=page.read_text("utf-8"), data=data.read_text("utf-8") if data.exists() else None
    )
    return read_page(source).report
