"""From one kind to another."""

from sqlglot import exp

from evalscribe.query.kinds import TYPE_NAMES, Kind, common
from evalscribe.query.problem import only, refusal
from evalscribe.query.scope import Scope
from evalscribe.query.writing import Template, Term, Writing

_NUMBER = r"'^[ \t\n\r\f\v]*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[ \t\n\r\f\v]*$'"
_WHOLE = r"'^[ \t\n\r\f\v]*[+-]?\d+[ \t\n\r\f\v]*$'"
_DATE = r"\d\d\d\d-\d\d-\d\d"
_TIME = _DATE + r"([T ]\d\d:\d\d(:\d\d(\.\d\d?\d?\d?\d?\d?)?)?(Z|[+-]\d\d(:?\d\d)?)?)?"


def _guarded(pattern: str, kind: str, otherwise: str, through: str = "") -> str:
    """Postgres reads more than SQLite's counterpart does (`NaN`, `infinity`, `today`, `0x1F`): that is an error too."""
    pattern = pattern.replace("{", "{{").replace("}", "}}")
    return (
        f'(CASE WHEN ({{0}}) COLLATE "C" ~ {pattern} THEN ({{0}}){through}::{kind}'
        f" ELSE ('{otherwise}: ' || ({{0}}))::{kind} END)"
    )


CASTS: dict[tuple[Kind, Kind], Template] = {
    ("bigint", "double precision"): ("CAST({0} AS REAL)", "({0})::double precision"),
    ("bigint", "text"): ("CAST({0} AS TEXT)", "({0})::text"),
    ("bigint", "boolean"): "({0} <> 0)",
    ("double precision", "bigint"): ("pg_bigint({0})", "round(({0})::text::numeric)::bigint"),
    ("double precision", "text"): ("pg_double_text({0})", "({0})::text"),
    ("boolean", "bigint"): ("({0})", "({0})::integer::bigint"),
    ("boolean", "text"): ("(CASE {0} WHEN 1 THEN 'true' WHEN 0 THEN 'false' END)", "({0})::text"),
    ("text", "bigint"): ("pg_text_bigint({0})", _guarded(_WHOLE, "bigint", "no whole number")),
    ("text", "double precision"): ("pg_text_double({0})", _guarded(_NUMBER, "double precision", "no finite number")),
    ("text", "boolean"): ("pg_text_boolean({0})", "({0})::boolean"),
    ("text", "jsonb"): ("pg_text_json({0})", "({0})::jsonb"),
    ("text", "timestamp"): ("pg_text_timestamp({0})", _guarded(f"'^{_TIME}$'", "timestamp", "no ISO 8601 time")),
    ("text", "date"): ("pg_text_date({0})", _guarded(f"'^{_TIME}$'", "date", "no ISO 8601 date")),
    ("timestamp", "text"): ("({0})", "({0})::text"),
    ("timestamp", "date"): ("substr({0}, 1, 10)", "({0})::date"),
    ("date", "text"): ("({0})", "({0})::text"),
    ("date", "timestamp"): ("({0} || ' 00:00:00')", "({0})::timestamp"),
    ("jsonb", "text"): ("pg_json_text({0})", "({0})::text"),
    ("jsonb", "bigint"): ("pg_json_bigint({0})", "round(nullif({0}, 'null'::jsonb)::numeric)::bigint"),
    ("jsonb", "double precision"): ("pg_json_double({0})", "nullif({0}, 'null'::jsonb)::double precision"),
    ("jsonb", "boolean"): ("pg_json_boolean({0})", "nullif({0}, 'null'::jsonb)::boolean"),
}
ROUNDED: Template = ("pg_round({0}, {1})", "round(({0})::text::numeric, ({1})::integer)::double precision")
LEFT: Template = ("pg_left({0}, {1})", '"left"({0}, ({1})::integer)')
_ZONED: Template = (
    "pg_text_utc({0})",
    "(" + _guarded(f"'^{_TIME}$'", "timestamptz", "no ISO 8601 time") + " AT TIME ZONE 'UTC')",
)
# SQLite reads most numbers right, and the commonest scores always: what is called for the others takes longer.
_NUMBER_OF_JSON = (
    "(CASE json_type({0}, {1}) WHEN 'real' THEN CASE json_extract({0}, {1}) WHEN 1.0 THEN 1.0 WHEN 0.0 THEN 0.0"
    " ELSE pg_json_number({0} -> {1}) END WHEN 'integer' THEN CAST(json_extract({0}, {1}) AS REAL)"
    " ELSE pg_text_double({2}) END)"
)


def cast(node: exp.Expr, scope: Scope) -> Term:
    only(node, "this", "to", "_type")
    wanted = node.args["to"]
    name = wanted.this.name if isinstance(wanted, exp.DataType) and hasattr(wanted.this, "name") else str(wanted)
    kind = TYPE_NAMES.get(name)
    if kind is None:
        raise refusal(
            node,
            f"there is no type {wanted.sql('postgres')} here; there is: text, integer, double precision, "
            "numeric, boolean, jsonb, timestamp, date",
        )
    term = scope.term(node.this)
    if wanted.expressions:
        return _limited(node, name, to(kind, term, scope.writing, node), scope)
    if name == "TIMESTAMPTZ" and term.kind in ("text", "unknown"):
        return scope.writing.term("timestamp", _ZONED, known(term, scope.writing))
    return to(kind, term, scope.writing, node)


def _limited(node: exp.Expr, name: str, term: Term, scope: Scope) -> Term:
    """`numeric(p, s)` and `varchar(n)`."""
    wanted = node.args["to"]
    numbers = [one.name for one in wanted.expressions]
    if all(one.isascii() and one.isdigit() and len(one) < 5 for one in numbers):
        if name == "DECIMAL" and len(numbers) <= 2:
            return scope.writing.term(term.kind, ROUNDED, term, Term("bigint", [*numbers, "0"][1]))
        if name == "VARCHAR" and len(numbers) == 1:
            return scope.writing.term(term.kind, LEFT, term, Term("bigint", numbers[0]))
    raise refusal(node, f"{wanted.sql('postgres')}: leave out the length or precision")


def to(kind: Kind, term: Term, writing: Writing, node: exp.Expr) -> Term:
    """Whatever CAST can do."""
    term = known(term, writing)
    if term.kind == kind:
        return term
    template = CASTS.get((term.kind, kind))
    if template is None:
        raise refusal(node, f"{term.kind} cannot be cast to {kind}")
    if writing.sqlite and term.scalar and kind == "double precision":
        document, steps = term.scalar
        text = writing.spelled(_NUMBER_OF_JSON, document, writing.bound(way(steps)), term.text)
        return Term(kind, text, term.loose)
    return writing.term(kind, template, term)


def null(kind: Kind, writing: Writing) -> Term:
    return Term(kind, writing.spelled(("NULL", "NULL::{kind}"), kind=kind), varies=False)


def known(term: Term, writing: Writing) -> Term:
    """A literal whose use tells nothing is text."""
    if term.kind != "unknown":
        return term
    return null("text", writing) if term.literal is None else Term("text", writing.bound(term.literal), varies=False)


def fit(kind: Kind, term: Term, writing: Writing, node: exp.Expr) -> Term:
    """Only what loses nothing: literals become what is wanted, whole numbers numbers. Refuses the rest."""
    if term.kind == "unknown":
        return null(kind, writing) if term.literal is None else to(kind, term, writing, node)
    if term.kind == kind:
        return term
    if common((term.kind, kind)) == kind:
        return to(kind, term, writing, node)
    raise refusal(node, f"{kind} is wanted here and this is {term.kind}: write CAST(… AS {kind.upper()})")


def alike(terms: list[Term], writing: Writing, node: exp.Expr) -> list[Term]:
    """All of one kind."""
    kind = common(tuple(term.kind for term in terms))
    if kind is None:
        kinds = " and ".join(dict.fromkeys(term.kind for term in terms if term.kind != "unknown"))
        raise refusal(node, f"{kinds} do not go together here: write CAST(… AS …)")
    return [fit("text" if kind == "unknown" else kind, term, writing, node) for term in terms]


def way(steps: tuple[str | int, ...]) -> str:
    """A path as SQLite spells it."""
    return "$" + "".join(f'."{step}"' if isinstance(step, str) else _index(step) for step in steps)


def _index(step: int) -> str:
    return f"[{step}]" if step >= 0 else f"[#-{-step}]"
