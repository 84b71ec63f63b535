"""Which agent runs of a collection are meant: all of them, those that fit a condition, or what a SELECT gives."""

import re
from collections.abc import Iterator

from evalscribe.app.collections.query import MOST_ROWS, select
from evalscribe.errors import UsageError
from evalscribe.model.exploration import Member
from evalscribe.model.storage import Tables
from evalscribe.query.statement import check_query

_SELECT = re.compile(r"\s*(?:select|with)\b", re.IGNORECASE)
_CONDITION = "SELECT id FROM agent_runs WHERE "
_PAGE = """\
SELECT whole.id, whole.run_id, whole.name, whole.provider, whole.model, whole.task, whole.trial, whole.status
FROM agent_runs AS whole{chosen}
ORDER BY whole.id, whole.run_id LIMIT {limit} OFFSET {offset}"""
_CHOSEN = "\nWHERE whole.id IN (SELECT chosen.id FROM (\n{select}\n) AS chosen)"


def picked(tables: Tables, collection_id: str, where: str | None = None) -> tuple[Member, ...]:
    """By id. `where`: a condition over `agent_runs`, or a whole SELECT with a column `id`.

    Raises `UsageError` for a query that is no good, `UnavailableError` when the time is up.
    """
    chosen = _CHOSEN.format(select=_select(tables, where)) if where and where.strip() else ""
    return tuple(_pages(tables, collection_id, chosen))


def _select(tables: Tables, where: str) -> str:
    """Checked alone first: what is wrong with it is told with its own line and column."""
    whole = where.rstrip().removesuffix(";") if _SELECT.match(where) else f"{_CONDITION}{where}"
    try:
        columns = [column.name for column in check_query(whole, tables.dialect).columns]
    except UsageError as error:
        raise UsageError(f"--where: {error}\nin: {whole}") from None
    if "id" not in columns:
        raise UsageError(f"--where must give the column `id` of agent_runs; it gives {', '.join(columns)}")
    return whole


def _pages(tables: Tables, collection_id: str, chosen: str) -> Iterator[Member]:
    offset, more = 0, True
    while more:
        rows = select(tables, collection_id, _PAGE.format(chosen=chosen, limit=MOST_ROWS, offset=offset)).rows
        yield from (Member.model_validate(dict(zip(Member.model_fields, row, strict=True))) for row in rows)
        offset += len(rows)
        more = len(rows) == MOST_ROWS
