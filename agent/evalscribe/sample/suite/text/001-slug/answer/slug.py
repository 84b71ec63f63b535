"""Slugs."""

import re


def slug(title: str) -> str:
    """Words joined by dashes."""
    return "-".join(re.findall(r"[a-z0-9]+", title.lower()))
