"""How far a run is that somebody waits for or scores again: a bar on standard error where there is a terminal."""

import sys
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from evalscribe.experiment import ExperimentRun, ItemVerdict


class RunDisplay:
    def __init__(self) -> None:
        console = Console(file=sys.stderr, highlight=False, soft_wrap=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._task = self._bar.add_task("", total=None)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def tried(self, run: ExperimentRun, tally: Mapping[ItemVerdict, int]) -> None:
        """How many tries are done, and how many of them did not pass."""
        done = sum(tally.values())
        others = done - tally.get("passed", 0)
        told = f"{run.state}, {others:,} not passed" if others else run.state
        self._bar.update(self._task, description=told, completed=done, total=run.tries)

    def rescored(self, done: int, total: int) -> None:
        self._bar.update(self._task, description="Scoring", completed=done, total=total)
