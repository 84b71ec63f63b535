"""Comparisons as markdown: documents of a kind of their own, which are written and never read as reports."""
