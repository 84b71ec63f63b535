"""Comparisons as markdown: documents of a kind of their own, which are written and never read as reports."""

from evalscribe.report_markdown.comparison.document import KIND, document, same_runs
from evalscribe.report_markdown.comparison.matrix import as_csv, matrix_page
from evalscribe.report_markdown.comparison.page import comparison_page
from evalscribe.report_markdown.comparison.within import within_page

__all__ = ["KIND", "as_csv", "comparison_page", "document", "matrix_page", "same_runs", "within_page"]
