"""One query over one collection."""

import json
import time
from decimal import Decimal
from math import isfinite
from typing import Any

from pydantic import JsonValue, computed_field

from evalscribe.errors import UsageError
from evalscribe.ports import Rows, Tables
from evalscribe.query import Named, checked

MOST_ROWS = 10_000
TIMEOUT_S = 30.0
LONGEST_TIMEOUT_S = 3600.0


class Answer(Rows):
    """The rows of a query, and what was asked for."""

    applied_limit: int
    execution_time_ms: float

    @computed_field
    def row_count(self) -> int:
        return len(self.rows)


def select(
    tables: Tables, collection_id: str, sql: str, *, most_rows: int = MOST_ROWS, timeout_s: float = TIMEOUT_S
) -> Answer:
    """What one SELECT gives, at most so many rows.

    Raises `UsageError` with line and column for a query that is no good, `UnavailableError` when the time is up.
    """
    if not 1 <= most_rows <= MOST_ROWS:
        raise UsageError(f"a query gives 1 to {MOST_ROWS:,} rows, not {most_rows:,}: page with LIMIT and OFFSET")
    if not 0 < timeout_s <= LONGEST_TIMEOUT_S:
        raise UsageError(f"a query may take up to {LONGEST_TIMEOUT_S:g} s, not {timeout_s:g}")
    statement = checked(sql, tables.dialect)
    values = {**statement.values, "collection_id": collection_id}
    began = time.perf_counter()
    found = tables.select(statement.text, values, most_rows=most_rows, timeout_s=timeout_s)
    # Made of JSON just now: to look at every value again would take as long as to read it.
    return Answer.model_construct(
        columns=tuple(column.name for column in statement.columns),
        rows=tuple(tuple(map(_value, statement.columns, row)) for row in found.rows),
        truncated=found.truncated,
        applied_limit=most_rows,
        execution_time_ms=round((time.perf_counter() - began) * 1000, 1),
    )


def _value(column: Named, value: JsonValue) -> JsonValue:
    """As it is, whichever engine told it."""
    if value is None:
        return None
    if column.kind == "boolean":
        return bool(value)
    if column.kind == "double precision" and isinstance(value, int | float):
        return float(value) + 0.0
    if column.kind == "bigint" and isinstance(value, float):
        raise UsageError(f"the query failed: column {column.name}: bigint out of range")
    return _json(value) if column.kind == "jsonb" and isinstance(value, str) else value


def _json(text: str) -> JsonValue:
    """A text that was cut is none any more, and stays text."""
    try:
        found: JsonValue = json.loads(text, parse_float=_number, parse_constant=str, object_pairs_hook=_in_order)
    except (ValueError, RecursionError):
        return text
    return found


def _number(text: str) -> JsonValue:
    """What has no digits after the point is whole, as in Postgres; what no float holds stays text."""
    exponent = Decimal(text).as_tuple().exponent
    whole = isinstance(exponent, int) and 0 <= exponent < 400
    if whole:
        return int(Decimal(text))
    return number + 0.0 if isfinite(number := float(text)) else text


def _in_order(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return dict(sorted(pairs))
