"""Who is told how an analysis goes."""

from typing import Protocol

from evalscribe.judging.verdicts import Judged
from evalscribe.model.run import Run


class Watcher(Protocol):
    """Hears of an analysis as it goes on; a surface shows it."""

    def started(self, run: Run) -> None: ...

    def imported(self, evals: int, progress: float) -> None:
        """So many evals of a file are imported; `progress` is from 0 to 1."""

    def fetched(self, done: int, total: int) -> None:
        """So much of the evidence is read."""

    def judged(self, event: Judged) -> None:
        """One group was answered."""

    def say(self, line: str) -> None:
        """Something a person should know: one line."""
