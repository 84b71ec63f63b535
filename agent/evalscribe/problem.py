"""What `reports check` finds: problems with their lines, and what it looked at."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from evalscribe import prose
from evalscribe.ids import Frozen

Level = Literal["error", "warning", "notice"]
LEVELS: tuple[Level, ...] = ("error", "warning", "notice")
WHAT_LIMIT = 600


def tame(text: str) -> str:
    """One line in which no runner of a CI finds a command of its older kind, which may stand anywhere (`##[error]`)."""
    return re.sub(r"##(?=\[|vso)", "# #", prose.one_line(text))


Words = Annotated[str, AfterValidator(tame)]
What = Annotated[str, AfterValidator(lambda text: prose.cut(tame(text), WHAT_LIMIT))]


class Problem(Frozen):
    """One thing that is wrong with a report, or worth knowing."""

    file: Words
    """Path of the report, relative to where the reader looks from."""
    line: Annotated[int, Field(ge=1)]
    level: Level
    what: What
    """One line; quotes other people's text."""


class CheckedReport(Frozen):
    file: Words
    name: Words
    """Below the reports folder; of a file elsewhere only its own name."""
    ours: bool
    """Whether it is a report of evalscribe; every other is a person's, in a form of their own."""
    summary: tuple[Words, ...] = ()
    """Title and first lines as the report's content makes them, in markdown; none where it cannot be read."""
    quotations: int = 0
    """How many quotations it prints."""
    not_compared: Words | None = None
    """Why they were not compared with the evidence; None where they were, or there are none."""


class Checked(Frozen):
    """The outcome of one check."""

    reports: tuple[CheckedReport, ...] = ()
    """By name."""
    problems: tuple[Problem, ...] = ()
    """By file and line."""
    notes: tuple[Words, ...] = ()
    """What concerns no single line: quotations that could not be compared, and why."""

    def of(self, level: Level) -> tuple[Problem, ...]:
        return tuple(problem for problem in self.problems if problem.level == level)

    @property
    def wrong(self) -> int:
        """How many reports have errors."""
        return len({problem.file for problem in self.of("error")})
