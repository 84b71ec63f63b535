"""Print rows as a table, JSON, JSON lines or CSV."""

import csv
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from pydantic import JsonValue

from evalscribe.cli import output
from evalscribe.errors import UsageError
from evalscribe.text import visible

if TYPE_CHECKING:
    from pydantic import BaseModel

    from evalscribe.collections.query import QueryResult
    from evalscribe.model.protocols import Tables


QUERY_FORMATS = ("table", "csv", "json")
WHOLE = 64
"""Length of a word, such as an id, that is never cut; outside a terminal, the width of any cell in a table."""
LEAST = 16
"""Width of a cell of several words if there is no room for more."""
GAP = "  "


def print_rows(answer: "QueryResult", form: str) -> None:
    """Print rows; omissions are reported on standard error, or in the JSON."""
    if form == "json":
        output.print_json(answer)
        return
    if form == "csv":
        _write_csv(answer)
    else:
        write_table([list(map(_line, row)) for row in (answer.columns, *answer.rows)])
        output.say(f"({_count(len(answer.rows))})", file=sys.stderr)
    if answer.truncated:
        shown = _count(len(answer.rows))
        these = "this" if len(answer.rows) == 1 else "these"
        output.say(f"There is more than {these} {shown}: page with ORDER BY, LIMIT and OFFSET.", file=sys.stderr)


def print_tables(tables: "Tables", collection_id: str | None, form: str, *, timeout_s: float) -> None:
    from evalscribe.collections.query import QueryTables, document_tables, metadata_keys

    keys = metadata_keys(tables, collection_id, timeout_s=timeout_s) if collection_id else ()
    if form == "json":
        output.print_json(QueryTables(tables=document_tables(), metadata=keys))
        return
    for table in document_tables():
        output.say(f"{table.name}: {table.about}")
        for column in table.columns:
            output.say(f"  {column.name:<16} {column.type:<17} {column.about}".rstrip())
    if keys:
        output.say("metadata_json of these agent_runs:")
    for key in keys:
        output.say(f"  {key.path}  {key.kind}, {key.agent_runs} of them, like {key.sample}")


def _write_csv(answer: "QueryResult") -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    for row in (answer.columns, *answer.rows):
        writer.writerow("" if cell is None else _text(cell) for cell in row)


# rich.table is not used here: for the 10,000 rows of the largest query with six columns it takes 6.7 s of CPU, and this
# 0.1 s. It would also pad lines of piped output, and cut ids in a terminal that `fit_widths` leaves whole.
def write_table(rows: Sequence[Sequence[str]]) -> None:
    """Print rows as a table. The first row holds the column names."""
    room = get_terminal_size().columns if sys.stdout.isatty() else None
    widths = [_width(column) for column in zip(*rows, strict=True)] if room is None else fit_widths(rows, room)
    names, *told = ([_cut(cell, width) for cell, width in zip(row, widths, strict=True)] for row in rows)
    for row in (names, ["-" * width for width in widths], *told):
        output.say(GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def fit_widths(rows: Sequence[Sequence[str]], room: int) -> list[int]:
    """Return column widths that fit into `room`: words stay whole, and the rest goes to the smallest columns first."""
    columns = list(zip(*rows, strict=True))
    widths = [max(map(_least, column)) for column in columns]
    wants = [max(map(len, column)) - width for column, width in zip(columns, widths, strict=True)]
    spare = max(0, room - sum(widths) - len(GAP) * (len(columns) - 1))
    for left, place in zip(range(len(columns), 0, -1), sorted(range(len(columns)), key=wants.__getitem__), strict=True):
        given = min(wants[place], spare // left)
        widths[place] += given
        spare -= given
    return widths


def _width(column: Sequence[str]) -> int:
    return min(WHOLE, max(map(len, column)))


def _least(cell: str) -> int:
    is_word = len(cell) <= WHOLE and " " not in cell
    return len(cell) if is_word else min(len(cell), LEAST)


def _line(cell: JsonValue) -> str:
    return visible(" ".join(_text(cell).split())) if cell is not None else ""


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _text(cell: JsonValue) -> str:
    if isinstance(cell, str):
        return cell
    return json.dumps(cell, ensure_ascii=False)


def _count(number: int) -> str:
    return f"{number:,} row{'' if number == 1 else 's'}"


LIST_FORMATS = ("table", "json", "jsonl")
Format = Annotated[
    str, typer.Option("--format", metavar="table|json|jsonl", help="How to print it.", show_default=True)
]
T = TypeVar("T", bound="BaseModel")


def validate_format(form: str) -> str:
    """Check the format's name. Raises `UsageError` for an unknown one."""

    if form not in LIST_FORMATS:
        raise UsageError(f"--format {form!r} is none of {', '.join(LIST_FORMATS)}")
    return form


def print_list(
    rows: Iterable[T], heads: Sequence[str], cells: Callable[[T], Sequence[object]], form: str, none: str
) -> None:
    """Print a table with these heads, a JSON array, or JSON lines. `none` is printed if there are no rows."""

    if validate_format(form) == "jsonl":
        for row in rows:
            output.print_json(row, indent=None)
    elif form == "json":
        from pydantic import BaseModel, RootModel, SerializeAsAny

        output.print_json(RootModel[list[SerializeAsAny[BaseModel]]].model_construct(list(rows)))
    elif told := [["" if cell is None else str(cell) for cell in cells(row)] for row in rows]:
        write_table([list(heads), *told])
    else:
        output.say(none)


def print_document(row: "BaseModel", told: Callable[[], Iterable[str]], form: str) -> None:
    """Print one object as lines for people, or as JSON."""

    if validate_format(form) == "table":
        for line in told():
            output.say(line)
    else:
        output.print_json(row, indent=None if form == "jsonl" else 2)


def print_id(id: str, row: "BaseModel", told: str, form: str) -> None:
    """Print a created object: its id alone on standard output, for the next command; the description on standard
    error.
    """

    if validate_format(form) == "table":
        output.say(told, file=sys.stderr)
        output.say(id)
    else:
        print_document(row, lambda: (), form)
