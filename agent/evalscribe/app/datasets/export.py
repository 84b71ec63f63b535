"""Write a version's items as lines."""

import csv
import io
from collections.abc import Iterable, Iterator

from pydantic import JsonValue

from evalscribe.errors import UsageError
from evalscribe.json_data import to_text
from evalscribe.model.dataset import Item
from evalscribe.sources.items import ITEM_FIELDS, render_item

FORMATS = ("jsonl", "csv")


def lines(items: Iterable[Item], form: str) -> Iterator[str]:
    """Without their ends. JSON lines are what an upload reads again; of a table's cells, texts are as they are and all
    else is JSON. Raises `UsageError` for an unknown format."""
    if form not in FORMATS:
        raise UsageError(f"--format {form!r} is none of {', '.join(FORMATS)}")
    return map(render_item, items) if form == "jsonl" else _rows(items)


def _rows(items: Iterable[Item]) -> Iterator[str]:
    yield _row(ITEM_FIELDS)
    for item in items:
        told = item.model_dump(mode="json")
        yield _row([_cell(told[name]) for name in ITEM_FIELDS])


def _row(cells: Iterable[str]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="").writerow(cells)
    return buffer.getvalue()


def _cell(value: JsonValue) -> str:
    if value in (None, {}, []):
        return ""
    return to_text(value)
