"""Columns, literals, numbers, logic, and queries in place of values."""

from sqlglot import exp

from evalscribe.query import times
from evalscribe.query.casts import alike, fit, known, to
from evalscribe.query.comparisons import compare
from evalscribe.query.kinds import NUMBERS
from evalscribe.query.problem import only, refusal
from evalscribe.query.scope import Scope, folded
from evalscribe.query.writing import Handler, Template, Term

_SIGNS: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}
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


def _numbers(node: exp.Expr, scope: Scope) -> tuple[Term, Term]:
    return _as_numbers(node, _terms(node, scope), scope)


def _terms(node: exp.Expr, scope: Scope) -> list[Term]:
    only(node, "this", "expression", "typed", "safe")
    return [scope.term(node.this), scope.term(node.expression)]


def _as_numbers(node: exp.Expr, terms: list[Term], scope: Scope) -> tuple[Term, Term]:
    for term, part in zip(terms, (node.this, node.expression), strict=True):
        if term.kind not in (*NUMBERS, "unknown"):
            raise refusal(part, f"a number is wanted here and this is {term.kind}{_advice(term)}")
    if all(term.kind == "unknown" for term in terms):
        terms[0] = fit("bigint", terms[0], scope.writing, node)
    left, right = alike(terms, scope.writing, node)
    return left, right


def _advice(term: Term) -> str:
    if term.kind in times.KINDS:
        return ": write extract(epoch from …), which gives seconds"
    return ": write CAST(… AS DOUBLE PRECISION)"


def arithmetic(node: exp.Expr, scope: Scope) -> Term:
    if isinstance(node, exp.Add | exp.Sub) and isinstance(node.expression, exp.Interval):
        return times.moved(node, scope)
    terms = _terms(node, scope)
    if any(term.kind in times.KINDS for term in terms) and not isinstance(node, exp.Mul):
        return times.arithmetic(node, terms[0], terms[1], scope)
    left, right = _as_numbers(node, terms, scope)
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
    exp.And: logic,
    exp.Or: logic,
    exp.Not: negation,
    exp.Is: being,
    exp.DPipe: join,
    exp.Case: case,
    exp.Exists: exists,
    exp.Subquery: scalar,
}
