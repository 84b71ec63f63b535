"""What one sees while a file is read: a bar where there is a terminal, a line per file where there is none."""

from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from evalscribe.cli.display.bar import Bar
from evalscribe.text import one_line, pluralise


class ImportDisplay(Bar):
    """Tells of an import on standard error; `quiet` tells nothing."""

    def __init__(self, *, quiet: bool) -> None:
        super().__init__(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[evals]}"),
            TimeElapsedColumn(),
            quiet=quiet,
        )
        self._task = self._bar.add_task("", total=1.0, visible=False, evals="")

    def begins(self, name: str) -> None:
        self._bar.reset(self._task, description=one_line(name)[-40:], completed=0, visible=True, evals="")
        if not self._console.is_terminal:
            self._console.print(Text(f"Reading {one_line(name)}"))

    def imported(self, evals: int, progress: float) -> None:
        self._bar.update(self._task, completed=progress, evals=pluralise(evals, "eval"))
