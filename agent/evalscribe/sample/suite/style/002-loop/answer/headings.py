"""Headings of a markdown text."""

FENCE = "```"


def headings(text: str) -> list[tuple[int, str]]:
    """Level and title of each heading."""
    found, fenced = [], False
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith(FENCE):
            fenced = not fenced
        marks, _, title = line.partition(" ")
        if not fenced and set(marks) == {"#"} and len(marks) <= 6 and title.strip():
            found.append((len(marks), title.strip()))
    return found
