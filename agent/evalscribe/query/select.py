"""SELECT, and what is made of several."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from evalscribe.query.casts import alike, known
from evalscribe.query.operators import collated, truth
from evalscribe.query.problem import only, refusal
from evalscribe.query.scope import Held, Relation, Scope, folded
from evalscribe.query.sources import from_clause
from evalscribe.query.tables import by_name
from evalscribe.query.writing import Term, Writing, loose_of

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
MOST_ROWS = 10**9
_NAMES: dict[type[exp.Expr], str] = {
    exp.Case: "case",
    exp.Exists: "exists",
    exp.Extract: "extract",
    exp.Substring: "substring",
    exp.Trim: "btrim",
    exp.StrPosition: "position",
}


@dataclass(frozen=True)
class Shown:
    """One column of the result."""

    name: str
    term: Term
    node: exp.Expr


def inner(node: exp.Expr, scope: Scope) -> Relation:
    """A query inside a query: it sees the names around it."""
    if isinstance(node, exp.SetOperation):
        return united(node, scope)
    if isinstance(node, exp.Subquery):
        return inner(node.unnest(), scope)
    if not isinstance(node, exp.Select):
        raise refusal(node, "only SELECT is run here")
    return select(node, Scope(scope.writing, scope, queries=dict(scope.queries)))


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
    grouped = _groups(node, scope)
    shown = _list(node, scope)
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


def _groups(node: exp.Select, scope: Scope) -> str:
    group = node.args.get("group")
    if group is None:
        return ""
    only(group, "expressions")
    terms = [_group(one, node, scope) for one in group.expressions]
    scope.groups = {term.text for term in terms}
    return " GROUP BY " + ", ".join(_not_a_place(term) for term in terms)


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
    place = _place(one)
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


def _place(node: exp.Expr) -> int | None:
    if isinstance(node, exp.Literal) and not node.is_string and node.name.isascii() and node.name.isdigit():
        return int(node.name)
    return None


def _not_a_place(term: Term) -> str:
    return f"CAST({term.text} AS INTEGER)" if term.text.isdigit() else term.text


def _list(node: exp.Select, scope: Scope) -> list[Shown]:
    shown = [one for part in node.expressions for one in _part(part, scope)]
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
    name = folded(node.args["alias"]) if isinstance(node, exp.Alias) else _name(node)
    return [Shown(name, term if term.kind == "unknown" and term.literal is None else known(term, scope.writing), node)]


def _every(node: exp.Expr, scope: Scope) -> list[tuple[Held, str | None]]:
    if not scope.sources:
        raise refusal(node, "* needs FROM")
    own = [(held, source.alias) for source in scope.sources for held in source.columns if held.name not in scope.merged]
    return [*((held, None) for held in scope.merged.values()), *own]


def _all_of(node: exp.Expr, scope: Scope) -> list[Shown]:
    table = folded(node.args["table"])
    found = [source for one in scope.around() for source in one.sources if source.alias == table]
    if not found:
        raise refusal(node, f"nothing in FROM is called {table}")
    return [Shown(held.name, scope.column(node, held.name, table), node) for held in found[0].columns]


def _name(node: exp.Expr) -> str:
    """What Postgres calls a column without a name."""
    if isinstance(node, exp.Column):
        return folded(node.this)
    if isinstance(node, exp.Anonymous):
        return node.name.lower()
    if isinstance(node, exp.Window | exp.Filter | exp.WithinGroup | exp.Paren):
        return _name(node.this)
    if isinstance(node, exp.Cast):
        inside = _name(node.this)
        return inside if inside != "?column?" else str(node.args["to"].this.name).lower()
    return _NAMES.get(type(node), "?column?")


def _ordered(node: exp.Select, scope: Scope, text: str, shown: list[Shown], having: Term | None) -> Relation:
    order, distinct = node.args.get("order"), node.args.get("distinct")
    columns = tuple(_held(one, number, scope) for number, one in enumerate(shown, 1))
    scope.writing.expanded(text)
    listed = ", ".join(f"{one.term.text} AS {held.text}" for one, held in zip(shown, columns, strict=True))
    tail, single = _tail(node)
    if distinct is not None:
        only(distinct, "on")
        on = distinct.args.get("on")
        if on is not None:
            return _first_of_each(node, scope, text, shown, columns, on.expressions, tail)
        _no_json(shown)
        _check(scope, shown, loose_of(*_some(having)))
        after = _spelled(_by_output(order, shown, columns, scope), scope)
        names = ", ".join(held.text for held in columns)
        return Relation(
            f"SELECT {names} FROM (SELECT DISTINCT {listed}{text}) AS q{after}{tail}", columns, single=single
        )
    orders = [_as_shown(one, shown, scope) for one in order.expressions] if order is not None else []
    spelled = _spelled(orders, scope, shown)
    _check(scope, shown, loose_of(*_some(having), *(term for _, term in orders)))
    return Relation(f"SELECT {listed}{text}{spelled}{tail}", columns, single=single)


def _held(one: Shown, number: int, scope: Scope) -> Held:
    return Held(one.name, one.term.kind, f"c{number}", scope.writing.expanded(one.term.text))


def _no_json(shown: list[Shown]) -> None:
    for one in shown:
        if one.term.kind == "jsonb":
            raise refusal(one.node, f"JSON is not compared by DISTINCT and UNION: take the text of {one.name}, ->>")


def _some(term: Term | None) -> list[Term]:
    return [] if term is None else [term]


def _check(scope: Scope, shown: list[Shown], loose: str | None) -> None:
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


def _as_shown(one: exp.Expr, shown: list[Shown], scope: Scope) -> tuple[exp.Expr, Term]:
    """A place or a name of the list, which comes before a column, or any expression."""
    only(one, "this", "desc", "nulls_first")
    number = _output(one.this, shown)
    return one, shown[number].term if number is not None else scope.term(one.this)


def _output(node: exp.Expr, shown: list[Shown]) -> int | None:
    place = _place(node)
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


def _spelled(orders: list[tuple[exp.Expr, Term]], scope: Scope, shown: Sequence[Shown] = ()) -> str:
    """Rows that are equal so far are sorted by all they show: else each engine would have an order of its own."""
    parts: dict[str, str] = {}
    for one, term in orders:
        if not term.varies:
            continue
        if term.kind == "jsonb":
            raise refusal(one, "JSON has no order: take its text, ->>, or CAST it")
        key = _not_a_place(collated(known(term, scope.writing), scope))
        down = "DESC" if one.args.get("desc") else "ASC"
        parts.setdefault(key, f"{key} {down} NULLS {'FIRST' if one.args.get('nulls_first') else 'LAST'}")
    for term in (one.term for one in shown if orders):
        if term.kind not in ("jsonb", "unknown") and term.varies:
            key = collated(term, scope).text
            parts.setdefault(key, f"{key} ASC NULLS LAST")
    return f" ORDER BY {', '.join(parts.values())}" if parts else ""


def _by_output(
    order: exp.Expr | None, shown: list[Shown], columns: tuple[Held, ...], scope: Scope
) -> list[tuple[exp.Expr, Term]]:
    """Where only the list itself can be sorted by."""
    found = []
    for one in order.expressions if order is not None else []:
        only(one, "this", "desc", "nulls_first")
        number = _output(one.this, shown)
        if number is None and scope.sources:
            text = scope.term(one.this).text
            number = next((place for place, column in enumerate(shown) if column.term.text == text), None)
        if number is None:
            raise refusal(one, "here ORDER BY takes names and numbers of the list of SELECT only")
        found.append((one, Term(columns[number].kind, f"q.{columns[number].text}")))
    return [(one, replace(term, loose=None)) for one, term in found]


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
    keys = [_as_shown(exp.Ordered(this=one), shown, scope)[1] for one in on]
    orders = [_as_shown(one, shown, scope) for one in order.expressions] if order is not None else []
    if {key.text for key in keys} != {term.text for _, term in orders[: len(keys)]}:
        raise refusal(
            node.args["distinct"], "ORDER BY begins with what stands in DISTINCT ON, so that the first row is known"
        )
    spelled = _spelled(orders, scope, shown)
    _check(scope, shown, loose_of(*keys, *(term for _, term in orders)))
    sorting = [(one, replace(term, text=f"o{number}")) for number, (one, term) in enumerate(orders, 1)]
    listed = [f"{one.term.text} AS {held.text}" for one, held in zip(shown, columns, strict=True)]
    listed += [f"{term.text} AS o{number}" for number, (_, term) in enumerate(orders, 1)]
    window = f"row_number() OVER (PARTITION BY {', '.join(key.text for key in keys)}{spelled}) AS place"
    inside = f"SELECT {', '.join(listed)}, {window}{text}"
    after = _spelled([(one, replace(term, loose=None)) for one, term in sorting], scope)
    names = ", ".join(held.text for held in columns)
    return Relation(f"SELECT {names} FROM ({inside}) AS q WHERE place = 1{after}{tail}", columns)


def _tail(node: exp.Expr) -> tuple[str, bool]:
    """LIMIT and OFFSET, and whether that is one row at most."""
    limit, offset = node.args.get("limit"), node.args.get("offset")
    most = _count(limit) if limit is not None else None
    skipped = _count(offset) if offset is not None else None
    text = f" LIMIT {most}" if most is not None else f" LIMIT {MOST_ROWS}" if skipped else ""
    return text + (f" OFFSET {skipped}" if skipped else ""), most is not None and most <= 1


def _count(node: exp.Expr) -> int | None:
    only(node, "expression", "count", "direction")
    value = node.args.get("expression") or node.args.get("count")
    if isinstance(value, exp.Null) or (isinstance(value, exp.Column) and value.name.upper() == "ALL"):
        return None
    number = _place(value) if isinstance(value, exp.Expr) else None
    if number is None or number > MOST_ROWS:
        raise refusal(node, f"LIMIT and OFFSET take a whole number of at most {MOST_ROWS:,}")
    return number


def united(node: exp.SetOperation, scope: Scope) -> Relation:
    """UNION, EXCEPT, INTERSECT."""
    only(node, "this", "expression", "distinct", "order", "limit", "offset", "with_")
    own = Scope(scope.writing, scope, queries=dict(scope.queries))
    before = _with(node, own)
    word = node.key.upper()
    if not node.args.get("distinct", True):
        if word != "UNION":
            raise refusal(node, f"{word} ALL is not offered: SQLite has none")
        word = "UNION ALL"
    left, right = (_side(part, node, own) for part in (node.this, node.expression))
    if len(left.columns) != len(right.columns):
        raise refusal(
            node, f"{word} takes as many columns on both sides: {len(left.columns)} and {len(right.columns)} are given"
        )
    columns, texts = _matched(node, left, right, own.writing)
    if word != "UNION ALL":
        _no_json([Shown(held.name, Term(held.kind, ""), node) for held in columns])
    both = f" {word} ".join(texts)
    tail, single = _tail(node)
    shown = [Shown(held.name, Term(held.kind, held.text), node) for held in columns]
    orders = _by_output(node.args.get("order"), shown, columns, Scope(own.writing))
    spelled = _spelled(orders, own)
    names = ", ".join(held.text for held in columns)
    return Relation(f"SELECT {names} FROM ({both}) AS q{spelled}{tail}", columns, before, single)


def _side(part: exp.Expr, node: exp.SetOperation, scope: Scope) -> Relation:
    """Which of two different ones binds tighter is not the same everywhere: parentheses say it."""
    if isinstance(part, exp.SetOperation) and type(part) is not type(node):
        raise refusal(node, "write parentheses around one of UNION, EXCEPT and INTERSECT")
    return inner(part, scope)


def _matched(node: exp.Expr, left: Relation, right: Relation, writing: Writing) -> tuple[tuple[Held, ...], list[str]]:
    columns, sides = [], ([], [])  # type: tuple[list[Held], tuple[list[str], list[str]]]
    for number, pair in enumerate(zip(left.columns, right.columns, strict=True), 1):
        terms = [Term(held.kind, f"{name}.{held.text}") for held, name in zip(pair, "ab", strict=True)]
        for side, term in zip(sides, alike(terms, writing, node), strict=True):
            side.append(f"{term.text} AS c{number}")
        kind = alike(terms, writing, node)[0].kind
        columns.append(Held(pair[0].name, kind, f"c{number}", max(held.size for held in pair)))
    texts = [
        f"SELECT {', '.join(side)} FROM ({relation.whole}) AS {name}"
        for side, relation, name in zip(sides, (left, right), "ab", strict=True)
    ]
    return tuple(columns), texts
