"""Run checked queries over the Postgres store in read-only transactions."""

import math
from collections.abc import Mapping
from typing import Any, Literal

import psycopg
from psycopg import sql
from psycopg.abc import Buffer
from psycopg.adapt import Loader
from psycopg.types.string import TextLoader
from pydantic import JsonValue

from evalscribe.errors import UsageError
from evalscribe.model.protocols import QueryRows
from evalscribe.store.errors import overdue
from evalscribe.store.postgres import options, translate_server_errors
from evalscribe.store.query.process import LONGEST_CELL, MOST_CHARACTERS, cut
from evalscribe.store.query.statement import json_value

READER = "pg_read_all_data"
"""Built-in role that may only read tables. It may not write, read files or read large objects."""
AT_A_TIME = 500
"""Maximum number of rows fetched at once."""
SETTINGS = {
    # If this were off, a backslash in a literal would escape the next character, and literals could end early.
    "standard_conforming_strings": "on",
    "extra_float_digits": "1",
    "datestyle": "ISO, YMD",
    "timezone": "UTC",
    "intervalstyle": "postgres",
    "work_mem": "64MB",
    "max_parallel_workers_per_gather": "0",
    "jit": "off",
    "lock_timeout": "10s",
}
OWNERS_SETTINGS = {"lc_messages": "C", "temp_file_limit": "1GB"}
MOST_DIGITS = 300
"""Whole numbers with fewer digits than this are loaded as `int`. Such numbers are also small enough for a float."""
_JSON = (114, 3802)
"""Type ids of json and jsonb in Postgres."""
_AS_TEXT = ("json", "jsonb", "timestamp", "timestamptz", "date", "time", "interval")
_USERS_FAULT = ("22", "21", "42", "0A", "54")
"""SQLSTATE prefixes of errors that the user's query causes: invalid values, wrong names or types, unsupported features,
exceeded limits."""


class _Number(Loader):
    """Loads values of type `numeric`, such as sums and averages, as `int` or `float`."""

    def load(self, data: Buffer) -> int | float:
        text = bytes(data).decode()
        return int(text) if text.lstrip("-").isdigit() and len(text) < MOST_DIGITS else float(text)


class PostgresTables:
    """Tables of a Postgres store. This class implements `Tables`."""

    dialect: Literal["sqlite", "postgres"] = "postgres"

    def __init__(self, url: str, store_name: str) -> None:
        """Store the address. `store_name` is the name for messages, without a password."""
        self._url = url
        self._store_name = store_name

    def select(
        self, statement: str, values: Mapping[str, str | float], *, most_rows: int, timeout_s: float
    ) -> QueryRows:
        with translate_server_errors(self._store_name), psycopg.connect(**options(self._url)) as connection:
            try:
                return self._rows(connection, statement, values, most_rows, timeout_s)
            except psycopg.errors.QueryCanceled:
                raise overdue(timeout_s) from None
            except psycopg.Error as error:
                if (error.sqlstate or "").startswith(_USERS_FAULT):
                    raise UsageError(f"the query failed: {_server_message(error)}") from None
                raise
            finally:
                # The settings last until the transaction ends, and nothing was written.
                connection.rollback()

    def close(self) -> None:
        """Do nothing, because no connection stays open between queries."""

    def _rows(
        self,
        connection: psycopg.Connection,
        statement: str,
        values: Mapping[str, str | float],
        most_rows: int,
        timeout_s: float,
    ) -> QueryRows:
        _restrict(connection, timeout_s)
        for name in _AS_TEXT:
            connection.adapters.register_loader(name, TextLoader)
        connection.adapters.register_loader("numeric", _Number)
        # A named cursor stays on the server. An ordinary one would load all rows at once.
        with connection.cursor(name="evalscribe_query") as cursor:
            cursor.execute(statement.encode(), dict(values))
            return _fetch(cursor, most_rows)


def _restrict(connection: psycopg.Connection, timeout_s: float) -> None:
    """Make the session read-only. Restrict names in queries to our own schema and the server's `pg_catalog`."""
    connection.read_only = True
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    row = connection.execute("SELECT quote_ident(coalesce(current_schema(), 'public'))").fetchone()
    # `pg_catalog` comes first, so that nothing in our schema can replace a built-in function or operator.
    path = f"pg_catalog, {row[0] if row else 'public'}"
    settings = {**SETTINGS, "search_path": path, "statement_timeout": str(math.ceil(timeout_s * 1000))}
    _set(connection, settings)
    for optional_settings in (OWNERS_SETTINGS, {"role": READER}):
        _attempt(connection, optional_settings)


def _set(connection: psycopg.Connection, settings: Mapping[str, str]) -> None:
    """Apply settings that last until the transaction ends."""
    calls = sql.SQL(", ").join(sql.SQL("set_config({}, {}, true)").format(*pair) for pair in settings.items())
    connection.execute(sql.SQL("SELECT {}").format(calls))


def _attempt(connection: psycopg.Connection, settings: Mapping[str, str]) -> None:
    """Apply settings if the server permits this user to change them.

    The settings are an additional protection. The query was already checked, and its transaction is read-only.
    """
    try:
        with connection.transaction():
            _set(connection, settings)
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.InvalidParameterValue):
        return


def _fetch(cursor: psycopg.ServerCursor[Any], most_rows: int) -> QueryRows:
    rows: list[tuple[JsonValue, ...]] = []
    size = 0
    # One row more than wanted is read, to know whether the result is complete.
    while batch := cursor.fetchmany(min(AT_A_TIME, most_rows + 1 - len(rows))):
        of_json = [column.type_code in _JSON for column in cursor.description or ()]
        for row in batch:
            cells = tuple(map(_cell, row))
            size += sum(len(cell) for cell in cells if isinstance(cell, str))
            if len(rows) == most_rows or size > MOST_CHARACTERS:
                return QueryRows(columns=(), rows=tuple(rows), truncated=True)
            rows.append(tuple(map(_parse_cell, cells, of_json)))
    return QueryRows(columns=(), rows=tuple(rows))


def _parse_cell(cell: JsonValue, is_json: bool) -> JsonValue:
    return json_value(cell) if is_json and isinstance(cell, str) else cell


def _cell(value: Any) -> JsonValue:
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError("the query failed: value out of range: overflow")
    if value is None or isinstance(value, bool | int | float | str):
        return cut(value) if isinstance(value, str) and len(value) > LONGEST_CELL else value
    raise UsageError(
        "the query failed: a column has values other than text, numbers and booleans: cast the column to text"
    )


def _server_message(error: psycopg.Error) -> str:
    return (error.diag.message_primary or str(error)).splitlines()[0]
