"""ORDER BY, LIMIT and OFFSET."""

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from evalscribe.query.casts import known
from evalscribe.query.comparisons import collated
from evalscribe.query.grouping import not_a_place
from evalscribe.query.problem import only, refusal
from evalscribe.query.scope import Held, Scope
from evalscribe.query.shown import Shown, output_of, place_of
from evalscribe.query.writing import Term

MOST_ROWS = 10**9


def as_shown(one: exp.Expr, shown: list[Shown], scope: Scope) -> tuple[exp.Expr, Term]:
    """A place or a name of the list, which comes before a column, or any expression."""
    only(one, "this", "desc", "nulls_first")
    number = output_of(one.this, shown)
    return one, shown[number].term if number is not None else scope.term(one.this)


def ordered_by(orders: list[tuple[exp.Expr, Term]], scope: Scope, shown: Sequence[Shown] = ()) -> str:
    """Rows that are equal so far are sorted by all they show: else each engine would have an order of its own."""
    parts: dict[str, str] = {}
    for one, term in orders:
        if not term.varies:
            continue
        if term.kind == "jsonb":
            raise refusal(one, "JSON has no order: take its text, ->>, or CAST it")
        key = not_a_place(collated(known(term, scope.writing), scope))
        down = "DESC" if one.args.get("desc") else "ASC"
        parts.setdefault(key, f"{key} {down} NULLS {'FIRST' if one.args.get('nulls_first') else 'LAST'}")
    for term in (one.term for one in shown if orders):
        if term.kind not in ("jsonb", "unknown") and term.varies:
            key = collated(term, scope).text
            parts.setdefault(key, f"{key} ASC NULLS LAST")
    return f" ORDER BY {', '.join(parts.values())}" if parts else ""


def by_output(
    order: exp.Expr | None, shown: list[Shown], columns: tuple[Held, ...], scope: Scope
) -> list[tuple[exp.Expr, Term]]:
    """Where only the list itself can be sorted by."""
    found = []
    for one in order.expressions if order is not None else []:
        only(one, "this", "desc", "nulls_first")
        number = output_of(one.this, shown)
        if number is None and scope.sources:
            text = scope.term(one.this).text
            number = next((place for place, column in enumerate(shown) if column.term.text == text), None)
        if number is None:
            raise refusal(one, "here ORDER BY takes names and numbers of the list of SELECT only")
        found.append((one, Term(columns[number].kind, f"q.{columns[number].text}")))
    return [(one, replace(term, loose=None)) for one, term in found]


def paged(node: exp.Expr) -> tuple[str, bool]:
    """LIMIT and OFFSET, and whether that is one row at most."""
    limit, offset = node.args.get("limit"), node.args.get("offset")
    most = _count(limit) if limit is not None else None
    skipped = _count(offset) if offset is not None else None
    text = f" LIMIT {most}" if most is not None else f" LIMIT {MOST_ROWS}" if skipped else ""
    return text + (f" OFFSET {skipped}" if skipped else ""), most is not None and most <= 1


def _count(node: exp.Expr) -> int | None:
    only(node, "expression", "count", "direction", "limit_options")
    options = node.args.get("limit_options")
    if options is not None:
        only(options, "rows")
    value = node.args.get("expression") or node.args.get("count")
    if isinstance(value, exp.Null) or (isinstance(value, exp.Column) and value.name.upper() == "ALL"):
        return None
    number = place_of(value) if isinstance(value, exp.Expr) else None
    if number is None or number > MOST_ROWS:
        raise refusal(node, f"LIMIT and OFFSET take a whole number of at most {MOST_ROWS:,}")
    return number
