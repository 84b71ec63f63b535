"""What a parser of tool output finds, before it is cited: shared by all of them."""

import re
from typing import NamedTuple

from evalscribe.model.evidence import Severity

PATH_LINE = re.compile(r"(?P<path>[^\s:()'\"<>|]{1,400}\.\w{1,8})[:(](?P<line>\d{1,7})\b")


class Found(NamedTuple):
    """One error in tool output: the lines that say it and the places that it names, as spelled there."""

    tool: str
    error: str
    first: int
    last: int
    code: str | None = None
    severity: Severity = "error"
    places: tuple[tuple[str, int], ...] = ()
    test: str | None = None


def place_in(text: str) -> tuple[tuple[str, int], ...]:
    """The first `path:line` or `path(line` of a text, if any."""
    match = PATH_LINE.search(text[:2000])
    return ((match["path"], int(match["line"])),) if match else ()
