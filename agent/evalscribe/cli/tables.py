"""Print rows as a table, JSON or JSON lines."""

import sys
from collections.abc import Callable, Iterable, Sequence
from shutil import get_terminal_size
from typing import Annotated, TypeVar

import typer
from pydantic import BaseModel, RootModel, SerializeAsAny

from evalscribe.cli import output
from evalscribe.cli.parsing import OUTPUT
from evalscribe.errors import UsageError

WHOLE = 64
"""Maximum number of characters of a single word, such as an id, that is never cut.

Outside a terminal, this is also the maximum width of a cell.
"""
LEAST = 16
"""Minimum width, in characters, of a cell that has several words."""
GAP = "  "


# This function does not use rich.table. For 10,000 rows (the maximum of a query) with six columns, rich.table takes 6.7
# s of CPU time, and this code 0.1 s. rich.table would also append spaces to lines in piped output, and cut ids in a
# terminal.
def write_table(rows: Sequence[Sequence[str]]) -> None:
    """Print rows as a table. The first row must have the column names."""
    room = get_terminal_size().columns if sys.stdout.isatty() else None
    widths = [_width(column) for column in zip(*rows, strict=True)] if room is None else fit_widths(rows, room)
    names, *body = ([_cut(cell, width) for cell, width in zip(row, widths, strict=True)] for row in rows)
    for row in (names, ["-" * width for width in widths], *body):
        output.say(GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def fit_widths(rows: Sequence[Sequence[str]], room: int) -> list[int]:
    """Return column widths so that a table fits into `room` characters.

    A cell of one word with at most `WHOLE` characters is never cut, even if the table is then too wide. The remaining
    space is given first to the columns that need the least additional space.
    """
    columns = list(zip(*rows, strict=True))
    widths = [max(map(_least, column)) for column in columns]
    wants = [max(map(len, column)) - width for column, width in zip(columns, widths, strict=True)]
    spare = max(0, room - sum(widths) - len(GAP) * (len(columns) - 1))
    # Columns that need little more space come first, so that the space they do not need is left for the others.
    for remaining, place in zip(
        range(len(columns), 0, -1), sorted(range(len(columns)), key=wants.__getitem__), strict=True
    ):
        share = min(wants[place], spare // remaining)
        widths[place] += share
        spare -= share
    return widths


def _width(column: Sequence[str]) -> int:
    return min(WHOLE, max(map(len, column)))


def _least(cell: str) -> int:
    is_word = len(cell) <= WHOLE and " " not in cell
    return len(cell) if is_word else min(len(cell), LEAST)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


LIST_FORMATS = ("table", "json", "jsonl")
Format = Annotated[
    str,
    typer.Option("--format", metavar="table|json|jsonl", help="Output format. Default: table.", rich_help_panel=OUTPUT),
]
T = TypeVar("T", bound="BaseModel")


def validate_format(form: str) -> str:
    """Return the name of an output format. Raises `UsageError` if it is unknown."""
    if form not in LIST_FORMATS:
        raise UsageError(f"--format {form!r} is not one of {', '.join(LIST_FORMATS)}")
    return form


def print_list(
    rows: Iterable[T], heads: Sequence[str], cells: Callable[[T], Sequence[object]], form: str, none: str
) -> None:
    """Print rows as a table with the column names `heads`, as a JSON array, or as JSON lines.

    Print the text `none` instead of an empty table.
    """
    if validate_format(form) == "jsonl":
        for row in rows:
            output.print_json(row, indent=None)
    elif form == "json":
        # The rows are already valid, so they are not validated again. With `SerializeAsAny`, the fields of the rows'
        # own classes are printed; `BaseModel` has no fields.
        output.print_json(RootModel[list[SerializeAsAny[BaseModel]]].model_construct(list(rows)))
    elif texts := [["" if cell is None else str(cell) for cell in cells(row)] for row in rows]:
        write_table([list(heads), *texts])
    else:
        output.say(none)


def print_document(row: BaseModel, lines: Callable[[], Iterable[str]], form: str) -> None:
    """Print an object as lines for people, or as JSON."""
    if validate_format(form) == "table":
        for line in lines():
            output.say(line)
    else:
        output.print_json(row, indent=None if form == "jsonl" else 2)


def print_id(id: str, row: BaseModel, description: str, form: str) -> None:
    """Print an object that was created.

    Only the object's id is printed on standard output, so that the next command can use it. The description is printed
    on standard error.
    """
    if validate_format(form) == "table":
        output.aside(description)
        output.say(id)
    else:
        print_document(row, lambda: (), form)
