"""Queries of the SDK."""

from typing import Any

from evalscribe.app.collections.choice import ARGUMENT, chosen
from evalscribe.app.collections.query import MOST_ROWS, select
from evalscribe.ports import Shelf
from evalscribe.settings import Settings
from evalscribe.wiring.querying import open_query_desk


def executed(found: Settings, shelf: Shelf, collection: str | None, sql: str, most_rows: int | None) -> dict[str, Any]:
    """As JSON has it. Raises `EvalscribeError`."""
    which = chosen(shelf, collection, found.collection.value, ARGUMENT)
    with open_query_desk(found) as desk:
        answer = select(desk, which.id, sql, most_rows=MOST_ROWS if most_rows is None else most_rows)
    return answer.model_dump(mode="json")
