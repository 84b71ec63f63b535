"""Errors in a query, with their place in the user's text."""

from difflib import get_close_matches

from sqlglot import exp

from evalscribe.errors import UsageError

MOST_NAMED = 5


class QueryError(Exception):
    """A query that is refused. `offset` is the position in the query; None if it is unknown."""

    def __init__(self, message: str, offset: int | None) -> None:
        super().__init__(message)
        self.offset = offset

    def told(self, sql: str) -> UsageError:
        if self.offset is None:
            return UsageError(f"this query cannot be run: {self}")
        line, column = place(sql, self.offset)
        return UsageError(f"line {line}, column {column}: {self}")


def query_error(node: exp.Expr | None, message: str) -> QueryError:
    """Return the error to raise for a part of the query."""
    return QueryError(message, offset_of(node))


def offset_of(node: exp.Expr | None) -> int | None:
    """Return the offset of a part, or of the part that contains it if the parser recorded no position."""
    while node is not None:
        starts = [one.meta["start"] for one in node.walk() if "start" in one.meta]
        if starts:
            return int(min(starts))
        node = node.parent
    return None


def place(sql: str, offset: int) -> tuple[int, int]:
    """Return line and column, both from 1."""
    before = sql[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1


def nearest(name: str, known: list[str]) -> str:
    """Return a suggestion to append to a message: similar names, or all of them if they are few."""
    close = get_close_matches(name.lower(), known, MOST_NAMED, 0.6)
    if close:
        return f"; did you mean {' or '.join(close[:2])}?"
    return f"; available: {', '.join(known)}" if 0 < len(known) <= 20 else ""
