"""Files of items: JSON lines, a JSON list, CSV. What packed them, their content says."""

from pathlib import Path

from evalscribe.ports import ItemRows
from evalscribe.sources.items.columns import Columns

__all__ = ["Columns", "open_csv", "open_items"]


def open_items(path: Path, name: str) -> ItemRows:
    """One item a line, or a list of them; `name`: how the file is told.

    Raises `NotFoundError`, `AccessError`, or `DataError` for what cannot be read.
    """
    from evalscribe.sources.items.json_items import JsonLines, JsonList, is_list

    return JsonList(path, name) if is_list(path) else JsonLines(path, name)


def open_csv(path: Path, name: str, columns: Columns) -> ItemRows:
    """One item a row. Reading raises `UsageError` for a column that there is not."""
    from evalscribe.sources.items.csv_rows import CsvRows

    return CsvRows(path, name, columns)
