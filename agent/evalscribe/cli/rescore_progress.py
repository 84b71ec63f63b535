"""What one sees while a run is scored again: a bar on standard error, where there is a terminal."""

import sys
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


class RescoreDisplay:
    def __init__(self) -> None:
        console = Console(file=sys.stderr, highlight=False)
        self._bar = Progress(
            TextColumn("Scoring"),
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

    def rescored(self, done: int, total: int) -> None:
        self._bar.update(self._task, completed=done, total=total)
