"""Statements made once: making one costs more than SQLite needs to run it.

What to do on a conflict is said as Postgres says it. SQLite has it from there, and SQLAlchemy spells it for both.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, Table, bindparam, select
from sqlalchemy import Insert as StandardInsert
from sqlalchemy.dialects.postgresql import Insert, insert


def by_key(table: Table) -> Select[Any]:
    """The row with this primary key."""
    return matching(table, *_keys(table))


def matching(table: Table, *names: str) -> Select[Any]:
    """The rows with these values in the named columns."""
    return select(table).where(*(table.c[name] == bindparam(name) for name in names))


def upsert(table: Table, unless: ColumnElement[bool] | None = None) -> Insert:
    """Insert a row, or replace the one with its key, unless that one is so."""
    insertion = insert(table)
    new = {name: insertion.excluded[name] for name in _values(table)}
    where = None if unless is None else ~unless
    return insertion.on_conflict_do_update(index_elements=_keys(table), set_=new, where=where)


def unless_there(table: Table) -> Insert:
    """Insert a row, unless there is one with its key; `rowcount` says how many were inserted."""
    insertion = insert(table).on_conflict_do_nothing(index_elements=_keys(table))
    return insertion.execution_options(preserve_rowcount=True)


def execute_many(connection: Connection, statement: StandardInsert, rows: Sequence[Mapping[str, Any]]) -> None:
    """One statement for rows that are as the driver takes them, JSON as text: with thousands of rows, to look at each
    value takes longer than to store it."""
    if not rows:
        return
    compiled = statement.compile(dialect=connection.dialect, column_keys=list(rows[0]))
    names = compiled.positiontup
    values = [tuple(row[name] for name in names) for row in rows] if names else [dict(row) for row in rows]
    connection.exec_driver_sql(str(compiled), values)


def _keys(table: Table) -> list[str]:
    return [column.name for column in table.primary_key]


def _values(table: Table) -> list[str]:
    return [column.name for column in table.columns if not column.primary_key]
