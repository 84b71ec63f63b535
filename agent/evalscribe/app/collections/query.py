"""One query over one collection."""

import time

from pydantic import computed_field

from evalscribe.errors import UsageError
from evalscribe.model.storage import QueryRows, Tables
from evalscribe.query.result import value
from evalscribe.query.statement import check_query

MOST_ROWS = 10_000
TIMEOUT_S = 30.0
LONGEST_TIMEOUT_S = 3600.0


class Answer(QueryRows):
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
    statement = check_query(sql, tables.dialect)
    values = {"collection_id": collection_id}
    began = time.perf_counter()
    found = tables.select(statement.text, values, most_rows=most_rows, timeout_s=timeout_s)
    # Made of JSON just now: to look at every value again would take as long as to read it.
    return Answer.model_construct(
        columns=tuple(column.name for column in statement.columns),
        rows=tuple(tuple(map(value, statement.columns, row)) for row in found.rows),
        truncated=found.truncated,
        applied_limit=most_rows,
        execution_time_ms=round((time.perf_counter() - began) * 1000, 1),
    )
