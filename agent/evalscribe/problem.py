"""What `reports check` finds: problems with their lines, and what it looked at."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from evalscribe import prose
from evalscribe.ids import Frozen

Level = Literal["error", "warning", "notice"]
LEVELS: tuple[Level, ...] = ("error", "warning", "notice")
WHAT_LIMIT = 600


def _tame(text: str) -> str:
    """One line in which no runner of a CI finds a command of its older kind, which may stand anywhere (`##[error]`)."""
    return prose.cut(re.sub(r"##(?=\[|vso)", "# #", prose.one_line(text)), WHAT_LIMIT)


class Problem(Frozen):
    """One thing that is wrong with a report, or worth knowing."""

    file: str
    """Path of the report, relative to where the reader looks from."""
    line: Annotated[int, Field(ge=1)]
    level: Level
    what: Annotated[str, AfterValidator(_tame)]
    """One line; quotes other people's text."""


class CheckedReport(Frozen):
    file: str
    name: str
    """Below the reports folder; of a file elsewhere only its own name."""
    ours: bool
    """Whether it is a report of evalscribe; every other is a person's, in a form of their own."""
    summary: tuple[str, ...] = ()
    """Title and first lines as the report's content makes them, in markdown; none where it cannot be read."""
    quotations: int = 0
    """How many quotations it prints."""
    compared: bool = False
    """Whether they were compared with the evidence."""


class Checked(Frozen):
    """The outcome of one check."""

    reports: tuple[CheckedReport, ...] = ()
    """By name."""
    problems: tuple[Problem, ...] = ()
    """By file and line."""

    def of(self, level: Level) -> tuple[Problem, ...]:
        return tuple(problem for problem in self.problems if problem.level == level)

    @property
    def wrong(self) -> int:
        """How many reports have errors."""
        return len({problem.file for problem in self.of("error")})
