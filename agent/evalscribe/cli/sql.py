"""`evalscribe sql "SELECT …"`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from evalscribe.cli import options
from evalscribe.cli import tables as rows
from evalscribe.errors import DataError, NotFoundError, UsageError
from evalscribe.settings import Options
from evalscribe.workspace import Workspace


def sql(
    query: Annotated[
        str | None, typer.Argument(metavar="SELECT", help="One SELECT, in Postgres' spelling.", show_default=False)
    ] = None,
    collection: options.Collection = None,
    file: Annotated[
        str | None,
        typer.Option("--file", "-f", metavar="FILE|-", help="Read the query from a file, or from standard input."),
    ] = None,
    how: Annotated[
        str | None, typer.Option("--format", metavar="table|csv|json", help="Default: table.", show_default=False)
    ] = None,
    max_rows: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=10_000, help="At most so many rows. Default: 10000.")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", min=0.1, max=3600, help="Seconds it may take. Default: 30.")
    ] = None,
    tables: Annotated[
        bool, typer.Option("--tables", help="The tables and their columns, and which metadata there is.")
    ] = False,
    env_file: options.EnvFile = None,
    as_json: options.Json = False,
) -> int:
    """Ask a collection in SQL: one SELECT over its runs, transcripts, findings and results. It only reads."""
    from evalscribe.collections.choice import choose_collection
    from evalscribe.collections.query import MOST_ROWS, TIMEOUT_S, run_query

    form = "json" if as_json else how or "table"
    if form not in rows.QUERY_FORMATS:
        raise UsageError(f"--format {form} is not known: {', '.join(rows.QUERY_FORMATS)}")
    if tables and (query or file):
        raise UsageError("--tables takes no query")
    asked = None if tables else _query(query, file)
    seconds = timeout or TIMEOUT_S
    with Workspace(Options(env_file=env_file)) as workspace:
        some = asked is not None or collection or workspace.store.collections.collections()
        which = choose_collection(workspace, collection).id if some else None
        if asked is None or which is None:
            rows.print_tables(workspace.tables, which, form, timeout_s=seconds)
        else:
            answer = run_query(workspace.tables, which, asked, most_rows=max_rows or MOST_ROWS, timeout_s=seconds)
            rows.print_rows(answer, form)
    return 0


def _query(query: str | None, file: str | None) -> str:

    if (query is None) == (file is None):
        raise UsageError('give one query, "SELECT …" or --file FILE; see `evalscribe sql --tables`')
    if query is not None:
        return query
    try:
        return sys.stdin.read() if file == "-" else Path(str(file)).read_text("utf-8")
    except UnicodeDecodeError:
        raise DataError(f"{file} is no UTF-8 text") from None
    except OSError as error:
        raise NotFoundError(f"{file} cannot be read: {error.strerror}") from None
