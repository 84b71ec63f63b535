"""What two values are to one another: compared, listed, alike."""

from sqlglot import exp

from evalscribe.query.casts import alike, fit
from evalscribe.query.problem import only, refusal
from evalscribe.query.quantified import Quantified, quantified
from evalscribe.query.scope import Scope
from evalscribe.query.writing import Handler, Template, Term

_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_SAME: dict[type[exp.Expr], Template] = {
    exp.NullSafeEQ: ("({0} IS {1})", "({0} IS NOT DISTINCT FROM {1})"),
    exp.NullSafeNEQ: ("({0} IS NOT {1})", "({0} IS DISTINCT FROM {1})"),
}


def compare(node: exp.Expr, scope: Scope) -> Term:
    listed = _listed(node, scope)
    if listed is not None:
        return listed
    left, right = _pair(node, scope)
    sign = _COMPARISONS[type(node)]
    if left.kind == "jsonb":
        if sign not in ("=", "<>"):
            raise refusal(node, "JSON has no order: compare its text, ->>, or CAST it")
        keys: Template = ("(pg_json_key({0}) {sign} pg_json_key({1}))", "({0} {sign} {1})")
        return scope.writing.term("boolean", keys, left, right, sign=sign)
    if sign not in ("=", "<>"):
        left, right = collated(left, scope), collated(right, scope)
    return scope.writing.term("boolean", "({0} {sign} {1})", left, right, sign=sign)


def _listed(node: exp.Expr, scope: Scope) -> Term | None:
    found = quantified(node.args.get("expression"))
    if found is None:
        return None
    as_list = (exp.NEQ if found.every else exp.EQ) is type(node)
    if found.query is None:
        return _in(node, scope, list(found.listed), negated=found.every) if as_list else _each(node, found, scope)
    if not as_list:
        raise refusal(node, "before a query only = ANY and <> ALL are understood; or compare with its min or max")
    return _in_query(node, scope, found.query, negated=found.every)


def _each(node: exp.Expr, found: Quantified, scope: Scope) -> Term:
    """Beside each of the list, one after the other."""
    one_by_one = [type(node)(**{**node.args, "expression": one}) for one in found.listed]
    terms = [scope.term(one) for one in one_by_one]
    word = " AND " if found.every else " OR "
    places = word.join(f"{{{number}}}" for number in range(len(terms)))
    return scope.writing.term("boolean", f"({places})", *terms)


def _pair(node: exp.Expr, scope: Scope) -> tuple[Term, Term]:
    only(node, "this", "expression", "typed", "safe", "ignore_nulls")
    left, right = alike([scope.term(node.this), scope.term(node.expression)], scope.writing, node)
    return left, right


def between(node: exp.Expr, scope: Scope) -> Term:
    only(node, "this", "low", "high", "negate", "symmetric")
    parts = (node.this, node.args["low"], node.args["high"])
    terms = [collated(term, scope) for term in alike([scope.term(part) for part in parts], scope.writing, node)]
    if terms[0].kind == "jsonb":
        raise refusal(node, "JSON has no order: compare its text, ->>, or CAST it")
    if node.args.get("symmetric"):
        raise refusal(node, "BETWEEN SYMMETRIC is not offered: SQLite has none")
    word = "NOT BETWEEN" if node.args.get("negate") else "BETWEEN"
    return scope.writing.term("boolean", "({0} {word} {1} AND {2})", *terms, word=word)


def collated(term: Term, scope: Scope) -> Term:
    """Text in the order of its code points, as SQLite has it, whatever the server's language."""
    if term.kind != "text" or scope.writing.sqlite or term.text.endswith('COLLATE "C")'):
        return term
    return scope.writing.term("text", '({0} COLLATE "C")', term)


def member(node: exp.Expr, scope: Scope) -> Term:
    only(node, "this", "expressions", "query", "negate")
    query, negated = node.args.get("query"), bool(node.args.get("negate"))
    if query is not None:
        return _in_query(node, scope, query.unnest(), negated=negated)
    if not node.expressions:
        raise refusal(node, "IN takes at least one value")
    return _in(node, scope, node.expressions, negated=negated)


def _in_query(node: exp.Expr, scope: Scope, query: exp.Expr, *, negated: bool) -> Term:
    relation = scope.writing.inner(query, scope)
    if len(relation.columns) != 1:
        raise refusal(node, "a query in IN gives one column")
    left, right = alike([scope.term(node.this), Term(relation.columns[0].kind, "")], scope.writing, node)
    if right.text or left.kind == "jsonb":
        raise refusal(node, f"the query gives {relation.columns[0].kind}: CAST one to the other's kind")
    word = "NOT IN" if negated else "IN"
    return scope.writing.term("boolean", "({0} {word} ({query}))", left, word=word, query=relation.whole)


def _in(node: exp.Expr, scope: Scope, listed: list[exp.Expr], *, negated: bool) -> Term:
    terms = alike([scope.term(node.this), *map(scope.term, listed)], scope.writing, node)
    if terms[0].kind == "jsonb":
        raise refusal(node, "JSON is not looked for in a list: compare its text, ->>")
    places = ", ".join(f"{{{number}}}" for number in range(1, len(terms)))
    return scope.writing.term("boolean", f"({{0}} {'NOT IN' if negated else 'IN'} ({places}))", *terms)


def same(node: exp.Expr, scope: Scope) -> Term:
    left, right = _pair(node, scope)
    if left.kind == "jsonb":
        raise refusal(node, "JSON is compared with = and <> only")
    return scope.writing.term("boolean", _SAME[type(node)], left, right)


def like(node: exp.Expr, scope: Scope) -> Term:
    return _like(node, scope, "\\")


def escaped(node: exp.Expr, scope: Scope) -> Term:
    only(node, "this", "expression")
    sign = node.expression.name if isinstance(node.expression, exp.Literal) else ""
    if not isinstance(node.this, exp.Like | exp.ILike) or len(sign) != 1 or sign.isalnum() or sign in "%_'":
        raise refusal(node, "ESCAPE takes one sign that is neither letter nor digit nor wildcard")
    return _like(node.this, scope, sign)


def _like(node: exp.Expr, scope: Scope, sign: str) -> Term:
    only(node, "this", "expression", "negate")
    found = quantified(node.expression)
    if found is not None:
        return _each(node, found, scope)
    terms = [scope.term(part) for part in (node.this, node.expression)]
    for term in terms:
        if term.kind not in ("text", "unknown"):
            raise refusal(node, f"LIKE takes text and this is {term.kind}: write CAST(… AS TEXT)")
    left, right = (fit("text", term, scope.writing, node) for term in terms)
    if isinstance(node, exp.ILike):
        left, right = (
            scope.writing.term("text", ("lower({0})", 'lower({0} COLLATE "C")'), one) for one in (left, right)
        )
    word = "NOT LIKE" if node.args.get("negate") else "LIKE"
    return scope.writing.term("boolean", "({0} {word} {1} ESCAPE '{sign}')", left, right, word=word, sign=sign)


HANDLERS: dict[type[exp.Expr], Handler] = {
    **dict.fromkeys(_COMPARISONS, compare),
    **dict.fromkeys(_SAME, same),
    exp.Between: between,
    exp.In: member,
    exp.Like: like,
    exp.ILike: like,
    exp.Escape: escaped,
}
