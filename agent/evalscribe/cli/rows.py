"""Rows of a query, and what a query can name, on standard output."""

import csv
import json
import sys
from collections.abc import Sequence

from pydantic import JsonValue

from evalscribe.app.query import Answer, QueryDesk
from evalscribe.app.query_tables import QueryTables, documented, metadata_keys
from evalscribe.cli import finish
from evalscribe.prose import visible

FORMATS = ("table", "csv", "json")
WIDEST = 60
"""Characters of a cell in a table that a person reads."""


def show(answer: Answer, form: str) -> None:
    """What was left out is told on standard error, or in the JSON."""
    if form == "json":
        finish.print_json(answer)
        return
    if form == "csv":
        _write_csv(answer)
    else:
        _write_table(answer.columns, [list(map(_short, row)) for row in answer.rows])
        finish.say(f"({_count(len(answer.rows))})", file=sys.stderr)
    if answer.truncated:
        shown = _count(len(answer.rows))
        these = "this" if len(answer.rows) == 1 else "these"
        finish.say(f"There is more than {these} {shown}: page with ORDER BY, LIMIT and OFFSET.", file=sys.stderr)


def show_tables(desk: QueryDesk, collection_id: str | None, form: str) -> None:
    keys = metadata_keys(desk, collection_id) if collection_id else ()
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


def _write_csv(answer: Answer) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    shown = visible if sys.stdout.isatty() else str
    for row in (answer.columns, *answer.rows):
        writer.writerow("" if cell is None else shown(_text(cell)) for cell in row)


def _write_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    names = list(map(_short, columns))
    widths = [max(len(row[place]) for row in (names, *rows)) for place in range(len(names))]
    for row in (names, ["-" * width for width in widths], *rows):
        finish.say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _short(cell: JsonValue) -> str:
    """One line."""
    text = visible(" ".join(_text(cell).split())) if cell is not None else ""
    return text if len(text) <= WIDEST else text[: WIDEST - 1] + "…"


def _text(cell: JsonValue) -> str:
    if isinstance(cell, str):
        return cell
    return json.dumps(cell, ensure_ascii=False)


def _count(number: int) -> str:
    return f"{number:,} row{'' if number == 1 else 's'}"
