"""JSON made of other values."""

from sqlglot import exp

from evalscribe.query.casts import fit, known
from evalscribe.query.problem import refusal
from evalscribe.query.scope import Scope
from evalscribe.query.writing import Handler, Term


def to_json(node: exp.Expr, scope: Scope) -> Term:
    if len(node.expressions) != 1:
        raise refusal(node, f"{node.name.lower()} takes 1 argument")
    return as_json(known(scope.term(node.expressions[0]), scope.writing), scope)


def as_json(term: Term, scope: Scope) -> Term:
    if term.kind == "jsonb":
        return term
    return scope.writing.term("jsonb", ("pg_to_json({0}, '{of}')", "to_jsonb({0})"), term, of=term.kind)


def build_object(node: exp.Expr, scope: Scope) -> Term:
    """`jsonb_build_object('name', value, …)`"""
    if len(node.expressions) % 2:
        raise refusal(node, f"{node.name.lower()} takes names and values, in turn")
    terms = [
        _value(part, scope) if number % 2 else fit("text", scope.term(part), scope.writing, part)
        for number, part in enumerate(node.expressions)
    ]
    return _built(terms, "object", scope)


def build_array(node: exp.Expr, scope: Scope) -> Term:
    return _built([_value(part, scope) for part in node.expressions], "array", scope)


def _value(node: exp.Expr, scope: Scope) -> Term:
    return as_json(known(scope.term(node), scope.writing), scope)


def _built(terms: list[Term], what: str, scope: Scope) -> Term:
    places = ", ".join(f"{{{number}}}" for number in range(len(terms)))
    return scope.writing.term("jsonb", (f"pg_json_build_{what}({places})", f"jsonb_build_{what}({places})"), *terms)


CALLS: dict[str, Handler] = {
    "to_json": to_json,
    "to_jsonb": to_json,
    "json_build_object": build_object,
    "jsonb_build_object": build_object,
    "json_build_array": build_array,
    "jsonb_build_array": build_array,
}
