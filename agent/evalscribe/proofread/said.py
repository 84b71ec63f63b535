"""A problem before anybody knows which file it is in."""

from typing import NamedTuple

from evalscribe.problem import Level


class Said(NamedTuple):
    line: int
    level: Level
    what: str
