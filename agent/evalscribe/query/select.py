"""SELECT."""

from dataclasses import replace

from sqlglot import exp

from evalscribe.query.grouping import check_groups, grouped_by
from evalscribe.query.operators import truth
from evalscribe.query.ordering import as_shown, by_output, ordered_by, paged
from evalscribe.query.problem import only, refusal
from evalscribe.query.scope import Held, Relation, Scope, folded
from evalscribe.query.shown import Shown, listed, no_json
from evalscribe.query.sources import from_clause
from evalscribe.query.tables import by_name
from evalscribe.query.united import united
from evalscribe.query.writing import Term, loose_of

_CLAUSES = (
    "expressions",
    "from_",
    "joins",
    "where",
    "group",
    "having",
    "order",
    "limit",
    "offset",
    "distinct",
    "with_",
    "windows",
    "kind",
)


def inner(node: exp.Expr, scope: Scope) -> Relation:
    """A query inside a query: it sees the names around it."""
    if isinstance(node, exp.SetOperation):
        return _united(node, scope)
    if isinstance(node, exp.Subquery):
        return inner(node.unnest(), scope)
    if not isinstance(node, exp.Select):
        raise refusal(node, "only SELECT is run here")
    return select(node, Scope(scope.writing, scope, queries=dict(scope.queries)))


def _united(node: exp.SetOperation, scope: Scope) -> Relation:
    only(node, "this", "expression", "distinct", "order", "limit", "offset", "with_")
    own = Scope(scope.writing, scope, queries=dict(scope.queries))
    before = _with(node, own)
    return replace(united(node, own), before=before)


def select(node: exp.Select, scope: Scope) -> Relation:
    only(node, *_CLAUSES)
    before = _with(node, scope)
    scope.refused = "FROM"
    text = from_clause(node, scope)
    scope.refused = "WHERE"
    where = node.args.get("where")
    text += f" WHERE {truth(where.this, scope, 'WHERE').text}" if where is not None else ""
    scope.windows = {folded(one.this): one for one in node.args.get("windows") or []}
    scope.refused = None
    grouped = grouped_by(node, scope)
    shown = listed(node, scope)
    having = node.args.get("having")
    condition = truth(having.this, scope, "HAVING") if having is not None else None
    grouped += f" HAVING {condition.text}" if condition else ""
    relation = _ordered(node, scope, text + grouped, shown, condition)
    return replace(
        relation, before=before, single=relation.single or (bool(scope.aggregates) and not node.args.get("group"))
    )


def _with(node: exp.Expr, scope: Scope) -> tuple[str, ...]:
    clause = node.args.get("with_")
    if clause is None:
        return ()
    if clause.args.get("recursive"):
        raise refusal(clause, "WITH RECURSIVE is not offered: nothing bounds it")
    only(clause, "expressions")
    return tuple(_named_query(one, scope) for one in clause.expressions)


def _named_query(node: exp.Expr, scope: Scope) -> str:
    only(node, "this", "alias", "materialized")
    name = folded(node.args["alias"].this)
    if name in by_name():
        raise refusal(node, f"{name} is a table already: give the query another name")
    relation = inner(node.this, Scope(scope.writing, None, queries=scope.queries))
    given = [folded(one) for one in node.args["alias"].args.get("columns") or []]
    if len(given) > len(relation.columns):
        raise refusal(node, f"{name} has {len(relation.columns)} columns, not {len(given)}")
    columns = [replace(held, name=new) for held, new in zip(relation.columns, given, strict=False)]
    written = scope.writing.fresh("w")
    scope.queries[name] = Relation(written, (*columns, *relation.columns[len(given) :]))
    return f"{written} AS ({relation.whole})"


def _ordered(node: exp.Select, scope: Scope, text: str, shown: list[Shown], having: Term | None) -> Relation:
    order, distinct = node.args.get("order"), node.args.get("distinct")
    columns = tuple(_held(one, number, scope) for number, one in enumerate(shown, 1))
    scope.writing.expanded(text)
    parts = ", ".join(f"{one.term.text} AS {held.text}" for one, held in zip(shown, columns, strict=True))
    tail, single = paged(node)
    if distinct is not None:
        only(distinct, "on")
        on = distinct.args.get("on")
        if on is not None:
            return _first_of_each(node, scope, text, shown, columns, on.expressions, tail)
        no_json(shown)
        check_groups(scope, shown, loose_of(*_some(having)))
        after = ordered_by(by_output(order, shown, columns, scope), scope)
        names = ", ".join(held.text for held in columns)
        return Relation(
            f"SELECT {names} FROM (SELECT DISTINCT {parts}{text}) AS q{after}{tail}", columns, single=single
        )
    orders = [as_shown(one, shown, scope) for one in order.expressions] if order is not None else []
    spelled = ordered_by(orders, scope, shown)
    check_groups(scope, shown, loose_of(*_some(having), *(term for _, term in orders)))
    return Relation(f"SELECT {parts}{text}{spelled}{tail}", columns, single=single)


def _held(one: Shown, number: int, scope: Scope) -> Held:
    return Held(one.name, one.term.kind, f"c{number}", scope.writing.expanded(one.term.text))


def _some(term: Term | None) -> list[Term]:
    return [] if term is None else [term]


def _first_of_each(
    node: exp.Select,
    scope: Scope,
    text: str,
    shown: list[Shown],
    columns: tuple[Held, ...],
    on: list[exp.Expr],
    tail: str,
) -> Relation:
    """DISTINCT ON: the first row of each group, in the order given."""
    order = node.args.get("order")
    keys = [as_shown(exp.Ordered(this=one), shown, scope)[1] for one in on]
    orders = [as_shown(one, shown, scope) for one in order.expressions] if order is not None else []
    if {key.text for key in keys} != {term.text for _, term in orders[: len(keys)]}:
        raise refusal(
            node.args["distinct"], "ORDER BY begins with what stands in DISTINCT ON, so that the first row is known"
        )
    spelled = ordered_by(orders, scope, shown)
    check_groups(scope, shown, loose_of(*keys, *(term for _, term in orders)))
    sorting = [(one, replace(term, text=f"o{number}")) for number, (one, term) in enumerate(orders, 1)]
    parts = [f"{one.term.text} AS {held.text}" for one, held in zip(shown, columns, strict=True)]
    parts += [f"{term.text} AS o{number}" for number, (_, term) in enumerate(orders, 1)]
    window = f"row_number() OVER (PARTITION BY {', '.join(key.text for key in keys)}{spelled}) AS place"
    inside = f"SELECT {', '.join(parts)}, {window}{text}"
    after = ordered_by([(one, replace(term, loose=None)) for one, term in sorting], scope)
    names = ", ".join(held.text for held in columns)
    return Relation(f"SELECT {names} FROM ({inside}) AS q WHERE place = 1{after}{tail}", columns)
