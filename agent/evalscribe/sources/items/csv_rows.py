"""Items as rows of a table."""

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import JsonValue

from evalscribe.dataset import Item
from evalscribe.errors import DataError, UsageError
from evalscribe.json_clean import is_clean
from evalscribe.prose import counted
from evalscribe.sources.imports.reading import Reading
from evalscribe.sources.items.columns import Columns
from evalscribe.sources.items.item_file import ItemFile
from evalscribe.sources.items.lines import LARGEST, TOO_LONG, lines
from evalscribe.strict_json import NotJson

_Row = Mapping[str, str]


class CsvRows(ItemFile):
    """A table as `ports.ItemRows`."""

    def __init__(self, path: Path, name: str, columns: Columns) -> None:
        super().__init__(path, name)
        self._columns = columns

    def read(self) -> Iterator[Item]:
        header: list[str] | None = None
        for number, cells in self._rows():
            if header is None:
                header = self._header(cells)
                if self._columns.header:
                    continue
            if (item := self._item(number, header, cells)) is not None:
                yield item

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        """Each row that is not empty, with the line it begins on."""
        csv.field_size_limit(LARGEST)
        began = False
        with Reading(self._path) as reading:
            rows = csv.reader(self._lines(reading), delimiter=self._columns.delimiter, strict=True)
            while True:
                first = rows.line_num + 1
                try:
                    cells = next(rows)
                except StopIteration:
                    return
                except csv.Error as error:
                    self._refuse(first, _told(error), began)
                    continue
                if cells:
                    began = True
                    yield first, cells

    def _refuse(self, number: int, what: str, began: bool) -> None:
        """Raises `DataError` where the rows have not begun: without its first row a table cannot be understood."""
        if not began:
            raise DataError(f"{self._intake.place(number)}: {what}")
        self._intake.refuse(number, what)

    def _lines(self, reading: Reading) -> Iterator[str]:
        """What is no UTF-8 is told by row: a line alone may be part of a cell."""
        for number, line in lines(reading):
            if line is None:
                raise DataError(f"{self._intake.place(number)}: {TOO_LONG}")
            yield line.decode(errors="surrogateescape")

    def _header(self, first: list[str]) -> list[str]:
        """Names of the columns. Raises `UsageError` for one that is asked for and not there."""
        names = first if self._columns.header else [str(number) for number in range(1, len(first) + 1)]
        for option, name in self._columns.asked:
            if names.count(name) != 1:
                found = "is there twice" if name in names else "is not there"
                raise UsageError(f"{option} {name!r} {found}; {self._name} has the columns {', '.join(names)}")
        return names

    def _item(self, number: int, header: list[str], cells: list[str]) -> Item | None:
        try:
            value = self._value(row := _row(header, cells))
        except DataError as error:
            self._intake.refuse(number, str(error))
            return None
        run = row.get(self._columns.source_run_id or "")
        return self._intake.item(value, number, {"run": run} if run and self._columns.source_run_id else None)

    def _value(self, row: _Row) -> dict[str, object]:
        columns = self._columns
        inputs = {name: self._cell(row[name]) for name in columns.input}
        value: dict[str, object] = {"input": inputs if len(inputs) > 1 else inputs[columns.input[0]]}
        value["metadata"] = {name: self._cell(row[name]) for name in columns.metadata} | self._tags(row)
        if columns.expected and row[columns.expected]:
            value["expected_output"] = self._cell(row[columns.expected])
        if columns.events and row[columns.events].strip():
            value["events"] = self._list(row[columns.events], columns.events)
        for field, name in (("key", columns.key), ("split", columns.split), ("cluster", columns.cluster)):
            if name and row[name].strip():
                value[field] = row[name].strip()
        return value

    def _cell(self, cell: str) -> object:
        if not self._columns.json_cells:
            return cell
        try:
            return self._json.decode(cell)
        except NotJson:
            return cell

    def _tags(self, row: _Row) -> dict[str, JsonValue]:
        if not self._columns.tags:
            return {}
        cell = row[self._columns.tags].strip()
        if cell.startswith("["):
            return {"tags": self._list(cell, self._columns.tags)}
        return {"tags": [tag.strip() for tag in cell.split(",") if tag.strip()]}

    def _list(self, cell: str, column: str) -> list[JsonValue]:
        try:
            value = self._json.decode(cell)
        except DataError as error:
            raise DataError(f"column {column!r}: {error}") from None
        if not isinstance(value, list):
            raise DataError(f"column {column!r} holds no JSON list")
        return value


def _row(header: list[str], cells: list[str]) -> _Row:
    if len(cells) != len(header):
        raise DataError(f"has {counted(len(cells), 'cell')}, not {len(header)}")
    if not all(map(is_clean, cells)):
        raise DataError("no UTF-8, or holds NUL")
    return dict(zip(header, cells, strict=True))


def _told(error: csv.Error) -> str:
    unclosed = "unexpected end" in str(error) or "field limit" in str(error)
    return f"no CSV: {error}{' (a quote that is never closed?)' if unclosed else ''}"
