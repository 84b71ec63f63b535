"""From the user's text to a statement."""

from sqlglot import exp

from evalscribe.query import (
    aggregates,
    calls,
    casts,
    comparisons,
    json_paths,
    operators,
    patterns,
    select,
    times,
    windows,
)
from evalscribe.query.kinds import Dialect
from evalscribe.query.problem import Refused
from evalscribe.query.scope import Relation, Scope
from evalscribe.query.spelling import parsed
from evalscribe.query.statement import Named, Statement
from evalscribe.query.tables import by_name
from evalscribe.query.writing import Handler, Writing

HANDLERS: dict[type[exp.Expr], Handler] = {
    **operators.HANDLERS,
    **comparisons.HANDLERS,
    **patterns.HANDLERS,
    **calls.HANDLERS,
    **windows.HANDLERS,
    **times.HANDLERS,
    exp.Cast: casts.cast,
    exp.Filter: aggregates.filtered,
    exp.WithinGroup: aggregates.within_group,
    exp.JSONExtract: json_paths.get,
    exp.Bracket: json_paths.subscript,
    exp.JSONExtractScalar: json_paths.get_text,
    exp.JSONBExtract: json_paths.at_path,
    exp.JSONBExtractScalar: json_paths.at_path_text,
    exp.JSONBContainsTopKey: json_paths.has_key,
    exp.JSONBContainsAnyTopKeys: json_paths.has_any,
    exp.JSONBContainsAllTopKeys: json_paths.has_all,
    exp.ArrayContainsAll: json_paths.contains,
    exp.ArrayContainedBy: json_paths.contained,
}
_AS_TEXT = ("jsonb", "timestamp", "date")
"""Kinds that Postgres' client would make something else of."""


def checked(sql: str, dialect: Dialect) -> Statement:
    """Raises `UsageError` with line and column for what is no SELECT, not in the tables, or not the same everywhere."""
    try:
        return _statement(sql, dialect)
    except Refused as refused:
        raise refused.told(sql) from None
    except RecursionError:
        raise Refused("it is nested too deeply", None).told(sql) from None


def _statement(sql: str, dialect: Dialect) -> Statement:
    writing = Writing(dialect, HANDLERS, select.inner)
    relation = select.inner(parsed(sql), Scope(writing))
    columns = tuple(Named(name=held.name, kind=held.kind) for held in relation.columns)
    return Statement(text=_whole(relation, writing), values=writing.values, columns=columns)


def _whole(relation: Relation, writing: Writing) -> str:
    tables = [
        f"{written} AS NOT MATERIALIZED ({by_name()[name].scoped(writing.dialect)})"
        for name, written in sorted(writing.tables.items())
    ]
    before = [*tables, *relation.before]
    text = relation.text
    if not writing.sqlite and any(held.kind in _AS_TEXT for held in relation.columns):
        listed = ", ".join(f"{held.text}::text" if held.kind in _AS_TEXT else held.text for held in relation.columns)
        text = f"SELECT {listed} FROM ({text}) AS q"
    return f"WITH {', '.join(before)} {text}" if before else text
