"""`= ANY(…)`, `<> ALL(…)`, `LIKE ANY(…)`: one value beside every one of a list or a query."""

from dataclasses import dataclass

from sqlglot import exp

from evalscribe.query.problem import refusal


@dataclass(frozen=True)
class Quantified:
    """One of `listed` and `query` is there."""

    every: bool
    """ALL; else ANY."""
    listed: tuple[exp.Expr, ...] = ()
    query: exp.Expr | None = None


def quantified(node: exp.Expr | None) -> Quantified | None:
    """What stands right of a comparison, where it is such a thing."""
    if isinstance(node, exp.Anonymous) and node.name.upper() == "ALL" and len(node.expressions) == 1:
        return _of(node.expressions[0], node, every=True)
    if isinstance(node, exp.Any | exp.All):
        return _of(node.this, node, every=isinstance(node, exp.All))
    return None


def _of(inner: exp.Expr, node: exp.Expr, *, every: bool) -> Quantified:
    inner = inner.unnest()
    if isinstance(inner, exp.Query):
        return Quantified(every, query=inner)
    if isinstance(inner, exp.Array) and inner.expressions:
        return Quantified(every, listed=tuple(inner.expressions))
    raise refusal(node, "ANY and ALL take ARRAY['a', 'b'] or a query; or write IN (…)")
