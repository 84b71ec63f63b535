import re


def slug(title: str) -> str:
    """Convert a title into a URL slug."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
