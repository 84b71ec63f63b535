"""Operators and the like: what is neither a call nor about JSON."""

from sqlglot import exp

from evalscribe.query.casts import alike, fit, known, to
from evalscribe.query.kinds import NUMBERS
from evalscribe.query.problem import only, refusal
from evalscribe.query.scope import Scope, folded
from evalscribe.query.writing import Handler, Template, Term

_SIGNS: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}
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
LARGEST = 2**63 - 1


def column(node: exp.Expr, scope: Scope) -> Term:
    only(node, "this", "table")
    if isinstance(node.this, exp.Star):
        raise refusal(node, "* stands only in the list of SELECT and in count(*)")
    table = node.args.get("table")
    return scope.column(node, folded(node.this), folded(table) if table is not None else None)


def literal(node: exp.Expr, scope: Scope) -> Term:
    if node.is_string:
        return Term("unknown", "NULL", literal=node.name, varies=False)
    if node.name.isascii() and node.name.isdigit():
        if int(node.name) > LARGEST:
            raise refusal(node, "this whole number is too large")
        return Term("bigint", scope.writing.spelled(("{0}", "{0}::bigint"), str(int(node.name))), varies=False)
    try:
        number = float(node.name)
    except ValueError:
        raise refusal(node, "this is no number") from None
    if number in (float("inf"), float("-inf")):
        raise refusal(node, "this number is too large")
    return Term("double precision", scope.writing.bound(number), varies=False)


def absent(_node: exp.Expr, _scope: Scope) -> Term:
    return Term("unknown", "NULL", varies=False)


def boolean(node: exp.Expr, scope: Scope) -> Term:
    return Term("boolean", scope.writing.spelled(("1", "TRUE") if node.this else ("0", "FALSE")), varies=False)


def paren(node: exp.Expr, scope: Scope) -> Term:
    only(node, "this")
    return scope.term(node.this)


def _pair(node: exp.Expr, scope: Scope) -> tuple[Term, Term]:
    only(node, "this", "expression", "typed", "safe", "ignore_nulls")
    left, right = alike([scope.term(node.this), scope.term(node.expression)], scope.writing, node)
    return left, right


def _numbers(node: exp.Expr, scope: Scope) -> tuple[Term, Term]:
    only(node, "this", "expression", "typed", "safe")
    terms = [scope.term(node.this), scope.term(node.expression)]
    for term, part in zip(terms, (node.this, node.expression), strict=True):
        if term.kind not in (*NUMBERS, "unknown"):
            raise refusal(part, f"a number is wanted here and this is {term.kind}{_advice(term)}")
    if all(term.kind == "unknown" for term in terms):
        terms[0] = fit("bigint", terms[0], scope.writing, node)
    left, right = alike(terms, scope.writing, node)
    return left, right


def _advice(term: Term) -> str:
    if term.kind in ("timestamp", "date"):
        return ": write extract(epoch from …), which gives seconds"
    return ": write CAST(… AS DOUBLE PRECISION)"


def arithmetic(node: exp.Expr, scope: Scope) -> Term:
    left, right = _numbers(node, scope)
    return scope.writing.term(left.kind, "({0} {sign} {1})", left, right, sign=_SIGNS[type(node)])


def divide(node: exp.Expr, scope: Scope) -> Term:
    left, right = _numbers(node, scope)
    return scope.writing.term(left.kind, ("({0} / pg_divisor({1}))", "({0} / {1})"), left, right)


def remainder(node: exp.Expr, scope: Scope) -> Term:
    left, right = _numbers(node, scope)
    if left.kind != "bigint":
        raise refusal(node, "% takes whole numbers")
    return scope.writing.term("bigint", ("({0} % pg_divisor({1}))", "({0} % {1})"), left, right)


def power(node: exp.Expr, scope: Scope) -> Term:
    if isinstance(node.this, exp.Neg | exp.Pow) or isinstance(node.expression, exp.Pow):
        raise refusal(node, "write parentheses around what ^ is applied to")
    left, right = (fit("double precision", term, scope.writing, node) for term in _numbers(node, scope))
    return scope.writing.term("double precision", ("pg_power({0}, {1})", "power({0}, {1})"), left, right)


def negative(node: exp.Expr, scope: Scope) -> Term:
    only(node, "this")
    term = scope.term(node.this)
    if term.kind not in NUMBERS:
        raise refusal(node, f"a number is wanted here and this is {term.kind}")
    return scope.writing.term(term.kind, "(- {0})", term)


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
    """`= ANY(ARRAY[…])` and `<> ALL(ARRAY[…])`."""
    right = node.args.get("expression")
    wanted = exp.Any if isinstance(node, exp.EQ) else exp.All if isinstance(node, exp.NEQ) else None
    if not isinstance(right, exp.Any | exp.All):
        return None
    inner = right.this.unnest() if isinstance(right.this, exp.Paren) else right.this
    if wanted is None or not isinstance(right, wanted) or not isinstance(inner, exp.Array):
        raise refusal(node, "only = ANY(ARRAY[…]) and <> ALL(ARRAY[…]) are understood; or write IN (…)")
    return _in(node, scope, inner.expressions, negated=isinstance(node, exp.NEQ))


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
    if query is None:
        return _in(node, scope, node.expressions, negated=negated)
    relation = scope.writing.inner(query.unnest(), scope)
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


def truth(node: exp.Expr, scope: Scope, word: str) -> Term:
    term = scope.term(node)
    if term.kind not in ("boolean", "unknown"):
        raise refusal(node, f"{word} takes boolean and this is {term.kind}")
    return fit("boolean", term, scope.writing, node)


def logic(node: exp.Expr, scope: Scope) -> Term:
    word = node.key.upper()
    terms = [truth(part, scope, word) for part in node.flatten()]
    places = f" {word} ".join(f"{{{number}}}" for number in range(len(terms)))
    return scope.writing.term("boolean", f"({places})", *terms)


def negation(node: exp.Expr, scope: Scope) -> Term:
    only(node, "this")
    return scope.writing.term("boolean", "(NOT {0})", truth(node.this, scope, "NOT"))


def being(node: exp.Expr, scope: Scope) -> Term:
    only(node, "this", "expression", "negate")
    negation = "NOT " if node.args.get("negate") else ""
    if isinstance(node.expression, exp.Null):
        subject = known(scope.term(node.this), scope.writing)
        return scope.writing.term("boolean", "({0} IS {negation}NULL)", subject, negation=negation)
    if not isinstance(node.expression, exp.Boolean):
        raise refusal(node, "IS takes NULL, TRUE or FALSE")
    word = negation + ("TRUE" if node.expression.this else "FALSE")
    return scope.writing.term("boolean", "({0} IS {word})", truth(node.this, scope, "IS"), word=word)


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


def join(node: exp.Expr, scope: Scope) -> Term:
    only(node, "this", "expression", "safe")
    terms = [scope.term(part) for part in node.flatten()]
    for term in terms:
        if term.kind == "jsonb":
            raise refusal(node, "|| joins text: take it out with ->>")
    texts = [to("text", term, scope.writing, node) for term in terms]
    places = " || ".join(f"{{{number}}}" for number in range(len(texts)))
    return scope.writing.term("text", f"({places})", *texts)


def case(node: exp.Expr, scope: Scope) -> Term:
    only(node, "this", "ifs", "default")
    subject, ifs, default = node.args.get("this"), node.args["ifs"], node.args.get("default")
    values = [scope.term(one.args["true"]) for one in ifs] + ([scope.term(default)] if default is not None else [])
    values = alike(values, scope.writing, node)
    if subject is None:
        conditions = [truth(one.this, scope, "WHEN") for one in ifs]
    else:
        conditions = [compare(exp.EQ(this=subject.copy(), expression=one.this.copy()), scope) for one in ifs]
    pairs = list(zip(conditions, values, strict=False))
    count = len(pairs)
    text = "".join(f" WHEN {{{number}}} THEN {{{number + count}}}" for number in range(count))
    text += f" ELSE {{{2 * count}}}" if default is not None else ""
    return scope.writing.term(values[0].kind, f"(CASE{text} END)", *conditions, *values)


def exists(node: exp.Expr, scope: Scope) -> Term:
    only(node, "this")
    return Term("boolean", f"EXISTS ({scope.writing.inner(node.this.unnest(), scope).whole})")


def scalar(node: exp.Expr, scope: Scope) -> Term:
    only(node, "this")
    if isinstance(node.this, exp.Table | exp.Subquery):
        raise refusal(node, "give one query inside parentheses")
    relation = scope.writing.inner(node.this, scope)
    if len(relation.columns) != 1:
        raise refusal(node, "a query in place of a value gives one column")
    if relation.single:
        return Term(relation.columns[0].kind, f"({relation.whole})")
    # SQLite takes the first of many rows where Postgres objects.
    one: Template = ("pg_single((SELECT count(*) FROM ({0})), ({0}))", "({0})")
    return Term(relation.columns[0].kind, scope.writing.spelled(one, relation.whole))


HANDLERS: dict[type[exp.Expr], Handler] = {
    exp.Column: column,
    exp.Literal: literal,
    exp.Null: absent,
    exp.Boolean: boolean,
    exp.Paren: paren,
    **dict.fromkeys(_SIGNS, arithmetic),
    exp.Div: divide,
    exp.Mod: remainder,
    exp.Pow: power,
    exp.Neg: negative,
    **dict.fromkeys(_COMPARISONS, compare),
    **dict.fromkeys(_SAME, same),
    exp.Between: between,
    exp.In: member,
    exp.And: logic,
    exp.Or: logic,
    exp.Not: negation,
    exp.Is: being,
    exp.Like: like,
    exp.ILike: like,
    exp.Escape: escaped,
    exp.DPipe: join,
    exp.Case: case,
    exp.Exists: exists,
    exp.Subquery: scalar,
}
