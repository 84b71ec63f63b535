"""What a query can name: the tables, and what a collection's runs have in their metadata."""

from collections.abc import Sequence

from pydantic import JsonValue

from evalscribe.app.collections.query import TIMEOUT_S, select
from evalscribe.ids import Frozen
from evalscribe.model.storage import Tables
from evalscribe.query.tables import tables as queried_tables

LOOKED_AT = 1000
"""Runs of a collection whose metadata is looked at."""
LONGEST = 60
"""Characters of a sample."""
LONGEST_VALUE = 200
_VALUES = """
SELECT value, count(*) AS agent_runs FROM (SELECT ({path})::text AS value FROM agent_runs) AS some
WHERE value IS NOT NULL GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT {most}
"""
_KEYS = """
SELECT one.key AS path, jsonb_typeof(one.value) AS kind, count(*) AS agent_runs, min(one.value::text) AS sample
FROM (SELECT metadata_json FROM agent_runs {where} ORDER BY id LIMIT {most}) AS some, jsonb_each({inside}) AS one
GROUP BY 1, 2 ORDER BY 1, 3 DESC, 2
"""


class ColumnDoc(Frozen):
    name: str
    type: str
    about: str


class TableDoc(Frozen):
    name: str
    about: str
    columns: tuple[ColumnDoc, ...]


class MetadataKey(Frozen):
    """What runs have under one key."""

    path: str
    """As a query spells it: `metadata_json->'scores'->'reward'`."""
    kind: str
    agent_runs: int
    """How many of those looked at have it."""
    sample: str


class MetadataValue(Frozen):
    """A value that runs have in one place of their metadata."""

    value: str
    """As JSON spells it; cut where it is long."""
    agent_runs: int


class QueryTables(Frozen):
    tables: tuple[TableDoc, ...]
    metadata: tuple[MetadataKey, ...] = ()


def documented() -> tuple[TableDoc, ...]:
    return tuple(
        TableDoc(
            name=table.name,
            about=table.about,
            columns=tuple(ColumnDoc(name=one.name, type=one.kind, about=one.about) for one in table.columns),
        )
        for table in queried_tables()
    )


def metadata_keys(tables: Tables, collection_id: str, *, timeout_s: float = TIMEOUT_S) -> tuple[MetadataKey, ...]:
    """Of the first thousand runs, two levels deep. Raises as `select` does."""
    found = _keys(tables, collection_id, "metadata_json", timeout_s)
    inner = dict.fromkeys(key.path for key in found if key.kind == "object")
    deeper = [key for path in inner for key in _keys(tables, collection_id, path, timeout_s)]
    return tuple(sorted([*found, *deeper], key=lambda key: (key.path, -key.agent_runs)))


def metadata_values(
    tables: Tables, collection_id: str, path: str, most: int, *, timeout_s: float = TIMEOUT_S
) -> tuple[MetadataValue, ...]:
    """The most frequent first; `path` as `MetadataKey` spells it, or `scores.reward`. Raises as `select` does."""
    found = select(tables, collection_id, _VALUES.format(path=_spelled(path), most=most), timeout_s=timeout_s).rows
    return tuple(MetadataValue(value=_short(str(row[0])), agent_runs=int(str(row[1]))) for row in found)


def _spelled(path: str) -> str:
    if path.startswith("metadata_json"):
        return path
    return "->".join(["metadata_json", *map(_quoted, path.split("."))])


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"


def _keys(tables: Tables, collection_id: str, inside: str, timeout_s: float) -> list[MetadataKey]:
    where = "" if inside == "metadata_json" else f"WHERE jsonb_typeof({inside}) = 'object'"
    rows = select(
        tables, collection_id, _KEYS.format(most=LOOKED_AT, inside=inside, where=where), timeout_s=timeout_s
    ).rows
    return [_key(f"{inside}->{_quoted(str(row[0]))}", row) for row in rows]


def _key(path: str, row: Sequence[JsonValue]) -> MetadataKey:
    sample = str(row[3])
    short = sample if len(sample) <= LONGEST else sample[: LONGEST - 1] + "…"
    return MetadataKey(path=path, kind=str(row[1]), agent_runs=int(str(row[2])), sample=short)


def _quoted(key: str) -> str:
    return "'" + key.replace("'", "''") + "'"
