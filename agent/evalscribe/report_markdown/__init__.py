"""The report as markdown: `parse(render(report)) == report`. Its layout is a contract and cannot be overridden."""

from evalscribe.report_markdown.front_matter import run_of
from evalscribe.report_markdown.labels import Label
from evalscribe.report_markdown.labels import render as label_text
from evalscribe.report_markdown.page import parse, render
from evalscribe.report_markdown.places import Place, places
from evalscribe.report_markdown.unreadable import ConflictingEdits, UnreadableReport

__all__ = [
    "ConflictingEdits",
    "Label",
    "Place",
    "UnreadableReport",
    "label_text",
    "parse",
    "places",
    "render",
    "run_of",
]
