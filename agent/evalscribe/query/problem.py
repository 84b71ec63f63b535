"""What is wrong with a query, and where in the user's own text."""

from difflib import get_close_matches

from sqlglot import exp

from evalscribe.errors import UsageError

MOST_NAMED = 5


class Refused(Exception):
    """`offset` counts characters from the beginning of the query; None where the place is not known."""

    def __init__(self, message: str, offset: int | None) -> None:
        super().__init__(message)
        self.offset = offset

    def told(self, sql: str) -> UsageError:
        if self.offset is None:
            return UsageError(f"this query cannot be run: {self}")
        line, column = place(sql, self.offset)
        return UsageError(f"line {line}, column {column}: {self}")


def refusal(node: exp.Expr | None, message: str) -> Refused:
    """To be raised."""
    return Refused(message, offset_of(node))


def offset_of(node: exp.Expr | None) -> int | None:
    """Where the first of it that the parser placed begins, else of what it stands in."""
    while node is not None:
        starts = [one.meta["start"] for one in node.walk() if "start" in one.meta]
        if starts:
            return int(min(starts))
        node = node.parent
    return None


def place(sql: str, offset: int) -> tuple[int, int]:
    """Line and column, both from 1."""
    before = sql[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1


def nearest(name: str, known: list[str]) -> str:
    """`; near it: a, b`, or what there is where it is little, or nothing."""
    close = get_close_matches(name.lower(), known, MOST_NAMED, 0.6)
    if close:
        return f"; did you mean {' or '.join(close[:2])}?"
    return f"; there is: {', '.join(known)}" if 0 < len(known) <= 20 else ""


def only(node: exp.Expr, *understood: str) -> None:
    """Refuse what the parser read and nobody here understands, rather than leave it out."""
    for name, value in node.args.items():
        if name not in understood and value not in (None, False, []):
            part = value[0] if isinstance(value, list) else value
            where = part if isinstance(part, exp.Expr) and offset_of(part) is not None else node
            raise refusal(where, f"{name.strip('_').replace('_', ' ').upper()} is not understood here")
