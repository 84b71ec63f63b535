"""Extract headings from markdown text."""

import re

HEADING = re.compile(r"^(#{1,6})\s+(.+)$")


def headings(text: str) -> list[tuple[int, str]]:
    """Return (level, title) for every heading outside of fenced code."""
    result: list[tuple[int, str]] = []
    in_code = False
    for line in text.splitlines():
        line = line.strip()
        if line.startswith("```"):
            in_code = not in_code
            continue
        match = HEADING.match(line)
        if match and not in_code:
            result.append((len(match.group(1)), match.group(2).strip()))
    return result
