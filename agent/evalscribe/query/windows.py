"""`… OVER (…)`"""

from sqlglot import exp

from evalscribe.query.aggregates import AGGREGATES, aggregate, ordering
from evalscribe.query.casts import alike, known
from evalscribe.query.kinds import Kind
from evalscribe.query.problem import nearest, only, refusal
from evalscribe.query.scope import Scope, folded
from evalscribe.query.writing import Handler, Term, loose_of

RANKING: dict[str, Kind] = {
    "row_number": "bigint",
    "rank": "bigint",
    "dense_rank": "bigint",
    "percent_rank": "double precision",
    "cume_dist": "double precision",
    "ntile": "bigint",
}
_VALUES = {"lag": 3, "lead": 3, "first_value": 1, "last_value": 1, "nth_value": 2}
RANKING |= dict.fromkeys(_VALUES, "unknown")
"""`unknown`: as its argument is."""
_SIDES = ("PRECEDING", "FOLLOWING")


def window(node: exp.Expr, scope: Scope) -> Term:
    only(node, "this", "partition_by", "order", "spec", "alias", "over")
    if scope.refused or scope.inside:
        raise refusal(node, f"window functions do not stand in {scope.refused or 'aggregates'}")
    text, loose = _over(node, scope)
    call, condition = node.this, None
    if isinstance(call, exp.Filter):
        call, condition = call.this, call.expression.this
    if not isinstance(call, exp.Anonymous):
        raise refusal(node, "only functions stand before OVER")
    name = call.name.lower()
    if name in AGGREGATES:
        term = aggregate(call, scope, condition, f" OVER ({text})")
    elif name in RANKING and condition is None:
        term = _ranked(call, name, scope, text)
    else:
        raise refusal(call, f"{name} does not stand over a window{nearest(name, [*RANKING, *AGGREGATES])}")
    return Term(term.kind, term.text, loose_of(term) or loose)


def _over(node: exp.Expr, scope: Scope) -> tuple[str, str | None]:
    alias = node.args.get("alias")
    if alias is not None:
        name = folded(alias)
        if name not in scope.windows or any(node.args.get(one) for one in ("partition_by", "order", "spec")):
            raise refusal(
                node, f"there is no window {name}" if name not in scope.windows else "name a window, or describe it"
            )
        return _over(scope.windows[name], scope)
    parts = [known(scope.term(part), scope.writing) for part in node.args.get("partition_by") or []]
    if any(part.kind == "jsonb" for part in parts):
        raise refusal(node, "JSON is not what rows are divided by: take its text, ->>")
    words = [f"PARTITION BY {', '.join(part.text for part in parts)}"] if parts else []
    order = node.args.get("order")
    spelled, loose = ordering(order.expressions, scope) if order is not None else ("", None)
    words += [f"ORDER BY {spelled}"] if spelled else []
    spec = node.args.get("spec")
    words += [_frame(spec)] if spec is not None else []
    return " ".join(words), loose_of(*parts) or loose


def _frame(spec: exp.Expr) -> str:
    only(spec, "kind", "start", "start_side", "end", "end_side")
    kind = str(spec.args.get("kind")).upper()
    if kind not in ("ROWS", "RANGE", "GROUPS"):
        raise refusal(spec, "a frame is of ROWS, RANGE or GROUPS")
    start = _bound(spec, "start")
    end = _bound(spec, "end") if spec.args.get("end") else "CURRENT ROW"
    if kind == "RANGE" and any(one[0].isdigit() for one in (start, end)):
        raise refusal(spec, "a frame of RANGE is UNBOUNDED or to the CURRENT ROW")
    return f"{kind} BETWEEN {start} AND {end}"


def _bound(spec: exp.Expr, name: str) -> str:
    value, side = spec.args.get(name), str(spec.args.get(f"{name}_side") or "").upper()
    word = value.name if isinstance(value, exp.Literal) and not value.is_string else str(value).upper()
    if word == "CURRENT ROW":
        return word
    if (word == "UNBOUNDED" or (word.isascii() and word.isdigit())) and side in _SIDES and len(word) < 12:
        return f"{word} {side}"
    raise refusal(spec, "a frame's bounds are whole numbers, UNBOUNDED or CURRENT ROW")


def _ranked(node: exp.Expr, name: str, scope: Scope, over: str) -> Term:
    terms = [known(scope.term(part), scope.writing) for part in node.expressions]
    if name == "ntile" or name in _VALUES:
        return _valued(node, name, terms, scope, over)
    if terms:
        raise refusal(node, f"{name} takes no arguments")
    return scope.writing.term(RANKING[name], "{name}() OVER ({over})", name=name, over=over)


def _valued(node: exp.Expr, name: str, terms: list[Term], scope: Scope, over: str) -> Term:
    most = _VALUES.get(name, 1)
    if not 1 <= len(terms) <= most:
        raise refusal(node, f"{name} takes {'1' if most == 1 else f'1 to {most}'} arguments")
    counted = terms[:1] if name == "ntile" else terms[1:2]
    for part in node.expressions[0 if name == "ntile" else 1 :][: len(counted)]:
        if not (
            isinstance(part, exp.Literal) and not part.is_string and part.name.isdigit() and 0 < int(part.name) < 10**9
        ):
            raise refusal(part, "give a whole number above 0")
    if len(terms) == 3:
        terms[0], terms[2] = alike([terms[0], terms[2]], scope.writing, node)
    kind = RANKING[name] if name == "ntile" else terms[0].kind
    places = [f"{{{number}}}" if one not in counted else f"({{{number}}}){{int}}" for number, one in enumerate(terms)]
    text = f"{name}({', '.join(places)}) OVER ({{over}})" + ("{big}" if name == "ntile" else "")
    whole = "" if scope.writing.sqlite else "::integer"
    big = "" if scope.writing.sqlite else "::bigint"
    return scope.writing.term(kind, text, *terms, over=over, int=whole, big=big)


HANDLERS: dict[type[exp.Expr], Handler] = {exp.Window: window}
