"""Write a version's items as lines."""

import csv
import io
from collections.abc import Iterable, Iterator

from pydantic import JsonValue

from evalscribe.dataset import Item
from evalscribe.errors import UsageError
from evalscribe.item_line import FIELDS, written
from evalscribe.json_value import as_text

FORMATS = ("jsonl", "csv")


def lines(items: Iterable[Item], form: str) -> Iterator[str]:
    """Without their ends. JSON lines are what an upload reads again; of a table's cells, texts are as they are and all
    else is JSON. Raises `UsageError` for an unknown format."""
    if form not in FORMATS:
        raise UsageError(f"--format {form!r} is none of {', '.join(FORMATS)}")
    return map(written, items) if form == "jsonl" else _rows(items)


def _rows(items: Iterable[Item]) -> Iterator[str]:
    yield _row(FIELDS)
    for item in items:
        told = item.model_dump(mode="json")
        yield _row([_cell(told[name]) for name in FIELDS])


def _row(cells: Iterable[str]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="").writerow(cells)
    return buffer.getvalue()


def _cell(value: JsonValue) -> str:
    if value in (None, {}, []):
        return ""
    return as_text(value)
