"""What one sees while requests are answered: a bar in a terminal or a notebook, nothing where a program reads."""

import sys
from importlib.util import find_spec
from types import TracebackType
from typing import TYPE_CHECKING, Self

from evalscribe.app.requests.submit import Submitted
from evalscribe.model.chat import Usage
from evalscribe.model.result import Result
from evalscribe.text import dollars, one_line, pluralise

if TYPE_CHECKING:
    from rich.progress import Progress


class Bar:
    """On standard error. `rich` is loaded only where somebody looks."""

    def __init__(self) -> None:
        self._errors = 0
        self._spent = Usage()
        self._last_error = ""
        self._shown = _shown()
        self._task = None if self._shown is None else self._shown.add_task("", total=None, told="")

    def __enter__(self) -> Self:
        if self._shown:
            self._shown.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            self._shown.stop()

    def begun(self, name: str, done: int, total: int) -> None:
        if self._shown and self._task is not None:
            self._shown.update(self._task, description=one_line(name), completed=done, total=total)

    def answered(self, result: Result, *, known: bool) -> None:
        self._errors += result.error is not None
        self._spent += Usage() if known else _usage(result)
        self._last_error = result.error or self._last_error
        if self._shown and self._task is not None:
            self._shown.update(self._task, advance=1, told=self._told())

    def ended(self, done: Submitted) -> None:
        """The last line, which stays."""
        if self._shown:
            self._shown.console.print(_ended(done, self._last_error), markup=False, highlight=False)

    def _told(self) -> str:
        errors = [pluralise(self._errors, "error")] if self._errors else []
        return ", ".join([*errors, _price(self._spent)])


def _shown() -> "Progress | None":
    """None where nobody looks; a notebook can only show a bar with ipywidgets."""
    in_notebook = "ipykernel" in sys.modules
    if not (sys.stderr.isatty() or (in_notebook and find_spec("ipywidgets"))):
        return None
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(file=None if in_notebook else sys.stderr, soft_wrap=True)
    told = TextColumn("{task.fields[told]}", markup=False)
    name = TextColumn("{task.description}", markup=False)
    return Progress(name, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), told, console=console)


def _ended(done: Submitted, last_error: str) -> str:
    counts, cites = done.counts, done.citations
    line = f"{one_line(done.result_set.name)}: {pluralise(counts.results, 'result')}"
    line += f", {pluralise(counts.errors, 'error')} (such as: {one_line(last_error)})" if counts.errors else ""
    line += f"; {cites.unverified} of {cites.verified + cites.relocated + cites.unverified} citations unverified"
    return f"{line}; asked {done.asked}, spent {_price(done.spent)}"


def _price(usage: Usage) -> str:
    """Tokens where the model has no price."""
    return dollars(usage.cost_usd) if usage.cost_usd else f"{usage.input_tokens + usage.output_tokens:,} tokens"


def _usage(result: Result) -> Usage:
    return Usage(input_tokens=result.input_tokens, output_tokens=result.output_tokens, cost_usd=result.cost_usd)
