"""Print to a terminal, and ask questions there.

This module has a console that escapes text, the layout of a report, and progress displays.
"""

import re
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import timedelta
from io import StringIO
from types import FrameType, TracebackType
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
from evalscribe.cli.streams import can_ask, escaped, unescaped
from evalscribe.errors import InterruptError, TerminatedError, flag, write_fields
from evalscribe.judging.verdicts import JudgedGroup
from evalscribe.model.finding import Proof, Unclassified, Verdict, label_and_confidence
from evalscribe.model.run import Eval, Run
from evalscribe.settings import Options
from evalscribe.text import dollars, one_line, pluralise, printable
from evalscribe.workspace import Workspace


def console(file: TextIO, **options: Any) -> Console:
    """Return a console that escapes control characters. `options` are those of `rich.console.Console`."""
    return _Console(file=unescaped(file), **options)


class _Console(Console):
    """A console that escapes printed text.

    The output stream could not do this, because it cannot distinguish the escape codes of `rich` from escape codes in
    the text.
    """

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(escaped(segment.text), segment.style)


class WholeWords(TableElement):
    """A table that wraps long cells instead of cutting them, so that names are readable in 80 columns.

    Tables in markdown must have a heading row. If all headings are empty, this row is left out.
    """

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for table in super().__rich_console__(console, options):
            if isinstance(table, Table):
                for column in table.columns:
                    column.overflow = "fold"
                table.show_header = any(str(column.header) for column in table.columns)
            yield table


class TerminalPage(Markdown):
    elements: ClassVar = {**Markdown.elements, "table_open": WholeWords}


_INSIDE = re.compile(r"\[([^\[\]]*)\]\((?:#|(?:\.\./)*labels\.md)[^()\s]*\)")
"""Matches links that are of no use in a terminal: links to places on the same page, and links to the definitions of
the labels.
"""


def print_page(markdown: str) -> None:
    console(sys.stdout).print(_terminal_page(markdown))


def _terminal_page(markdown: str) -> TerminalPage:
    return TerminalPage(_INSIDE.sub(r"\1", markdown), hyperlinks=False)


PICTURE_COLUMNS = 100
"""Maximum number of characters per line of a picture.

With this width, the text in the picture is about as large as the text around it in a README on GitHub.
"""
_PICTURE = """\
<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{
  font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px;
}}
.{unique_id}-title {{ font-family: sans-serif; font-size: 18px; font-weight: bold; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
"""Template of a picture that uses fonts of the reader's system.

Rich's own template is not used, because it loads fonts from a server.
"""


def picture(markdown: str, title: str) -> str:
    """Return a page as an SVG picture of a dark terminal window.

    The picture is the same on every machine and loads nothing.
    """
    terminal = console(
        StringIO(),
        record=True,
        width=PICTURE_COLUMNS,
        height=PICTURE_COLUMNS,  # otherwise `TERM=dumb` would determine the width
        color_system="truecolor",
        force_terminal=True,
        no_color=False,
        legacy_windows=False,
    )
    terminal.print(_terminal_page(markdown))
    svg = terminal.export_svg(title=title, code_format=_PICTURE, unique_id="page")
    # Write each text element on its own line, so that a diff between two versions of the picture is readable.
    return "\n".join(
        line.rstrip() for line in svg.replace("><text", ">\n<text").replace("><rect", ">\n<rect").splitlines()
    )


def confirm(question: str, *, outcome: str = "nothing was changed", file: TextIO | None = None) -> bool:
    """Ask a question, and return True only if the answer is `yes` or `y`.

    `outcome` is part of the message if the question is interrupted.
    """
    with _interruptible(outcome):
        _discard_typed_text()
        print(question, end="", file=file, flush=True)
        try:
            answer = input()
        except EOFError:
            print(file=file)
            return False
        except KeyboardInterrupt:
            print(file=file)
            raise InterruptError(f"interrupted at the question: {outcome}.") from None
        except TerminatedError:
            print(file=file)
            raise
    return answer.strip().lower() in ("y", "yes")


def _discard_typed_text() -> None:
    """Discard text that was typed before the question was shown, because it cannot be an answer to the question."""
    with suppress(ImportError, OSError, ValueError):  # not Unix, or no terminal
        import termios  # does not exist on Windows

        with suppress(termios.error):
            termios.tcflush(sys.stdin, termios.TCIFLUSH)


@contextmanager
def _interruptible(outcome: str) -> Iterator[None]:
    """Let signals end the question and the command. No work is lost, because none is in progress during a question."""

    def terminated(_number: int, _frame: FrameType | None) -> None:
        raise TerminatedError(f"terminated at the question: {outcome}.")

    before: dict[signal.Signals, Any] = {}
    handlers: dict[signal.Signals, Callable[[int, FrameType | None], object]] = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGTERM: terminated,
    }
    for number, handler in handlers.items():
        before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def paying_user() -> Callable[[str], bool] | None:
    """Return a function that asks the user for consent to call a model; None if nobody can be asked."""
    return _agrees_to_pay if can_ask() else None


def _agrees_to_pay(question: str) -> bool:
    with Bar.hidden():
        return confirm(printable(question), outcome="nothing was sent", file=sys.stderr)


@asynccontextmanager
async def paying_workspace(options: Options, *, quiet: bool = False) -> AsyncIterator[tuple[Workspace, "Display"]]:
    """Open a workspace for a command that can call models, and display its progress.

    In a terminal, the user is asked for consent before the first call.
    """
    with Display(quiet=quiet) as display:
        async with Workspace(options, ask=paying_user()) as workspace:
            display.workspace = workspace
            yield workspace, display


class Bar:
    """Base class of all progress displays. With `quiet` or the option `--quiet`, nothing is printed."""

    active: "ClassVar[Bar | None]" = None
    """The progress display that is currently shown; None if there is none."""

    def __init__(self, *columns: ProgressColumn, quiet: bool = False) -> None:
        quiet = quiet or is_quiet()
        self._console = console(sys.stderr, quiet=quiet, highlight=False, soft_wrap=True)
        self._bar = Progress(
            *columns, console=self._console, disable=quiet or not self._console.is_terminal, transient=True
        )

    @classmethod
    @contextmanager
    def hidden(cls) -> Iterator[None]:
        """Hide the progress display inside a `with` block, while the user is asked a question."""
        bar = cls.active
        if bar:
            bar._bar.stop()
        yield
        if bar:
            bar._bar.start()

    def end(self) -> None:
        """End the progress display, so that other output can follow."""
        Bar.active = None
        self._bar.stop()

    def __enter__(self) -> Self:
        Bar.active = self
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()


FEW = 10
"""If rules judge at most this many groups, only the last progress line is printed outside a terminal."""


class Display(Bar):
    """Progress of an analysis on standard error. With `quiet`, nothing is printed.

    In a terminal, progress is shown as a bar with a line for each verdict above it. Elsewhere, a line is printed for
    every ten per cent. If rules judge at most `FEW` groups, only the last of these lines is printed.
    """

    def __init__(self, *, quiet: bool) -> None:
        super().__init__(
            TextColumn("{task.description}"),
            BarColumn(20),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[money]}"),
            quiet=quiet,
        )
        self.workspace: Workspace | None = None
        """The workspace whose model calls are included in the cost that is shown."""
        self._task = self._bar.add_task("", total=None, visible=False, money="")
        self._evals: dict[str, Eval] = {}
        self._tenths = self._cached = 0

    def started(self, run: Run) -> None:
        self._evals = {eval.id: eval for eval in run.failures}
        listed = f", {len(run.failures)} of them listed" if len(run.failures) < run.failed else ""
        self.say(f"{run.model} ({run.provider}), {run.experiment}: {run.failed} of {run.total} evals failed{listed}")

    def say(self, line: str, fields: Sequence[str] = ()) -> None:
        self._console.print(Text(one_line(write_fields(line, fields, flag))))

    def imported(self, evals: int, progress: float) -> None:
        description = f"Importing, {pluralise(evals, 'eval')}"
        self._bar.update(self._task, description=description, completed=round(100 * progress), total=100, visible=True)

    def fetched(self, done: int, total: int) -> None:
        self._bar.update(self._task, description="Reading evidence", completed=done, total=total, visible=True)

    def replayed(self, proof: Proof, done: int, total: int) -> None:
        self._bar.update(self._task, description="Replaying", completed=done, total=total, visible=True)
        if self._console.is_terminal:
            width = len(str(total))
            self._console.print(Text(f"{done:>{width}}/{total}  {one_line(proof.eval)}  {proof.outcome}"))
        elif done == total:
            elapsed = timedelta(seconds=int(self._bar.tasks[0].elapsed or 0))
            self._console.print(Text(f"{done} of {total} replayed, {elapsed}"))

    def judged(self, event: JudgedGroup) -> None:
        money = self._money()
        self._bar.update(
            self._task, description="Judging", completed=event.n, total=event.total, visible=True, money=money
        )
        if self._console.is_terminal or isinstance(event.verdict, Unclassified):
            self._console.print(self._line(event))
        self._cached += event.cached
        tenths = 10 * event.n // event.total
        is_due = event.n == event.total or event.total > FEW or money
        if not self._console.is_terminal and tenths > self._tenths and is_due:
            cached = f" ({self._cached} cached)" if self._cached else ""
            elapsed = timedelta(seconds=int(self._bar.tasks[0].elapsed or 0))
            cost = f", {money}" if money else ""
            self._console.print(Text(f"{event.n} of {event.total} judged{cached}, {elapsed}{cost}"))
        self._tenths = tenths

    def _money(self) -> str:
        """Format the cost so far and the estimated cost. Returns an empty text if no model is called."""
        estimate = self.workspace and self.workspace.consent.estimate
        if not self.workspace or not estimate:
            return ""
        spent = self.workspace.budget.spent
        if estimate.cost_usd is None:
            return f"{spent.input_tokens + spent.output_tokens:,} of {estimate.summary}"
        return f"{dollars(spent.cost_usd)} of about {dollars(estimate.cost_usd)}"

    def _line(self, event: JudgedGroup) -> Text:
        members = [self._evals[id] for id in event.group.eval_ids]
        name = members[0].path if len(members) == 1 else f"{len(members)} evals"
        width = len(str(event.total))
        line = Text(
            f"{event.n:>{width}}/{event.total}  {one_line(name)}  {one_line(members[0].failed_step or 'no step')}  "
        )
        return line.append_text(_verdict(event.verdict)).append("  (cached)" if event.cached else "")


def _verdict(verdict: Verdict | Unclassified) -> Text:
    if isinstance(verdict, Unclassified):
        return Text(f"UNCLASSIFIED: {one_line(verdict.reason)}", style="yellow")
    style = "red" if verdict.classification == "MODEL_FAULT" else "cyan"
    unsure = ", uncertain" if verdict.uncertain else ""
    label = label_and_confidence(f"{verdict.classification}{unsure}", verdict.confidence, verdict.judge)
    return Text(label, style=style).append(f"  {one_line(verdict.why)}", style="default")


class ImportDisplay(Bar):
    """Progress of an import on standard error. With `quiet`, nothing is printed."""

    def __init__(self, *, quiet: bool) -> None:
        super().__init__(
            # The description is the name of a file, in which `[red]` must not be markup.
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[evals]}"),
            TimeElapsedColumn(),
            quiet=quiet,
        )
        self._task = self._bar.add_task("", total=1.0, visible=False, evals="")

    def begins(self, name: str) -> Callable[[int, float], None]:
        """Show that a file is being read. Return a function that updates the progress of reading."""
        self._bar.reset(self._task, description=one_line(name)[-40:], completed=0, visible=True, evals="")
        if not self._console.is_terminal:
            self._console.print(Text(f"Reading {one_line(name)}"))
        return self.imported

    def imported(self, evals: int, progress: float) -> None:
        self._bar.update(self._task, completed=progress, evals=pluralise(evals, "eval"))
