"""Explorations as markdown: documents of a kind of their own, which are written and never read as reports."""

from evalscribe.report_markdown.exploration.page import KIND, exploration_page, same_question

__all__ = ["KIND", "exploration_page", "same_question"]
