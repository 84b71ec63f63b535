"""UNION, EXCEPT, INTERSECT."""

from sqlglot import exp

from evalscribe.query.casts import alike
from evalscribe.query.ordering import by_output, ordered_by, paged
from evalscribe.query.problem import refusal
from evalscribe.query.scope import Held, Relation, Scope
from evalscribe.query.shown import Shown, no_json
from evalscribe.query.writing import Term, Writing


def united(node: exp.SetOperation, own: Scope) -> Relation:
    """Without its WITH."""
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
        no_json([Shown(held.name, Term(held.kind, ""), node) for held in columns])
    both = f" {word} ".join(texts)
    tail, single = paged(node)
    shown = [Shown(held.name, Term(held.kind, held.text), node) for held in columns]
    orders = by_output(node.args.get("order"), shown, columns, Scope(own.writing))
    spelled = ordered_by(orders, own)
    names = ", ".join(held.text for held in columns)
    return Relation(f"SELECT {names} FROM ({both}) AS q{spelled}{tail}", columns, single=single)


def _side(part: exp.Expr, node: exp.SetOperation, scope: Scope) -> Relation:
    """Which of two different ones binds tighter is not the same everywhere: parentheses say it."""
    if isinstance(part, exp.SetOperation) and type(part) is not type(node):
        raise refusal(node, "write parentheses around one of UNION, EXCEPT and INTERSECT")
    return scope.writing.inner(part, scope)


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
