"""A problem before anybody knows which file it is in."""

from typing import NamedTuple

from evalscribe.model.report import ProblemLevel


class Said(NamedTuple):
    line: int
    level: ProblemLevel
    what: str
