"""Build SQL statements, read rows, and write JSON columns in the same way on both engines."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from itertools import islice
from operator import itemgetter
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, Dialect, RowMapping, Select, Table, bindparam, case, func, or_, select
from sqlalchemy import Insert as StandardInsert
from sqlalchemy.dialects.postgresql import Insert, insert

from evalscribe.errors import UsageError
from evalscribe.json_data import clean_json

T = TypeVar("T")


def by_key(table: Table) -> Select[Any]:
    """Build the statement that selects a row by its primary key."""
    return matching(table, *_keys(table))


def matching(table: Table, *names: str) -> Select[Any]:
    """Build the statement that selects rows by the values of the named columns.

    The values are the statement's parameters.
    """
    return select(table).where(*(table.c[name] == bindparam(name) for name in names))


def upsert(table: Table, unless: ColumnElement[bool] | None = None) -> Insert:
    """Build the statement that inserts a row or replaces the row with the same key.

    If `unless` is true for the existing row, the statement changes nothing.
    """
    # The insert of the Postgres dialect compiles for SQLite too, because both have the same ON CONFLICT clause.
    insertion = insert(table)
    new = {name: insertion.excluded[name] for name in _values(table)}
    where = None if unless is None else ~unless
    return insertion.on_conflict_do_update(index_elements=_keys(table), set_=new, where=where)


def insert_or_change(table: Table, *names: str) -> Insert:
    """Build the statement that inserts a row, or changes the named columns if a row with the same key exists."""
    insertion = insert(table)
    return insertion.on_conflict_do_update(
        index_elements=_keys(table), set_={name: insertion.excluded[name] for name in names}
    )


def insert_unless_exists(table: Table, *, unique: bool = False) -> Insert:
    """Build the statement that inserts a row unless a row with the same key exists.

    `rowcount` of its result is the number of inserted rows. If `unique` is true, the statement also skips a row that
    violates another unique constraint.
    """
    insertion = insert(table).on_conflict_do_nothing(index_elements=None if unique else _keys(table))
    # Without this option, SQLAlchemy does not report the row count of an insert.
    return insertion.execution_options(preserve_rowcount=True)


def execute_many(connection: Connection, statement: StandardInsert, rows: Sequence[Mapping[str, Any]]) -> int:
    """Execute one statement for many rows, and return the number of rows that were written.

    The rows must have the form that the driver expects, with JSON as text. SQLAlchemy does not convert them, because
    the conversion of thousands of rows would take longer than storing them.
    """
    if not rows:
        return 0
    text, names = _compiled(statement, connection.dialect, tuple(rows[0]))
    values_of = itemgetter(*names) if names else dict
    return connection.exec_driver_sql(text, [values_of(row) for row in rows]).rowcount


# Compiling a statement takes longer than SQLite needs to run it.
@lru_cache(64)
def _compiled(statement: StandardInsert, dialect: Dialect, columns: tuple[str, ...]) -> tuple[str, Sequence[str]]:
    """Compile a statement to SQL text for the driver.

    Also return the names of the statement's values in the order in which the driver expects the values. If the driver
    passes values by name, the sequence of names is empty.
    """
    compiled = statement.compile(dialect=dialect, column_keys=list(columns))
    return str(compiled), compiled.positiontup or ()


def _keys(table: Table) -> list[str]:
    return [column.name for column in table.primary_key]


def _values(table: Table) -> list[str]:
    return [column.name for column in table.columns if not column.primary_key]


_NUL = "\\u0000"


class StoredJson(str):
    """JSON text that is stored unchanged. It is not parsed and rendered again."""

    __slots__ = ()


def json_text(value: object) -> str:
    """Render a value for a JSON column."""
    return value if isinstance(value, StoredJson) else without_nul(json.dumps(value, ensure_ascii=False))


def without_nul(text: str) -> StoredJson:
    """Return JSON text in which NUL characters are replaced, because Postgres cannot store NUL."""
    return StoredJson(json.dumps(clean_json(json.loads(text)), ensure_ascii=False) if _NUL in text else text)


def load_sorted(text: str | bytes) -> object:
    """Parse JSON and sort the keys of its objects, because Postgres and SQLite return the keys in different orders."""
    return json.loads(text, object_pairs_hook=lambda pairs: dict(sorted(pairs)))


def first_row(connection: Connection, statement: Select[Any], **values: object) -> RowMapping | None:
    return connection.execute(statement, values).mappings().first()


def all_rows(connection: Connection, statement: Select[Any], **values: object) -> Sequence[RowMapping]:
    return connection.execute(statement, values).mappings().all()


def by_id_or_name(table: Table) -> Select[Any]:
    """Build the statement that selects an object by id or name.

    A matching id takes precedence over a matching name. Among objects with equal names, the newest comes first.
    """
    matches = or_(table.c.id == bindparam("name_or_id"), table.c.name == bindparam("name_or_id"))
    order = case((table.c.id == bindparam("name_or_id"), 0), else_=1)
    return select(table).where(matches).order_by(order, table.c.number.desc()).limit(1)


def next_number(connection: Connection, table: Table, owner: str, owner_id: str) -> int:
    """Return the next version number for the object `owner_id`, starting at 1.

    The object's versions are the rows whose column `owner` contains `owner_id`.
    """
    last = connection.scalar(select(func.max(table.c.number)).where(table.c[owner] == owner_id))
    return 1 if last is None else last + 1


def require_free(connection: Connection, statement: Select[Any], kind: str, name: str) -> None:
    """Raise `UsageError` if an object with this name exists. `statement` is a result of `by_id_or_name`."""
    row = first_row(connection, statement, name_or_id=name)
    if row is not None:
        raise UsageError(
            f"the name {name!r} is already used by {kind} {row['id']}.\nChoose another one with `name`.",
            fields=("name",),
        )


def in_parts(keys: Iterable[str], size: int) -> Iterator[list[str]]:
    """Yield the distinct keys in lists of at most `size` keys."""
    remaining = iter(dict.fromkeys(keys))
    while batch := list(islice(remaining, size)):
        yield batch


def read_pages(
    reading: Callable[[], AbstractContextManager[Connection]],
    statement: Select[Any],
    size: int,
    decode: Callable[[Connection, Sequence[RowMapping]], Iterable[T]],
    after: Mapping[str, int],
    **values: object,
) -> Iterator[T]:
    """Yield decoded rows, reading one page of rows at a time. Nothing is locked between two pages.

    Args:
        reading: A function that opens a read transaction.
        statement: Selects the rows that come after the bound values of the columns named in `after`, in the order of
            these columns.
        size: Maximum number of rows in a page.
        decode: A function that converts the rows of a page.
        after: The names of the columns that order the rows, each with a start value. A column's start value is lower
            than the column's value in the first row.
        values: The other bound values of the statement.
    """
    has_more = True
    while has_more:
        with reading() as connection:
            rows = all_rows(connection, statement.limit(size), **after, **values)
            decoded = list(decode(connection, rows))
        # Outside the transaction, because the caller can take long between two rows.
        yield from decoded
        has_more = len(rows) == size
        after = {name: rows[-1][name] for name in after} if rows else after
