"""The report as markdown: `parse(render(report)) == report`. Its layout is a contract and cannot be overridden."""

from evalscribe.report_markdown.front_matter import run_of
from evalscribe.report_markdown.page import parse, render
from evalscribe.report_markdown.unreadable import ConflictingEdits, UnreadableReport

__all__ = ["ConflictingEdits", "UnreadableReport", "parse", "render", "run_of"]
