"""Functions: what they take, what they give, and how each engine spells them."""

from dataclasses import dataclass

from sqlglot import exp

from evalscribe.query import json_values, times
from evalscribe.query.aggregates import AGGREGATES, aggregate
from evalscribe.query.casts import LEFT, ROUNDED, alike, fit, known, to
from evalscribe.query.comparisons import collated
from evalscribe.query.kinds import Kind
from evalscribe.query.problem import nearest, only, refusal
from evalscribe.query.scope import Scope
from evalscribe.query.sources import FUNCTIONS as ROWS
from evalscribe.query.windows import RANKING
from evalscribe.query.writing import Handler, Template, Term


@dataclass(frozen=True)
class Call:
    takes: tuple[Kind, ...]
    gives: Kind
    template: Template
    least: int | None = None
    """Arguments that must be given; all of them by default."""


_TEXT: Kind = "text"
_WHOLE: Kind = "bigint"
_NUMBER: Kind = "double precision"
_JSON: Kind = "jsonb"
_YES: Kind = "boolean"
_TIME: Kind = "timestamp"


def _math(name: str) -> Call:
    """Each engine has its own idea of what is out of a function's domain; an error in both."""
    return Call((_NUMBER,), _NUMBER, (f"pg_{name}({{0}})", f"{name}({{0}})"))


CALLS: dict[str, tuple[Call, ...]] = {
    "length": (Call((_TEXT,), _WHOLE, ("length({0})", "length({0})::bigint")),),
    "char_length": (Call((_TEXT,), _WHOLE, ("length({0})", "length({0})::bigint")),),
    "lower": (Call((_TEXT,), _TEXT, ("lower({0})", 'lower({0} COLLATE "C")')),),
    "upper": (Call((_TEXT,), _TEXT, ("upper({0})", 'upper({0} COLLATE "C")')),),
    "btrim": (
        Call((_TEXT,), _TEXT, ("trim({0})", "btrim({0})")),
        Call((_TEXT, _TEXT), _TEXT, ("trim({0}, {1})", "btrim({0}, {1})")),
    ),
    "ltrim": (Call((_TEXT,), _TEXT, "ltrim({0})"), Call((_TEXT, _TEXT), _TEXT, "ltrim({0}, {1})")),
    "rtrim": (Call((_TEXT,), _TEXT, "rtrim({0})"), Call((_TEXT, _TEXT), _TEXT, "rtrim({0}, {1})")),
    "replace": (Call((_TEXT, _TEXT, _TEXT), _TEXT, "replace({0}, {1}, {2})"),),
    "left": (Call((_TEXT, _WHOLE), _TEXT, LEFT),),
    "right": (Call((_TEXT, _WHOLE), _TEXT, ("pg_right({0}, {1})", '"right"({0}, ({1})::integer)')),),
    "substr": (
        Call((_TEXT, _WHOLE), _TEXT, ("pg_substr({0}, {1})", "substr({0}, ({1})::integer)")),
        Call(
            (_TEXT, _WHOLE, _WHOLE), _TEXT, ("pg_substr({0}, {1}, {2})", "substr({0}, ({1})::integer, ({2})::integer)")
        ),
    ),
    "strpos": (Call((_TEXT, _TEXT), _WHOLE, ("instr({0}, {1})", "strpos({0}, {1})::bigint")),),
    "starts_with": (Call((_TEXT, _TEXT), _YES, ("(substr({0}, 1, length({1})) = {1})", "starts_with({0}, {1})")),),
    "split_part": (
        Call((_TEXT, _TEXT, _WHOLE), _TEXT, ("pg_split_part({0}, {1}, {2})", "split_part({0}, {1}, ({2})::integer)")),
    ),
    "reverse": (Call((_TEXT,), _TEXT, ("pg_reverse({0})", "reverse({0})")),),
    "abs": (Call((_WHOLE,), _WHOLE, "abs({0})"), Call((_NUMBER,), _NUMBER, "abs({0})")),
    "sign": (Call((_NUMBER,), _NUMBER, ("CAST(sign({0}) AS REAL)", "sign({0})")),),
    "round": (
        Call((_WHOLE,), _WHOLE, "({0})"),
        Call((_NUMBER,), _NUMBER, ("pg_round({0}, 0)", "round(({0})::text::numeric)::double precision")),
        Call(
            (_NUMBER, _WHOLE),
            _NUMBER,
            ROUNDED,
        ),
    ),
    "trunc": (Call((_NUMBER,), _NUMBER, ("pg_trunc({0})", "trunc({0})")),),
    "floor": (Call((_NUMBER,), _NUMBER, ("pg_floor({0})", "floor({0})")),),
    "ceil": (Call((_NUMBER,), _NUMBER, ("pg_ceil({0})", "ceil({0})")),),
    "ceiling": (Call((_NUMBER,), _NUMBER, ("pg_ceil({0})", "ceil({0})")),),
    "sqrt": (_math("sqrt"),),
    "ln": (_math("ln"),),
    "exp": (_math("exp"),),
    "power": (Call((_NUMBER, _NUMBER), _NUMBER, ("pg_power({0}, {1})", "power({0}, {1})")),),
    "mod": (Call((_WHOLE, _WHOLE), _WHOLE, ("({0} % pg_divisor({1}))", "({0} % {1})")),),
    "jsonb_typeof": (Call((_JSON,), _TEXT, ("pg_json_typeof({0})", "jsonb_typeof({0})")),),
    "jsonb_array_length": (Call((_JSON,), _WHOLE, ("pg_json_length({0})", "jsonb_array_length({0})::bigint")),),
    "jsonb_exists": (Call((_JSON, _TEXT), _YES, ("pg_json_has({0}, {1})", "({0} ? {1})")),),
    "date_trunc": (Call((_TEXT, _TIME), _TIME, ("pg_date_trunc({0}, {1})", "date_trunc({0}, {1})")),),
    "date_part": (Call((_TEXT, _TIME), _NUMBER, ("pg_extract({0}, {1})", "date_part({0}, {1})")),),
}
SYNONYMS = {
    "json_typeof": "jsonb_typeof",
    "json_array_length": "jsonb_array_length",
    "character_length": "char_length",
    "trim": "btrim",
    "pow": "power",
    "substring": "substr",
}
FIELDS = ("epoch", "year", "month", "day", "hour", "minute", "second", "dow", "isodow", "doy", "quarter", "week")
UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
REASONS = {
    "now": times.CHANGES,
    "random": "its answer would change from one moment to the next",
    "generate_series": "rows come only from the documented tables",
    "repeat": "it makes text of any length",
    "lpad": "it makes text of any length",
    "rpad": "it makes text of any length",
    "unnest": "use jsonb_array_elements",
    "to_char": "take the value as it is and format it where you show it",
    **dict.fromkeys(
        ("regexp_replace", "regexp_matches", "regexp_match", "regexp_count", "regexp_like"),
        "patterns are only matched, with ~",
    ),
    **dict.fromkeys(
        tuple(name for one in ROWS for name in (one, one.replace("jsonb", "json"))),
        "it makes rows and stands in FROM: FROM …, {name}(…) AS one",
    ),
}


def functions() -> tuple[str, ...]:
    """All that can be called, by name."""
    names = {*CALLS, *SYNONYMS, *AGGREGATES, *RANKING, *_SPECIAL, "extract", "position"}
    return tuple(sorted(names))


def call(node: exp.Expr, scope: Scope) -> Term:
    only(node, "this", "expressions")
    name = node.name.lower()
    if name in AGGREGATES:
        return aggregate(node, scope)
    if name in RANKING:
        raise refusal(node, f"{name} is a window function: write OVER (…)")
    special = _SPECIAL.get(name)
    if special is not None:
        return special(node, scope)
    calls = CALLS.get(SYNONYMS.get(name, name))
    if calls is None:
        raise refusal(node, _unknown(name))
    return _written(node, name, calls, scope)


def _unknown(name: str) -> str:
    if name in REASONS:
        return f"function {name} is not offered here: {REASONS[name].replace('{name}', name)}"
    return f"there is no function {name}{nearest(name, [*CALLS, *AGGREGATES, *RANKING, *_SPECIAL])}"


def _written(node: exp.Expr, name: str, calls: tuple[Call, ...], scope: Scope) -> Term:
    terms = [scope.term(part) for part in _parts(node)]
    fitting = [one for one in calls if len(one.takes) == len(terms)]
    if not fitting:
        counts = " or ".join(str(len(one.takes)) for one in calls)
        raise refusal(node, f"{name} takes {counts} argument{'' if counts == '1' else 's'}, not {len(terms)}")
    if name in ("date_trunc", "date_part"):
        _one_of(node, terms[0], UNITS if name == "date_trunc" else FIELDS)
    chosen = next((one for one in fitting if all(map(_fits, one.takes, terms))), None)
    if chosen is None:
        kinds = ", ".join(term.kind for term in terms)
        raise refusal(
            node, f"{name} takes {' or '.join(', '.join(one.takes) for one in fitting)}, not {kinds}: CAST it"
        )
    fitted = [fit(kind, term, scope.writing, node) for kind, term in zip(chosen.takes, terms, strict=True)]
    return scope.writing.term(chosen.gives, chosen.template, *fitted)


def _parts(node: exp.Expr) -> list[exp.Expr]:
    if isinstance(node, exp.Anonymous):
        return list(node.expressions)
    return [part for name in ("this", "start", "length") if (part := node.args.get(name)) is not None]


def _fits(kind: Kind, term: Term) -> bool:
    return term.kind in ("unknown", kind) or (term.kind, kind) in (
        ("bigint", "double precision"),
        ("date", "timestamp"),
    )


def _one_of(node: exp.Expr, term: Term, words: tuple[str, ...]) -> None:
    if term.literal is None or term.literal.lower() not in words:
        raise refusal(node, f"give one of: {', '.join(words)}")


def substring(node: exp.Expr, scope: Scope) -> Term:
    only(node, "this", "start", "length")
    if isinstance(node.args.get("start"), exp.Literal) and node.args["start"].is_string:
        raise refusal(node, "substring takes no pattern: patterns are only matched, with ~")
    if node.args.get("start") is None:
        raise refusal(node, "substring takes FROM and FOR, or a text and numbers")
    return _written(node, "substring", CALLS["substr"], scope)


def position(node: exp.Expr, scope: Scope) -> Term:
    only(node, "this", "substr")
    inside, looked = (fit("text", scope.term(part), scope.writing, node) for part in (node.this, node.args["substr"]))
    return scope.writing.term("bigint", CALLS["strpos"][0].template, inside, looked)


def trim(node: exp.Expr, scope: Scope) -> Term:
    only(node, "this", "expression", "position")
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or "BOTH").upper(), "btrim")
    parts = [part for part in (node.this, node.args.get("expression")) if part is not None]
    terms = [fit("text", scope.term(part), scope.writing, node) for part in parts]
    return scope.writing.term("text", CALLS[name][len(terms) - 1].template, *terms)


def extract(node: exp.Expr, scope: Scope) -> Term:
    only(node, "this", "expression")
    field = node.this.name.lower()
    if field not in FIELDS:
        raise refusal(node, f"extract takes one of: {', '.join(FIELDS)}")
    between = node.expression.unnest()
    if field == "epoch" and isinstance(between, exp.Sub) and not isinstance(between.expression, exp.Interval):
        return times.elapsed(between, scope)
    time = fit("timestamp", scope.term(node.expression), scope.writing, node)
    place = Term("text", scope.writing.bound(field))
    return scope.writing.term("double precision", CALLS["date_part"][0].template, place, time)


def _coalesce(node: exp.Expr, scope: Scope) -> Term:
    terms = alike([scope.term(part) for part in _some(node)], scope.writing, node)
    if len(terms) == 1:
        return terms[0]
    return scope.writing.term(terms[0].kind, f"coalesce({_places(terms)})", *terms)


def _extreme(node: exp.Expr, scope: Scope) -> Term:
    terms = [collated(term, scope) for term in alike([scope.term(part) for part in _some(node)], scope.writing, node)]
    if terms[0].kind in ("jsonb", "boolean"):
        raise refusal(node, f"{node.name.lower()} does not take {terms[0].kind}")
    name = node.name.lower()
    return scope.writing.term(terms[0].kind, (f"pg_{name}({_places(terms)})", f"{name}({_places(terms)})"), *terms)


def _nullif(node: exp.Expr, scope: Scope) -> Term:
    if len(node.expressions) != 2:
        raise refusal(node, "nullif takes 2 arguments")
    terms = alike([scope.term(part) for part in node.expressions], scope.writing, node)
    if terms[0].kind == "jsonb":
        raise refusal(node, "nullif does not take JSON: compare its text, ->>")
    return scope.writing.term(terms[0].kind, "nullif({0}, {1})", *terms)


def _concat(node: exp.Expr, scope: Scope) -> Term:
    """NULL counts as nothing."""
    terms = [_plainly(known(scope.term(part), scope.writing), scope, part) for part in _some(node)]
    places = " || ".join(f"coalesce({{{number}}}, '')" for number in range(len(terms)))
    return scope.writing.term("text", f"({places})", *terms)


def _plainly(term: Term, scope: Scope, node: exp.Expr) -> Term:
    """As Postgres shows a value; its CAST spells a truth out."""
    if term.kind == "boolean":
        return scope.writing.term("text", "(CASE WHEN {0} THEN 't' WHEN NOT {0} THEN 'f' END)", term)
    return to("text", term, scope.writing, node)


def _some(node: exp.Expr) -> list[exp.Expr]:
    if not node.expressions:
        raise refusal(node, f"{node.name.lower()} takes at least 1 argument")
    return list(node.expressions)


def _places(terms: list[Term]) -> str:
    return ", ".join(f"{{{number}}}" for number in range(len(terms)))


_SPECIAL: dict[str, Handler] = {
    "coalesce": _coalesce,
    "nullif": _nullif,
    "greatest": _extreme,
    "least": _extreme,
    "concat": _concat,
    **json_values.CALLS,
}
HANDLERS: dict[type[exp.Expr], Handler] = {
    exp.Anonymous: call,
    exp.Substring: substring,
    exp.StrPosition: position,
    exp.Trim: trim,
    exp.Extract: extract,
}
