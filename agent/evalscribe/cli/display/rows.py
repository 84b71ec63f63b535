"""Rows of a query, and what a query can name, on standard output. Many print a table; few of them load queries."""

import csv
import json
import sys
from collections.abc import Sequence
from shutil import get_terminal_size
from typing import TYPE_CHECKING

from pydantic import JsonValue

from evalscribe.cli.display import finish
from evalscribe.text import visible

if TYPE_CHECKING:
    from evalscribe.app.collections.query import Answer
    from evalscribe.model.storage import Tables

FORMATS = ("table", "csv", "json")
WHOLE = 64
"""Characters of a word, an id for one, that is never cut; without a terminal, of any cell in a table."""
LEAST = 16
"""Characters of a cell of several words where there is no room for more."""
GAP = "  "


def show(answer: "Answer", form: str) -> None:
    """What was left out is told on standard error, or in the JSON."""
    if form == "json":
        finish.print_json(answer)
        return
    if form == "csv":
        _write_csv(answer)
    else:
        write_table([list(map(_line, row)) for row in (answer.columns, *answer.rows)])
        finish.say(f"({_count(len(answer.rows))})", file=sys.stderr)
    if answer.truncated:
        shown = _count(len(answer.rows))
        these = "this" if len(answer.rows) == 1 else "these"
        finish.say(f"There is more than {these} {shown}: page with ORDER BY, LIMIT and OFFSET.", file=sys.stderr)


def show_tables(tables: "Tables", collection_id: str | None, form: str, *, timeout_s: float) -> None:
    from evalscribe.app.collections.query_tables import QueryTables, documented, metadata_keys

    keys = metadata_keys(tables, collection_id, timeout_s=timeout_s) if collection_id else ()
    if form == "json":
        finish.print_json(QueryTables(tables=documented(), metadata=keys))
        return
    for table in documented():
        finish.say(f"{table.name}: {table.about}")
        for column in table.columns:
            finish.say(f"  {column.name:<16} {column.type:<17} {column.about}".rstrip())
    if keys:
        finish.say("metadata_json of these agent_runs:")
    for key in keys:
        finish.say(f"  {key.path}  {key.kind}, {key.agent_runs} of them, like {key.sample}")


def _write_csv(answer: "Answer") -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    for row in (answer.columns, *answer.rows):
        writer.writerow("" if cell is None else _text(cell) for cell in row)


# rich.table is not used here: the 10,000 rows that a query may give take it 6.7 s of CPU with six columns, and this
# 0.1 s. It would also pad lines of piped output, and cut ids in a terminal that `fitted` keeps whole.
def write_table(rows: Sequence[Sequence[str]]) -> None:
    """Print rows as a table. The first row holds the column names."""
    room = get_terminal_size().columns if sys.stdout.isatty() else None
    widths = [_width(column) for column in zip(*rows, strict=True)] if room is None else fitted(rows, room)
    names, *told = ([_cut(cell, width) for cell, width in zip(row, widths, strict=True)] for row in rows)
    for row in (names, ["-" * width for width in widths], *told):
        finish.say(GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def fitted(rows: Sequence[Sequence[str]], room: int) -> list[int]:
    """The widths of columns in so much room: words are whole, and what is left goes to those that want least first."""
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
