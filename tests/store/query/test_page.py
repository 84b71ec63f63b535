"""The tables, functions and queries of agent/docs/sql.md are those of the code."""

import re
from pathlib import Path

import pytest

from evalscribe.collections.query import run_query
from evalscribe.model.protocols import Tables
from evalscribe.store.query.check import functions
from evalscribe.store.query.tables import tables
from evalscribe.store.tables import metadata
from support.query_rows import MINE

PAGE = Path(__file__).parents[3] / "agent" / "docs" / "sql.md"
QUERIES = re.findall(r"```sql\n(.*?)```", PAGE.read_text("utf-8"), re.S)


def written_tables() -> str:
    lines = []
    for table in tables():
        lines += [
            "",
            f"### {table.name}",
            "",
            f"{table.about[:1].upper()}{table.about[1:]}.",
            "",
            "| column | type | |",
            "|---|---|---|",
        ]
        lines += [f"| {column.name} | {column.kind} | {column.about} |" for column in table.columns]
    return "\n".join([*lines[1:], ""])


def section(name: str) -> str:
    match = re.search(rf"<!-- {name} -->\n?(.*?)<!-- /{name} -->", PAGE.read_text("utf-8"), re.S)
    assert match
    return match[1]


def test_page_lists_every_table() -> None:
    assert section("tables") == written_tables()


def test_page_lists_every_function() -> None:
    assert section("functions") == ", ".join(f"`{name}`" for name in functions()) + "."


@pytest.mark.parametrize("number", range(11))
def test_query_on_the_page_runs(desk: Tables, number: int) -> None:
    assert len(QUERIES) == 11
    assert run_query(desk, MINE, QUERIES[number], timeout_s=60).columns


def test_every_documented_column_exists_in_the_store() -> None:
    for table in tables():
        columns = {column.name for column in table.columns}
        assert columns, table.name
        assert "body" not in columns
        stored = metadata.tables.get(table.name)
        if stored is not None and table.name not in ("judge_results", "runs"):
            # All of these but `agent_run_id` are in `finding_json`.
            own = columns - {"agent_run_id", "basis", "replay", "message", "first_mistake"}
            assert own <= set(stored.c.keys()), table.name
