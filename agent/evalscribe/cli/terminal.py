"""Print to a terminal: an escaping console, and the layout of a report."""

import sys
from collections.abc import Iterable
from typing import Any, ClassVar, TextIO

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import Markdown, TableElement
from rich.segment import Segment
from rich.table import Table

from evalscribe.cli.streams import escaped, unescaped


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
