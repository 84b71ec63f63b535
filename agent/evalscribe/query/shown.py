"""The list of SELECT: what each column is, and what it is called."""

from dataclasses import dataclass

from sqlglot import exp

from evalscribe.query.casts import known
from evalscribe.query.naming import name_of
from evalscribe.query.problem import only, refusal
from evalscribe.query.scope import Held, Scope, folded
from evalscribe.query.writing import Term

MOST_COLUMNS = 1_600
"""What both engines can show."""


@dataclass(frozen=True)
class Shown:
    """One column of the result."""

    name: str
    term: Term
    node: exp.Expr


def listed(node: exp.Select, scope: Scope) -> list[Shown]:
    shown: list[Shown] = []
    for part in node.expressions:
        shown += _part(part, scope)
        if len(shown) > MOST_COLUMNS:
            raise refusal(part, f"SELECT shows at most {MOST_COLUMNS:,} columns")
    if not shown:
        raise refusal(node, "SELECT needs at least one column")
    return shown


def _part(node: exp.Expr, scope: Scope) -> list[Shown]:
    if isinstance(node, exp.Star):
        only(node)
        return [Shown(held.name, scope.column(node, held.name, table), node) for held, table in _every(node, scope)]
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
        return _all_of(node, scope)
    inner_node = node.this if isinstance(node, exp.Alias) else node
    term = scope.term(inner_node)
    name = folded(node.args["alias"]) if isinstance(node, exp.Alias) else name_of(node)
    return [Shown(name, term if term.kind == "unknown" and term.literal is None else known(term, scope.writing), node)]


def _every(node: exp.Expr, scope: Scope) -> list[tuple[Held, str | None]]:
    if not scope.sources:
        raise refusal(node, "* needs FROM")
    own = [(held, source.alias) for source in scope.sources for held in source.columns if held.name not in scope.merged]
    return [*((held, None) for held in scope.merged.values()), *own]


def _all_of(node: exp.Expr, scope: Scope) -> list[Shown]:
    only(node.this)
    table = folded(node.args["table"])
    found = [source for one in scope.around() for source in one.sources if source.alias == table]
    if not found:
        raise refusal(node, f"nothing in FROM is called {table}")
    return [Shown(held.name, scope.column(node, held.name, table), node) for held in found[0].columns]


def output_of(node: exp.Expr, shown: list[Shown]) -> int | None:
    place = place_of(node)
    if place is not None:
        if not 1 <= place <= len(shown):
            raise refusal(node, f"there is no column {place} in the list of SELECT")
        return place - 1
    if isinstance(node, exp.Column) and node.args.get("table") is None and not isinstance(node.this, exp.Star):
        found = [number for number, one in enumerate(shown) if one.name == folded(node.this)]
        if len({shown[number].term.text for number in found}) > 1:
            raise refusal(node, f"{folded(node.this)} is ambiguous: two columns of the list have this name")
        return found[0] if found else None
    return None


def place_of(node: exp.Expr) -> int | None:
    if isinstance(node, exp.Literal) and not node.is_string and node.name.isascii() and node.name.isdigit():
        return int(node.name)
    return None


def no_json(shown: list[Shown]) -> None:
    for one in shown:
        if one.term.kind == "jsonb":
            raise refusal(one.node, f"JSON is not compared by DISTINCT and UNION: take the text of {one.name}, ->>")
