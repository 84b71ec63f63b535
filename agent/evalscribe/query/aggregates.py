"""Aggregates, alone and over windows. Sums of numbers with a fraction are exact in both engines, so that both agree."""

from dataclasses import dataclass

from sqlglot import exp

from evalscribe.query.casts import alike, fit, known
from evalscribe.query.comparisons import collated
from evalscribe.query.kinds import NUMBERS, Kind
from evalscribe.query.operators import truth
from evalscribe.query.problem import only, refusal
from evalscribe.query.scope import Scope
from evalscribe.query.writing import Template, Term, firm, loose_of

_EXACT = "({d}({0})::text::numeric)"
_SUM: Template = ("pg_sum({d}{0}){f}", f"sum{_EXACT}{{f}}::double precision")
_MEAN: Template = (
    "(pg_sum({d}{0}){f} / count({d}{0}){f})",
    f"(sum{_EXACT}{{f}}::double precision / nullif(count({{d}}{{0}}){{f}}, 0))",
)


@dataclass(frozen=True)
class Aggregate:
    """For one kind of argument: `{0}` it, `{d}` DISTINCT, `{f}` FILTER and OVER."""

    gives: Kind
    template: Template
    over: bool = True
    """Whether it may stand over a window."""


_TRUTHS = ("min({d}{0}){f}", "bool_and({d}{0}){f}"), ("max({d}{0}){f}", "bool_or({d}{0}){f}")
_SORTED: tuple[Kind, ...] = ("bigint", "double precision", "text", "timestamp", "date")
_SPREAD = {"stddev": 1, "stddev_samp": 1, "stddev_pop": 0, "variance": 1, "var_samp": 1, "var_pop": 0}


def _spread(name: str, fewer: int) -> Aggregate:
    """From exact sums, one division and one root: the same steps in both."""
    root = "sqrt" if name.startswith("stddev") else ""
    number, square = "(({0})::text::numeric)", "(({0})::text::numeric * ({0})::text::numeric)"
    above = f"(count({{0}}){{f}} * sum({square}){{f}} - sum({number}){{f}} * sum({number}){{f}})::double precision"
    below = f"nullif(count({{0}}){{f}} * (count({{0}}){{f}} - {fewer}), 0)::double precision"
    return Aggregate(
        "double precision",
        (f"pg_{'stddev' if root else 'variance'}({{0}}, {fewer}){{f}}", f"{root}({above} / {below})"),
        over=False,
    )


AGGREGATES: dict[str, dict[Kind, Aggregate]] = {
    "count": {},
    "sum": {
        "bigint": Aggregate("bigint", ("sum({d}{0}){f}", "sum({d}{0}){f}::bigint")),
        "double precision": Aggregate("double precision", _SUM),
    },
    "avg": {
        "bigint": Aggregate(
            "double precision",
            (
                "(CAST(sum({d}{0}){f} AS REAL) / count({d}{0}){f})",
                "(sum({d}{0}){f}::double precision / nullif(count({d}{0}){f}, 0))",
            ),
        ),
        "double precision": Aggregate("double precision", _MEAN),
    },
    "min": {kind: Aggregate(kind, "min({d}{0}){f}") for kind in _SORTED},
    "max": {kind: Aggregate(kind, "max({d}{0}){f}") for kind in _SORTED},
    "bool_and": {"boolean": Aggregate("boolean", _TRUTHS[0])},
    "every": {"boolean": Aggregate("boolean", _TRUTHS[0])},
    "bool_or": {"boolean": Aggregate("boolean", _TRUTHS[1])},
    **{name: {"double precision": _spread(name, fewer)} for name, fewer in _SPREAD.items()},
    "string_agg": {},
    "array_agg": {},
    "json_agg": {},
    "jsonb_agg": {},
    "percentile_cont": {},
    "percentile_disc": {},
}
_LISTS = ("array_agg", "json_agg", "jsonb_agg")


@dataclass(frozen=True)
class Given:
    """An aggregate's arguments."""

    parts: list[exp.Expr]
    distinct: bool
    order: list[exp.Expr]


def aggregate(node: exp.Expr, scope: Scope, filtered: exp.Expr | None = None, over: str = "") -> Term:
    """`over`: the window, as it is written. An argument's own columns need no GROUP BY."""
    if scope.refused:
        raise refusal(node, f"aggregates do not stand in {scope.refused}")
    if scope.inside:
        raise refusal(node, "aggregates do not stand inside one another")
    scope.aggregates += not over
    scope.inside = not over
    try:
        return _written(node, scope, filtered, over)
    finally:
        scope.inside = False


def _written(node: exp.Expr, scope: Scope, filtered: exp.Expr | None, over: str) -> Term:
    name, given = node.name.lower(), _given(node)
    condition = truth(filtered, scope, "FILTER") if filtered is not None else None
    suffix = (f" FILTER (WHERE {condition.text})" if condition else "") + over
    if name.startswith("percentile"):
        raise refusal(node, f"{name} needs WITHIN GROUP (ORDER BY …)")
    if name in (*_LISTS, "string_agg"):
        if over:
            raise refusal(node, f"{name} does not stand over a window")
        return _collected(node, name, given, scope, suffix)
    if given.order:
        raise refusal(given.order[0], f"the order makes no difference to {name}")
    if name == "count":
        return _count(node, given, scope, suffix, condition, over)
    return _plain(node, name, given, scope, suffix, condition, over)


def _given(node: exp.Expr) -> Given:
    parts, order, distinct = list(node.expressions), [], False
    if parts and isinstance(parts[-1], exp.Order):
        order = list(parts[-1].expressions)
        parts[-1] = parts[-1].this
    if parts and isinstance(parts[0], exp.Distinct):
        distinct = True
        only(parts[0], "expressions")
        parts[:1] = parts[0].expressions
    return Given(parts, distinct, order)


def _result(term: Term, over: str, *inner: Term | None) -> Term:
    loose = loose_of(*(one for one in inner if one)) if over else None
    return Term(term.kind, term.text, loose)


def _count(node: exp.Expr, given: Given, scope: Scope, suffix: str, condition: Term | None, over: str) -> Term:
    if len(given.parts) != 1:
        raise refusal(node, "count takes * or one argument")
    if isinstance(given.parts[0], exp.Star):
        only(given.parts[0])
        return _result(scope.writing.term("bigint", "count(*){f}", f=suffix), over, condition)
    term = known(scope.term(given.parts[0]), scope.writing)
    if given.distinct and term.kind == "jsonb":
        raise refusal(node, "JSON is not counted by its difference: CAST it to text")
    if given.distinct and over:
        raise refusal(node, "DISTINCT does not stand over a window")
    distinct = "DISTINCT " if given.distinct else ""
    return _result(scope.writing.term("bigint", "count({d}{0}){f}", term, d=distinct, f=suffix), over, term, condition)


def _plain(
    node: exp.Expr, name: str, given: Given, scope: Scope, suffix: str, condition: Term | None, over: str
) -> Term:
    if len(given.parts) != 1:
        raise refusal(node, f"{name} takes 1 argument")
    term = known(scope.term(given.parts[0]), scope.writing)
    kinds = AGGREGATES[name]
    kind = term.kind if term.kind in kinds else "double precision" if term.kind in NUMBERS else term.kind
    chosen = kinds.get(kind)
    if chosen is None:
        raise refusal(node, f"{name} takes {' or '.join(kinds)}, not {term.kind}: CAST it")
    if over and (given.distinct or not chosen.over):
        raise refusal(node, f"{'DISTINCT' if given.distinct else name} does not stand over a window")
    if given.distinct and name in _SPREAD:
        raise refusal(node, f"{name} does not take DISTINCT")
    term = collated(fit(kind, term, scope.writing, node), scope)
    distinct = "DISTINCT " if given.distinct else ""
    return _result(scope.writing.term(chosen.gives, chosen.template, term, d=distinct, f=suffix), over, term, condition)


def _collected(node: exp.Expr, name: str, given: Given, scope: Scope, suffix: str) -> Term:
    """In the order asked for, else in the order of the values: an engine's own order is nobody's."""
    separator = _separator(node, name, given)
    value = known(scope.term(given.parts[0]), scope.writing)
    if name == "string_agg" and value.kind != "text":
        raise refusal(node, f"string_agg takes text, not {value.kind}: CAST it")
    orders = [_ordered(one, scope) for one in given.order] or [(_sortable(value, scope, node), False, False)]
    if given.distinct and any(key.text != _sortable(value, scope, node).text for key, _, _ in orders):
        raise refusal(node, "with DISTINCT the order can only be that of the value itself")
    if scope.writing.sqlite:
        return _collected_here(name, value, separator, orders, given, scope, suffix)
    how = "string_agg({d}{0}, {s} ORDER BY {o}){f}" if name == "string_agg" else "jsonb_agg({d}{0} ORDER BY {o}){f}"
    shown = collated(value, scope) if given.distinct else value
    spelled = ", ".join(_order_of(key.text, desc=desc, first=first) for key, desc, first in orders)
    kind: Kind = "text" if name == "string_agg" else "jsonb"
    more = {"d": "DISTINCT " if given.distinct else "", "o": spelled, "f": suffix, "s": scope.writing.bound(separator)}
    return firm(scope.writing.term(kind, how, shown, **more))


def _collected_here(
    name: str,
    value: Term,
    separator: str,
    orders: list[tuple[Term, bool, bool]],
    given: Given,
    scope: Scope,
    suffix: str,
) -> Term:
    how = "".join("d" if desc else "a" for _, desc, _ in orders) + "".join(
        "f" if first else "l" for *_, first in orders
    )
    kind: Kind = "text" if name == "string_agg" else "jsonb"
    form = ("distinct " if given.distinct else "") + ("text" if name == "string_agg" else value.kind)
    places = "".join(f", {{{number + 1}}}" for number in range(len(orders)))
    terms = (value, *(key for key, _, _ in orders))
    made = "pg_string_agg" if name == "string_agg" else "pg_json_agg"
    template = f"{made}('{form}', '{how}', {{s}}, {{0}}{places}){{f}}"
    return firm(scope.writing.term(kind, template, *terms, s=scope.writing.bound(separator), f=suffix))


def _separator(node: exp.Expr, name: str, given: Given) -> str:
    if len(given.parts) != (2 if name == "string_agg" else 1):
        raise refusal(node, f"{name} takes {'a value and a separator' if name == 'string_agg' else '1 argument'}")
    if name != "string_agg":
        return ""
    separator = given.parts[1]
    if not isinstance(separator, exp.Literal) or not separator.is_string:
        raise refusal(node, "the separator is a literal")
    return separator.name


def _sortable(term: Term, scope: Scope, node: exp.Expr) -> Term:
    if term.kind == "jsonb":
        raise refusal(node, "JSON has no order: write ORDER BY something else")
    return collated(known(term, scope.writing), scope)


def _ordered(node: exp.Expr, scope: Scope) -> tuple[Term, bool, bool]:
    only(node, "this", "desc", "nulls_first")
    return (
        _sortable(scope.term(node.this), scope, node),
        bool(node.args.get("desc")),
        bool(node.args.get("nulls_first")),
    )


def _order_of(text: str, *, desc: bool, first: bool) -> str:
    return f"{text} {'DESC' if desc else 'ASC'} NULLS {'FIRST' if first else 'LAST'}"


def ordering(orders: list[exp.Expr], scope: Scope) -> tuple[str, str | None]:
    """What stands after ORDER BY, and a column in it that is not grouped."""
    found = [_ordered(one, scope) for one in orders]
    return ", ".join(_order_of(key.text, desc=desc, first=first) for key, desc, first in found), loose_of(
        *(key for key, _, _ in found)
    )


def within_group(node: exp.Expr, scope: Scope, filtered: exp.Expr | None = None) -> Term:
    """`percentile_cont(0.5) WITHIN GROUP (ORDER BY x)`"""
    only(node, "this", "expression")
    name = node.this.name.lower() if isinstance(node.this, exp.Anonymous) else ""
    orders = node.expression.expressions
    if (
        not name.startswith("percentile_")
        or name not in AGGREGATES
        or len(orders) != 1
        or len(node.this.expressions) != 1
    ):
        raise refusal(node, "only percentile_cont and percentile_disc, by one value, stand before WITHIN GROUP")
    if scope.refused or scope.inside:
        raise refusal(node, f"aggregates do not stand in {scope.refused or 'one another'}")
    scope.aggregates, scope.inside = scope.aggregates + 1, True
    try:
        return _percentile(node, name, orders[0], scope, filtered)
    finally:
        scope.inside = False


def _percentile(node: exp.Expr, name: str, order: exp.Expr, scope: Scope, filtered: exp.Expr | None) -> Term:
    part = node.this.expressions[0]
    share = float(part.name) if isinstance(part, exp.Literal) and not part.is_string else -1.0
    if not 0 <= share <= 1:
        raise refusal(node, "the share is a literal between 0 and 1")
    key, desc, _ = _ordered(order, scope)
    (value,) = alike([key], scope.writing, node)
    if value.kind not in NUMBERS:
        raise refusal(order, f"a number is wanted here and this is {value.kind}")
    value = fit("double precision", value, scope.writing, node)
    suffix = f" FILTER (WHERE {truth(filtered, scope, 'FILTER').text})" if filtered is not None else ""
    down = "DESC" if desc else "ASC"
    how: Template = (
        "{name}({p}, {0}, '{down}'){f}",
        "{name}({p}) WITHIN GROUP (ORDER BY {0} {down}){f}",
    )
    name = f"pg_{name}" if scope.writing.sqlite else name
    more = {"name": name, "p": scope.writing.bound(share), "down": down, "f": suffix}
    return firm(scope.writing.term("double precision", how, value, **more))


def filtered(node: exp.Expr, scope: Scope) -> Term:
    """`… FILTER (WHERE …)`"""
    only(node, "this", "expression")
    condition = node.expression.this
    if isinstance(node.this, exp.WithinGroup):
        return within_group(node.this, scope, condition)
    if not isinstance(node.this, exp.Anonymous) or node.this.name.lower() not in AGGREGATES:
        raise refusal(node, "FILTER stands after an aggregate")
    return aggregate(node.this, scope, condition)
