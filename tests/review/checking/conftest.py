"""The report that pages are made of."""

from report_markdown.conftest import report

__all__ = ["report"]
