"""A report laid out for a terminal."""

import sys
from typing import ClassVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Markdown, TableElement
from rich.table import Table

from evalscribe.cli.display.console import console


class WholeWords(TableElement):
    """A table whose cells are broken where they are too long, not cut: a name has to be readable in 80 columns."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for table in super().__rich_console__(console, options):
            if isinstance(table, Table):
                for column in table.columns:
                    column.overflow = "fold"
            yield table


class Page(Markdown):
    elements: ClassVar = {**Markdown.elements, "table_open": WholeWords}


def show(markdown: str) -> None:
    console(sys.stdout).print(Page(markdown, hyperlinks=False))
