"""Build SQL statements once, read rows, and write JSON columns the same way in both engines."""

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
    """Select a row by its primary key."""
    return matching(table, *_keys(table))


def matching(table: Table, *names: str) -> Select[Any]:
    """Select rows by the values of the named columns. The values are the statement's parameters."""
    return select(table).where(*(table.c[name] == bindparam(name) for name in names))


def upsert(table: Table, unless: ColumnElement[bool] | None = None) -> Insert:
    """Insert a row, or replace the row with the same key. If `unless` is true for the existing row, change nothing."""
    insertion = insert(table)
    new = {name: insertion.excluded[name] for name in _values(table)}
    where = None if unless is None else ~unless
    return insertion.on_conflict_do_update(index_elements=_keys(table), set_=new, where=where)


def insert_or_change(table: Table, *names: str) -> Insert:
    """Insert a row, or change the named columns of an existing row with the same key."""
    insertion = insert(table)
    return insertion.on_conflict_do_update(
        index_elements=_keys(table), set_={name: insertion.excluded[name] for name in names}
    )


def insert_unless_exists(table: Table, *, unique: bool = False) -> Insert:
    """Insert a row unless a row with the same key exists; `rowcount` is the number of inserted rows.

    If `unique` is true, also skip a row that violates another unique constraint.
    """
    insertion = insert(table).on_conflict_do_nothing(index_elements=None if unique else _keys(table))
    return insertion.execution_options(preserve_rowcount=True)


def execute_many(connection: Connection, statement: StandardInsert, rows: Sequence[Mapping[str, Any]]) -> int:
    """Execute one statement for many rows and return the number written.

    Rows must be in the driver's form, with JSON as text, because SQLAlchemy's conversion of thousands of rows takes
    longer than storing them.
    """
    if not rows:
        return 0
    text, names = _compiled(statement, connection.dialect, tuple(rows[0]))
    values_of = itemgetter(*names) if names else dict
    return connection.exec_driver_sql(text, [values_of(row) for row in rows]).rowcount


@lru_cache(64)
def _compiled(statement: StandardInsert, dialect: Dialect, columns: tuple[str, ...]) -> tuple[str, Sequence[str]]:
    """Compile a statement for the driver.

    Return it with the order of its values; empty if the driver passes them by name.
    """
    compiled = statement.compile(dialect=dialect, column_keys=list(columns))
    return str(compiled), compiled.positiontup or ()


def _keys(table: Table) -> list[str]:
    return [column.name for column in table.primary_key]


def _values(table: Table) -> list[str]:
    return [column.name for column in table.columns if not column.primary_key]


_NUL = "\\u0000"


class StoredJson(str):
    """JSON text that is stored as it is, without parsing and rendering it again."""

    __slots__ = ()


def json_text(value: object) -> str:
    """Render a value for a JSON column."""
    return value if isinstance(value, StoredJson) else without_nul(json.dumps(value, ensure_ascii=False))


def without_nul(text: str) -> StoredJson:
    """Return JSON text without NUL. Postgres cannot store NUL."""
    return StoredJson(json.dumps(clean_json(json.loads(text)), ensure_ascii=False) if _NUL in text else text)


def load_sorted(text: str | bytes) -> object:
    """Parse JSON and sort its keys, because Postgres and SQLite return them in different orders."""
    return json.loads(text, object_pairs_hook=lambda pairs: dict(sorted(pairs)))


def first_row(connection: Connection, statement: Select[Any], **values: object) -> RowMapping | None:
    return connection.execute(statement, values).mappings().first()


def all_rows(connection: Connection, statement: Select[Any], **values: object) -> Sequence[RowMapping]:
    return connection.execute(statement, values).mappings().all()


def by_id_or_name(table: Table) -> Select[Any]:
    """Select by id or name. An id takes precedence over a name; among equal names the newest comes first."""
    matches = or_(table.c.id == bindparam("name_or_id"), table.c.name == bindparam("name_or_id"))
    order = case((table.c.id == bindparam("name_or_id"), 0), else_=1)
    return select(table).where(matches).order_by(order, table.c.number.desc()).limit(1)


def next_number(connection: Connection, table: Table, owner: str, owner_id: str) -> int:
    """Return the next version number, from 1, among the rows whose column `owner` has the value `owner_id`."""
    last = connection.scalar(select(func.max(table.c.number)).where(table.c[owner] == owner_id))
    return 1 if last is None else last + 1


def require_free(connection: Connection, statement: Select[Any], kind: str, name: str) -> None:
    """Raise `UsageError` if `statement`, which `by_id_or_name` made, finds an object with this name."""
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
    """Yield decoded rows, reading a page at a time; nothing is locked between pages.

    Args:
        reading: Opens a transaction that reads.
        statement: Selects rows above the bound values of the columns `after`, in the order of these columns.
        size: Maximum number of rows in a page.
        decode: Converts the rows of a page.
        after: The columns that order the rows, each with a value below that of the first row.
        values: The other bound values.
    """
    has_more = True
    while has_more:
        with reading() as connection:
            rows = all_rows(connection, statement.limit(size), **after, **values)
            decoded = list(decode(connection, rows))
        yield from decoded
        has_more = len(rows) == size
        after = {name: rows[-1][name] for name in after} if rows else after
