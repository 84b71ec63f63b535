"""Rows that are found by id or by name."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from sqlalchemy import Connection, RowMapping, Select, Table, bindparam, case, func, or_, select

from evalscribe.errors import UsageError


def first(connection: Connection, statement: Select[Any], **values: object) -> RowMapping | None:
    return connection.execute(statement, values).mappings().first()


def rows(connection: Connection, statement: Select[Any], **values: object) -> Sequence[RowMapping]:
    return connection.execute(statement, values).mappings().all()


def by_id_or_name(table: Table) -> Select[Any]:
    """An id comes before a name; of several of one name the newest comes first."""
    named = or_(table.c.id == bindparam("named"), table.c.name == bindparam("named"))
    order = case((table.c.id == bindparam("named"), 0), else_=1)
    return select(table).where(named).order_by(order, table.c.number.desc()).limit(1)


def next_number(connection: Connection, table: Table, owner: str, of: str) -> int:
    """After the last `number` of the rows whose column `owner` is `of`; from 1."""
    last = connection.scalar(select(func.max(table.c.number)).where(table.c[owner] == of))
    return 1 if last is None else last + 1


def require_free(connection: Connection, statement: Select[Any], what: str, name: str) -> None:
    """Raises `UsageError` where `by_id_or_name` finds what is called so."""
    row = first(connection, statement, named=name)
    if row is not None:
        raise UsageError(f"the name {name!r} is taken by {what} {row['id']}.\nChoose another one with --name.")


def parts(keys: Iterable[str], size: int) -> Iterator[list[str]]:
    """At most `size` of them at a time, each once."""
    left = iter(dict.fromkeys(keys))
    while some := list(islice(left, size)):
        yield some
