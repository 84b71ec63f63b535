"""Implements `evalscribe sql "SELECT …"`."""

import csv
import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from pydantic import JsonValue

from evalscribe.cli import options, output
from evalscribe.cli.parsing import OUTPUT
from evalscribe.cli.tables import WHOLE, write_table
from evalscribe.collections.lookup import choose_collection
from evalscribe.collections.query import (
    MOST_ROWS,
    TIMEOUT_S,
    QueryResult,
    QueryTables,
    document_tables,
    metadata_keys,
    run_query,
)
from evalscribe.errors import DataError, NotFoundError, UsageError
from evalscribe.model.protocols import Tables
from evalscribe.settings import Options
from evalscribe.text import visible
from evalscribe.workspace import Workspace


def sql(
    query: Annotated[
        str | None,
        typer.Argument(metavar="SELECT", help="One SELECT statement, in the syntax of PostgreSQL.", show_default=False),
    ] = None,
    collection: options.Collection = None,
    file: Annotated[
        str | None,
        typer.Option("--file", "-f", metavar="FILE|-", help="Read the query from a file, or from standard input (-)."),
    ] = None,
    max_rows: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=10_000, help="Maximum number of rows to print. Default: 10000."),
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", min=0.1, max=3600, help="Maximum seconds to wait for the answer. Default: 30."),
    ] = None,
    tables: Annotated[bool, typer.Option("--tables", help="List tables, columns and metadata.")] = False,
    env_file: options.EnvFile = None,
    form: Annotated[
        str,
        typer.Option(
            "--format", metavar="table|csv|json", help="Output format. Default: table.", rich_help_panel=OUTPUT
        ),
    ] = "table",
) -> int:
    """Query a collection with SQL: runs, transcripts, findings, results. Read-only."""
    if form not in QUERY_FORMATS:
        raise UsageError(f"--format {form} is not known; use one of {', '.join(QUERY_FORMATS)}")
    if tables and (query or file):
        raise UsageError("--tables only lists the tables: leave out the query and --file")
    query_text = None if tables else _query(query, file)
    seconds = timeout or TIMEOUT_S
    with Workspace(Options(env_file=env_file)) as workspace:
        # Without any collection, `--tables` still lists the tables.
        some = query_text is not None or collection or workspace.store.collections.collections()
        which = choose_collection(workspace, collection).id if some else None
        if query_text is None or which is None:
            print_tables(workspace.tables, which, form, timeout_s=seconds)
        else:
            answer = run_query(workspace.tables, which, query_text, most_rows=max_rows or MOST_ROWS, timeout_s=seconds)
            print_rows(answer, form)
    return 0


def _query(query: str | None, file: str | None) -> str:
    if (query is None) == (file is None):
        raise UsageError(
            'give one query: either in quotes, such as "SELECT …", or in a file, with --file FILE.\n'
            "`evalscribe sql --tables` lists the tables."
        )
    if query is not None:
        return query
    try:
        return sys.stdin.read() if file == "-" else Path(str(file)).read_text("utf-8")
    except UnicodeDecodeError:
        raise DataError(f"{file} is not UTF-8 text") from None
    except OSError as error:
        raise NotFoundError(f"{file} cannot be read: {error.strerror}") from None


QUERY_FORMATS = ("table", "csv", "json")


def print_rows(answer: QueryResult, form: str) -> None:
    """Print the rows of a query.

    If rows were omitted, a note on standard error or a field of the JSON document says so.
    """
    if form == "json":
        output.print_json(answer)
        return
    if form == "csv":
        _write_csv(answer)
    else:
        rows = [list(map(_line, row)) for row in (answer.columns, *answer.rows)]
        write_table(rows)
        is_cut = any(len(cell) > WHOLE for row in rows for cell in row)
        cut = "; long cells are cut, --format csv prints them whole" if is_cut else ""
        output.aside(f"({_count(len(answer.rows))}{cut})")
    if answer.truncated:
        count = _count(len(answer.rows))
        these = "this" if len(answer.rows) == 1 else "these"
        output.aside(f"More rows follow {these} {count}: use ORDER BY, LIMIT and OFFSET to get them.")


def print_tables(tables: Tables, collection_id: str | None, form: str, *, timeout_s: float) -> None:
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
        output.say(f"  {key.path}  {key.kind}, in {key.agent_runs} agent_runs, such as {key.sample}")


def _write_csv(answer: QueryResult) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    for row in (answer.columns, *answer.rows):
        writer.writerow("" if cell is None else _text(cell) for cell in row)


def _line(cell: JsonValue) -> str:
    return visible(" ".join(_text(cell).split())) if cell is not None else ""


def _text(cell: JsonValue) -> str:
    if isinstance(cell, str):
        return cell
    return json.dumps(cell, ensure_ascii=False)


def _count(number: int) -> str:
    return f"{number:,} row{'' if number == 1 else 's'}"
