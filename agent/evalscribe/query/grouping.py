"""GROUP BY, and what has no one value in a group."""

from sqlglot import exp

from evalscribe.query.casts import known
from evalscribe.query.problem import only, refusal
from evalscribe.query.scope import Scope, folded
from evalscribe.query.shown import Shown, place_of
from evalscribe.query.writing import Term


def grouped_by(node: exp.Select, scope: Scope) -> str:
    group = node.args.get("group")
    if group is None:
        return ""
    only(group, "expressions")
    terms = [_group(one, node, scope) for one in group.expressions]
    scope.groups = {term.text for term in terms}
    return " GROUP BY " + ", ".join(not_a_place(term) for term in terms)


def _group(one: exp.Expr, node: exp.Select, scope: Scope) -> Term:
    """A place in the list, a column, or an alias: a column comes first, as in Postgres."""
    scope.refused = "GROUP BY"
    try:
        term = known(scope.term(_meant(one, node, scope)), scope.writing)
    finally:
        scope.refused = None
    if term.kind == "jsonb":
        raise refusal(one, "JSON is not what rows are grouped by: take its text, ->>")
    if not term.varies:
        raise refusal(one, "this is the same in every row: there is nothing to group by")
    return term


def _meant(one: exp.Expr, node: exp.Select, scope: Scope) -> exp.Expr:
    place = place_of(one)
    if place is not None:
        if not 1 <= place <= len(node.expressions) or isinstance(node.expressions[place - 1], exp.Star):
            raise refusal(one, f"there is no column {place} in the list of SELECT")
        meant: exp.Expr = node.expressions[place - 1].unalias()
        return meant
    if not isinstance(one, exp.Column) or one.args.get("table") is not None:
        return one
    name = folded(one.this)
    named = [
        part.this for part in node.expressions if isinstance(part, exp.Alias) and folded(part.args["alias"]) == name
    ]
    is_column = any(held.name == name for source in scope.sources for held in source.columns)
    return named[0] if len(named) == 1 and not (is_column and _only_of(named[0], name)) else one


def _only_of(node: exp.Expr, name: str) -> bool:
    """Whether the column alone tells it. Otherwise to group by the column is no use, and Postgres would object."""
    return all(folded(column.this) == name for column in node.find_all(exp.Column))


def not_a_place(term: Term) -> str:
    return f"CAST({term.text} AS INTEGER)" if term.text.isdigit() else term.text


def check_groups(scope: Scope, shown: list[Shown], loose: str | None) -> None:
    """With groups or aggregates, what is neither in them has no one value."""
    if not scope.groups and not scope.aggregates:
        return
    for one in shown:
        if one.term.loose:
            raise refusal(one.node, _ungrouped(one.term.loose))
    inside = next((term.loose for term in scope.used if term.text not in scope.groups), None)
    if loose or inside:
        raise refusal(None, _ungrouped(str(loose or inside)))


def _ungrouped(name: str) -> str:
    return f"column {name} must be in GROUP BY or inside an aggregate"
