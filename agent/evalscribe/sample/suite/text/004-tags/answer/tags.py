"""Hashtags."""

import re


def tags(text: str) -> set[str]:
    """The hashtags of a text, lower case."""
    return {tag.lower() for tag in re.findall(r"#(\w+)", text)}
