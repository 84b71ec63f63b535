"""Print to a terminal: an escaping console, the layout of a report, and progress on standard error."""

import sys
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, ClassVar, Self, TextIO

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import Markdown, TableElement
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from evalscribe.cli.logs import is_quiet
from evalscribe.cli.streams import escaped, unescaped
from evalscribe.judging.verdicts import JudgedGroup
from evalscribe.model.experiment import ExperimentRun, ItemVerdict
from evalscribe.model.finding import Unclassified, Verdict
from evalscribe.model.run import Eval, Run
from evalscribe.text import one_line, pluralise


def console(file: TextIO, **options: Any) -> Console:
    """Return an escaping console; `options` are those of `rich.console.Console`."""
    return _Console(file=unescaped(file), **options)


class _Console(Console):
    """Escapes text segments: the stream cannot tell `rich`'s own escape codes from those in a text."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(escaped(segment.text), segment.style)


class WholeWords(TableElement):
    """A table that wraps long cells instead of cutting them: a name has to be readable in 80 columns."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for table in super().__rich_console__(console, options):
            if isinstance(table, Table):
                for column in table.columns:
                    column.overflow = "fold"
            yield table


class TerminalPage(Markdown):
    elements: ClassVar = {**Markdown.elements, "table_open": WholeWords}


def print_page(markdown: str) -> None:
    console(sys.stdout).print(TerminalPage(markdown, hyperlinks=False))


class Bar:
    """Base of all progress displays; `quiet` and the option `--quiet` print nothing."""

    def __init__(self, *columns: ProgressColumn, quiet: bool = False) -> None:
        quiet = quiet or is_quiet()
        self._console = console(sys.stderr, quiet=quiet, highlight=False, soft_wrap=True)
        self._bar = Progress(
            *columns, console=self._console, disable=quiet or not self._console.is_terminal, transient=True
        )

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()


class Display(Bar):
    """Progress of an analysis on standard error; `quiet` prints nothing. Plain lines outside a terminal."""

    def __init__(self, *, quiet: bool) -> None:
        super().__init__(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            quiet=quiet,
        )
        self._task = self._bar.add_task("", total=None, visible=False)
        self._evals: dict[str, Eval] = {}

    def started(self, run: Run) -> None:
        self._evals = {eval.id: eval for eval in run.failures}
        listed = f", {len(run.failures)} of them listed" if len(run.failures) < run.failed else ""
        self.say(f"{run.model} ({run.provider}), {run.experiment}: {run.failed} of {run.total} evals failed{listed}")

    def say(self, line: str) -> None:
        self._console.print(Text(one_line(line)))

    def imported(self, evals: int, progress: float) -> None:
        what = f"Importing, {pluralise(evals, 'eval')}"
        self._bar.update(self._task, description=what, completed=round(100 * progress), total=100, visible=True)

    def fetched(self, done: int, total: int) -> None:
        self._bar.update(self._task, description="Reading evidence", completed=done, total=total, visible=True)

    def judged(self, event: JudgedGroup) -> None:
        self._bar.update(self._task, description="Judging", completed=event.n, total=event.total, visible=True)
        self._console.print(self._line(event))

    def _line(self, event: JudgedGroup) -> Text:
        members = [self._evals[id] for id in event.group.eval_ids]
        name = members[0].path if len(members) == 1 else f"{len(members)} evals"
        width = len(str(event.total))
        line = Text(
            f"{event.n:>{width}}/{event.total}  {one_line(name)}  {one_line(members[0].failed_step or 'no step')}  "
        )
        return line.append_text(_verdict(event.verdict)).append("  (known)" if event.cached else "")


def _verdict(verdict: Verdict | Unclassified) -> Text:
    if isinstance(verdict, Unclassified):
        return Text(f"UNCLASSIFIED: {one_line(verdict.reason)}", style="yellow")
    style = "red" if verdict.classification == "MODEL_FAULT" else "cyan"
    unsure = ", uncertain" if verdict.uncertain else ""
    return Text(f"{verdict.classification}{unsure}", style=style).append(
        f" {verdict.confidence:.2f}  {one_line(verdict.why)}", style="default"
    )


class ImportDisplay(Bar):
    """Progress of an import on standard error; `quiet` prints nothing."""

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

    def begins(self, name: str) -> Callable[[int, float], None]:
        """Show that a file is being read; return what shows how far."""
        self._bar.reset(self._task, description=one_line(name)[-40:], completed=0, visible=True, evals="")
        if not self._console.is_terminal:
            self._console.print(Text(f"Reading {one_line(name)}"))
        return self.imported

    def imported(self, evals: int, progress: float) -> None:
        self._bar.update(self._task, completed=progress, evals=pluralise(evals, "eval"))


class RunDisplay(Bar):
    def __init__(self) -> None:
        super().__init__(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._task = self._bar.add_task("", total=None)

    def tried(self, run: ExperimentRun, tally: Mapping[ItemVerdict, int]) -> None:
        """Show how many trials are done, and how many of them did not pass."""
        done = sum(tally.values())
        others = done - tally.get("passed", 0)
        told = f"{run.state}, {others:,} not passed" if others else run.state
        self._bar.update(self._task, description=told, completed=done, total=run.tries)

    def rescored(self, done: int, total: int) -> None:
        self._bar.update(self._task, description="Scoring", completed=done, total=total)
