"""What one sees while a file is read: a bar where there is a terminal, a line per file where there is none."""

import sys
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from evalscribe.prose import counted, one_line


class ImportDisplay:
    """Tells of an import on standard error; `quiet` tells nothing."""

    def __init__(self, *, quiet: bool) -> None:
        self._console = Console(file=sys.stderr, quiet=quiet, highlight=False, soft_wrap=True)
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[evals]}"),
            TimeElapsedColumn(),
            console=self._console,
            disable=quiet or not self._console.is_terminal,
            transient=True,
        )
        self._task = self._bar.add_task("", total=1.0, visible=False, evals="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def begins(self, name: str) -> None:
        self._bar.reset(self._task, description=one_line(name)[-40:], completed=0, visible=True, evals="")
        if not self._console.is_terminal:
            self._console.print(Text(f"Reading {one_line(name)}"))

    def imported(self, evals: int, progress: float) -> None:
        self._bar.update(self._task, completed=progress, evals=counted(evals, "eval"))
