"""Items as rows, and back."""

from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import Connection, RowMapping, Select, Table, bindparam, select

from evalscribe.errors import DataError
from evalscribe.model.dataset import Item
from evalscribe.store.database import Database
from evalscribe.store.json_text import written
from evalscribe.store.statements import execute_many, insert_or_change
from evalscribe.store.tables import experiments, runs
from evalscribe.store.texts import Texts, json_of

_ITEM = TypeAdapter(Item)
_PUT = insert_or_change(experiments.draft_items, "digest", "likeness", "content", "source")


def whole(table: Table) -> Select[Any]:
    """Items with their texts."""
    texts = runs.texts
    return select(table.c.item_key, table.c.number, table.c.source, texts.c.body).join(
        texts, texts.c.digest == table.c.digest
    )


def page(table: Table, owner: str, size: int) -> Select[Any]:
    """At most `size` items of `of`, the next after the number `after`."""
    mine = whole(table).where(table.c[owner] == bindparam("of"), table.c.number > bindparam("after"))
    return mine.order_by(table.c.number).limit(size)


def item_in(database: Database, row: RowMapping) -> Item:
    """Raises `DataError` for a damaged one."""
    item = database.unpacked(row["body"], _ITEM, f"item {row['item_key']}")
    return item.model_copy(update={"source": row["source"]}) if row["source"] else item


class Given:
    """Items on their way into a draft, made into rows before anything is locked."""

    def __init__(self, items: Sequence[Item]) -> None:
        """Of several with one key the last is meant. Raises `DataError` naming the item that cannot be stored."""
        self._texts = Texts()
        self._rows = [self._row(item) for item in {item.key: item for item in items}.values()]
        self.contents: dict[str, str] = {row["item_key"]: row["content"] for row in self._rows}

    def put(self, connection: Connection, dataset_id: str, first: int) -> None:
        """Those that are new come at the end, from the number `first`."""
        self._texts.put(connection)
        numbered = [{"dataset_id": dataset_id, "number": n, **row} for n, row in enumerate(self._rows, first)]
        execute_many(connection, _PUT, numbered)

    def _row(self, item: Item) -> dict[str, Any]:
        if "\x00" in item.key:
            raise DataError(f"item {item.key!r} cannot be stored: its key holds NUL")
        text = json_of(item.model_dump(mode="json", exclude={"source"}), f"item {item.key!r}")
        return {
            "item_key": item.key,
            "digest": self._texts.add(text),
            "likeness": item.likeness,
            "content": item.digest,
            "source": written(json_of(item.source, f"the source of item {item.key!r}")),
        }
