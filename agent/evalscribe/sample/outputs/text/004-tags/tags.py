"""Hashtag extraction."""

import re

HASHTAG = re.compile(r"#([A-Za-z0-9_]+)")


def tags(text: str) -> set[str]:
    """Return the set of lower-cased hashtags found in text."""
    return {match.group(1).lower() for match in HASHTAG.finditer(text)}
