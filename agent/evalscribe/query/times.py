"""Times and dates with intervals and with each other. An interval is no value: it stands beside the time it moves."""

import re

from sqlglot import exp

from evalscribe.query.casts import fit
from evalscribe.query.problem import only, refusal
from evalscribe.query.scope import Scope
from evalscribe.query.writing import Handler, Template, Term

KINDS = ("timestamp", "date")
_MONTHS = {"month": 1, "year": 12}
_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
_LENGTH = re.compile(r"[+-]?\d{1,6}", re.ASCII)
HOW = "write it beside a time: created_at::timestamp + interval '7 days', of years, months, weeks, days, hours …"
CHANGES = "its answer would change from one moment to the next; give the time as a literal"


def _within(template: str, kind: str) -> str:
    """Postgres goes on to years that no text of four digits tells; that is an error here."""
    return (
        f"(CASE WHEN date_part('year', {template}) BETWEEN 1 AND 9999 THEN {template}"
        f" ELSE ('out of range: ' || {template})::{kind} END)"
    )


_MOVED: Template = (
    "pg_moved({0}, {months}, {seconds})",
    _within("({0} + make_interval(months => {months}, secs => {seconds}))", "timestamp"),
)
_DAY_MOVED: Template = ("pg_day_moved({0}, {1})", _within("({0} + ({1})::integer)", "date"))
_DAYS: Template = ("pg_days({0}, {1})", "({0} - {1})::bigint")
_ELAPSED: Template = ("pg_elapsed({0}, {1})", "date_part('epoch', {0} - {1})")


def moved(node: exp.Expr, scope: Scope) -> Term:
    """`time + interval '7 days'`"""
    only(node, "this", "expression", "typed", "safe")
    months, seconds = _length(node.expression)
    sign = -1 if isinstance(node, exp.Sub) else 1
    time = fit("timestamp", scope.term(node.this), scope.writing, node)
    return scope.writing.term("timestamp", _MOVED, time, months=str(sign * months), seconds=str(sign * seconds))


def arithmetic(node: exp.Expr, left: Term, right: Term, scope: Scope) -> Term:
    """Days between two dates, and a date some days away."""
    kinds = (left.kind, right.kind)
    if isinstance(node, exp.Sub) and kinds == ("date", "date"):
        return scope.writing.term("bigint", _DAYS, left, right)
    if isinstance(node, exp.Add) and kinds == ("bigint", "date"):
        return scope.writing.term("date", _DAY_MOVED, right, left)
    if isinstance(node, exp.Add | exp.Sub) and kinds == ("date", "bigint"):
        days = right if isinstance(node, exp.Add) else scope.writing.term("bigint", "(- {0})", right)
        return scope.writing.term("date", _DAY_MOVED, left, days)
    told = f"{kinds[0]} and {kinds[1]} do not go together here"
    raise refusal(node, f"{told}: write extract(epoch from a - b), which gives seconds, or {HOW}")


def elapsed(node: exp.Expr, scope: Scope) -> Term:
    """`extract(epoch from a - b)`: seconds."""
    only(node, "this", "expression", "typed", "safe")
    times = [fit("timestamp", scope.term(part), scope.writing, part) for part in (node.this, node.expression)]
    return scope.writing.term("double precision", _ELAPSED, *times)


def _length(node: exp.Expr) -> tuple[int, int]:
    """Months and seconds."""
    only(node, "this", "unit")
    unit = str(node.args.get("unit") or "").lower().removesuffix("s")
    number = node.this.name if isinstance(node.this, exp.Literal) else ""
    if not _LENGTH.fullmatch(number) or unit not in (*_MONTHS, *_SECONDS):
        raise refusal(node, "an interval has one whole number and one unit: '7 days', '3 months', '90 minutes'")
    return int(number) * _MONTHS.get(unit, 0), int(number) * _SECONDS.get(unit, 0)


def _alone(node: exp.Expr, _scope: Scope) -> Term:
    raise refusal(node, f"an interval is no value here: {HOW}")


def _changing(node: exp.Expr, _scope: Scope) -> Term:
    raise refusal(node, f"{node.sql('postgres').lower()} is not offered here: {CHANGES}")


HANDLERS: dict[type[exp.Expr], Handler] = {
    exp.Interval: _alone,
    exp.CurrentDate: _changing,
    exp.CurrentTime: _changing,
    exp.CurrentTimestamp: _changing,
    exp.Localtime: _changing,
    exp.Localtimestamp: _changing,
}
