"""How far a run is that somebody waits for or scores again: a bar on standard error where there is a terminal."""

from collections.abc import Mapping

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn

from evalscribe.cli.display.bar import Bar
from evalscribe.model.experiment import ExperimentRun, ItemVerdict


class RunDisplay(Bar):
    def __init__(self) -> None:
        super().__init__(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._task = self._bar.add_task("", total=None)

    def tried(self, run: ExperimentRun, tally: Mapping[ItemVerdict, int]) -> None:
        """How many tries are done, and how many of them did not pass."""
        done = sum(tally.values())
        others = done - tally.get("passed", 0)
        told = f"{run.state}, {others:,} not passed" if others else run.state
        self._bar.update(self._task, description=told, completed=done, total=run.tries)

    def rescored(self, done: int, total: int) -> None:
        self._bar.update(self._task, description="Scoring", completed=done, total=total)
