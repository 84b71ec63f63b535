"""Tools that ask a collection in SQL."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, JsonValue

from evalscribe.ids import Frozen
from evalscribe.mcp_server import fields
from evalscribe.mcp_server.place import Place

TIMEOUT_S = 20.0
LONGEST_CELL = 2_000
MOST_CHARACTERS = 40_000
"""Of all rows together."""
MARK = "… [cut: {left:,} characters more]"


class SchemaColumn(Frozen):
    name: str
    type: str
    about: str


class SchemaTable(Frozen):
    name: str
    about: str
    columns: tuple[SchemaColumn, ...]


class SqlSchema(Frozen):
    tables: tuple[SchemaTable, ...]
    rules: tuple[str, ...]
    examples: tuple[str, ...]


class MetadataField(Frozen):
    path: str
    """As a query spells it: `metadata_json->'scores'->'reward'`."""
    type: str
    agent_runs: int
    """How many of the first thousand have it."""
    sample: str


class MetadataFields(Frozen):
    collection: str
    fields: tuple[MetadataField, ...]


class ValueCount(Frozen):
    value: str
    """As JSON spells it, cut where it is long."""
    agent_runs: int


class MetadataSamples(Frozen):
    collection: str
    field: str
    values: tuple[ValueCount, ...]
    """The most frequent first."""
    more: bool
    """Whether there are others."""


class QueryRows(Frozen):
    collection: str
    columns: tuple[str, ...]
    rows: tuple[tuple[JsonValue, ...], ...]
    row_count: int
    truncated: bool
    """Whether there are more rows than these."""
    note: str | None = None
    """What was cut, and how to get the rest."""
    execution_time_ms: float


RULES = (
    "One SELECT (WITH, joins, set operations, window functions), in the spelling of Postgres; it can only read.",
    "Only the tables above; every row is of the one collection that is asked.",
    "metadata_json->'a'->>'b' reads JSON, `metadata_json ? 'a'` tells whether a key is there; CAST text to compare "
    "numbers: CAST(metadata_json->'scores'->>'reward' AS DOUBLE PRECISION).",
    "Ask metadata_fields and metadata_samples for what metadata_json holds before you write a condition on it.",
)
EXAMPLES = (
    "SELECT model, count(*) AS evals, sum(CASE WHEN status = 'passed' THEN 1 ELSE 0 END) AS passed "
    "FROM agent_runs GROUP BY model ORDER BY model",
    "SELECT cause, classification, count(*) AS evals FROM findings GROUP BY 1, 2 ORDER BY 3 DESC",
    "SELECT task, sum(CASE WHEN status = 'passed' THEN 1 ELSE 0 END) AS passed, count(*) AS trials "
    "FROM agent_runs GROUP BY task HAVING count(*) > 1 ORDER BY 2, 1",
    "SELECT agent_run_id, number, role, content FROM messages WHERE content LIKE '%refund%' ORDER BY 1, 2 LIMIT 20",
)


@dataclass(frozen=True)
class Queries:
    place: Place

    def sql_schema(self) -> SqlSchema:
        """Tables and columns that execute_sql can name, with what each holds, the rules, and example queries."""
        from evalscribe.app.collections.query_tables import documented

        tables = tuple(SchemaTable(**table.model_dump()) for table in documented())
        return SqlSchema(tables=tables, rules=RULES, examples=EXAMPLES)

    def metadata_fields(self, collection: fields.Collection = None) -> MetadataFields:
        """Names, types and counts of what this collection's evals have in metadata_json, two levels deep, each
        spelled as a query needs it."""
        from evalscribe.app.collections.query_tables import metadata_keys

        with self.place.collection_of(collection) as (workspace, chosen):
            keys = metadata_keys(workspace.tables, chosen.id, timeout_s=TIMEOUT_S)
        found = (
            MetadataField(path=key.path, type=key.kind, agent_runs=key.agent_runs, sample=key.sample) for key in keys
        )
        return MetadataFields(collection=chosen.id, fields=tuple(found))

    def metadata_samples(
        self,
        field: Annotated[
            str, Field(min_length=1, description="A path as metadata_fields spells it, or `scores.reward`.")
        ],
        collection: fields.Collection = None,
        limit: Annotated[int, Field(ge=1, le=200, description="How many values at most.")] = 20,
    ) -> MetadataSamples:
        """Values of one metadata field with how many evals have each, the most frequent first."""
        from evalscribe.app.collections.query_tables import metadata_values

        with self.place.collection_of(collection) as (workspace, chosen):
            found = metadata_values(workspace.tables, chosen.id, field, limit + 1, timeout_s=TIMEOUT_S)
        values = tuple(ValueCount(**one.model_dump()) for one in found[:limit])
        return MetadataSamples(collection=chosen.id, field=field, values=values, more=len(found) > limit)

    def execute_sql(
        self,
        sql: Annotated[str, Field(min_length=1, description="One SELECT; sql_schema tells what it can name.")],
        collection: fields.Collection = None,
        max_rows: Annotated[int, Field(ge=1, le=1000, description="Rows at most.")] = 100,
    ) -> QueryRows:
        """Ask a collection in SQL: one SELECT that can only read, at most 20 seconds. Long cells and many rows are
        cut, and `truncated` and `note` say so; errors name line and column."""
        from evalscribe.app.collections.query import select

        with self.place.collection_of(collection) as (workspace, chosen):
            answer = select(workspace.tables, chosen.id, sql, most_rows=max_rows, timeout_s=TIMEOUT_S)
        rows, cells = _bounded(answer.rows)
        return QueryRows(
            collection=chosen.id,
            columns=answer.columns,
            rows=rows,
            row_count=len(rows),
            truncated=answer.truncated or len(rows) < len(answer.rows),
            note=_note(cells, fewer=len(rows) < len(answer.rows), truncated=answer.truncated),
            execution_time_ms=answer.execution_time_ms,
        )


def _bounded(rows: Sequence[tuple[JsonValue, ...]]) -> tuple[tuple[tuple[JsonValue, ...], ...], int]:
    """As many rows as fit, and how many of their cells were cut."""
    kept = list[tuple[JsonValue, ...]]()
    size = cells = 0
    for row in rows:
        short = tuple(map(_cell, row))
        size += sum(len(str(cell)) + 3 for cell in short)
        if kept and size > MOST_CHARACTERS:
            break
        cells += sum(one is not other for one, other in zip(short, row, strict=True))
        kept.append(short)
    return tuple(kept), cells


def _cell(value: JsonValue) -> JsonValue:
    """A structure that is too long becomes text."""
    text = value if isinstance(value, str) else _spelled(value)
    if len(text) <= LONGEST_CELL:
        return value
    return text[:LONGEST_CELL] + MARK.format(left=len(text) - LONGEST_CELL)


def _spelled(value: JsonValue) -> str:
    from json import dumps

    return dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else ""


def _note(cells: int, *, fewer: bool, truncated: bool) -> str | None:
    said = [
        f"{cells} long cells are cut: select parts with substr() or ->, or read the eval with get_eval."
        if cells
        else "",
        "Rows beyond the size of one answer are left out: select fewer columns, or page." if fewer else "",
        "There are more rows: page with ORDER BY, LIMIT and OFFSET." if truncated else "",
    ]
    return " ".join(one for one in said if one) or None
