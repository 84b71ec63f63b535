"""Read dataset items from JSON lines, JSON lists and CSV."""

import codecs
import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from pydantic import JsonValue, ValidationError

from evalscribe import text as prose
from evalscribe.errors import DataError, UsageError
from evalscribe.ids import Frozen
from evalscribe.json_data import InvalidJson, StrictJson, collect_strings, is_clean
from evalscribe.model.dataset import Item
from evalscribe.redaction.redact import Hints, find_hints, redact, redact_json
from evalscribe.sources.files import CHUNK_BYTES, FileReader
from evalscribe.sources.streams import JsonStream
from evalscribe.text import pluralise

ITEM_FIELDS = tuple(Item.model_fields)
_SHORT = {"expected": "expected_output", "id": "key"}
"""Alternative names that fields of an item can have in a file."""
ITEM_NAMES = (*ITEM_FIELDS, *_SHORT)
_NAMES = ("key", "split", "cluster")
_MAY_BE_NULL = ("input", "expected_output")
_MAY_BE_EMPTY = ("metadata", "events")
_KINDS = {"dict_type": "not an object", "tuple_type": "not a list"}
_HIDDEN = "[redacted:"


class ParsedItem(NamedTuple):
    """An item from which secrets have been removed, so that it can be stored."""

    item: Item
    hidden: int
    """Number of secrets that were removed from the item."""
    has_key: bool = False
    """True if the file states the item's key. False if the key was derived from the item's content."""


class _WrongFieldsError(DataError):
    """Raised if a row lacks required fields or has unknown fields.

    Such a problem usually affects all rows of the file.
    """


def parse_item(value: object, source: Mapping[str, JsonValue], columns: Mapping[str, str] | None = None) -> ParsedItem:
    """Parse and redact one decoded line.

    If the line has no `key`, the key is derived from the content. If the line has no `source`, the argument `source` is
    used. `columns` maps fields of the item to fields of the line. If there are columns, unknown fields of the line
    become metadata. If not, unknown fields are refused. Raises `DataError`, whose message describes the problem but
    not its location.
    """
    if not isinstance(value, dict):
        raise DataError("not a JSON object, so not an item")
    value = _fields(value, columns or {})
    # `null` is a valid input and a valid expected output. In any other field it means that the field is missing.
    fields, hidden = _safe({name: part for name, part in value.items() if part is not None or name in _MAY_BE_NULL})
    try:
        item = Item.model_validate({"key": "", "source": dict(source), **fields})
    except ValidationError as error:
        raise DataError(_item_error(error)) from None
    if "key" not in fields:
        item = item.model_copy(update={"key": make_item_key(item)})
    return ParsedItem(item, hidden, "key" in fields)


def _fields(row: Mapping[str, object], columns: Mapping[str, str]) -> dict[str, object]:
    """Rename the columns of a row to the fields of an item. Raises `DataError` if columns are missing or unknown."""
    columns = {_SHORT.get(field, field): name for field, name in columns.items()}
    for field, name in columns.items():
        if name not in row and field == "input":
            raise _WrongFieldsError(f"has no field `{_short(name)}`; its fields: {_listed(row)}")
    fields = {name: _SHORT.get(name, name) for name in ITEM_NAMES}
    fields = {name: field for name, field in fields.items() if field not in columns}
    for short, field in _SHORT.items():
        if short in row and field in row and short in fields:
            raise DataError(f"`{short}` and `{field}` mean the same; use one of them")
    fields |= {name: field for field, name in columns.items()}
    values = {fields[name]: part for name, part in row.items() if name in fields}
    unknown = {name: part for name, part in row.items() if name not in fields}
    if unknown and not columns:
        likely = f"; to use another field as the input: `map` input={_short(next(iter(unknown)))}"
        field_list = f"fields: {', '.join(ITEM_FIELDS)} (or expected, id)"
        verb = "is" if len(unknown) == 1 else "are"
        raise _WrongFieldsError(f"{_listed(unknown)} {verb} unknown; {field_list}{'' if 'input' in values else likely}")
    if unknown:
        metadata = values.get("metadata")
        values["metadata"] = {**(metadata if isinstance(metadata, dict) else {}), **unknown}
    return values


def _short(name: str) -> str:
    return prose.cut(prose.one_line(name), 80)


def _listed(names: Iterable[str]) -> str:
    return prose.join_first([f"`{_short(name)}`" for name in names], 12)


def make_item_key(item: Item) -> str:
    """Return 16 hex digits that identify the combination of input and expected output."""
    return item.likeness.removeprefix("sha256:")[:16]


def render_item(item: Item) -> str:
    """Render an item as one line, without a line end.

    `parse_item` restores an equal item, regardless of its argument `source`.
    """
    left_out = {name for name in ITEM_FIELDS if getattr(item, name) is None and name != "input"}
    left_out |= {name for name in _MAY_BE_EMPTY if not getattr(item, name)}
    fields = item.model_dump(mode="json", exclude=left_out)
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _safe(value: Mapping[str, object]) -> tuple[dict[str, object], int]:
    """Redact the values of an item, and count the secrets in them.

    A value is not redacted merely because of the name of its field, since a `key` is not a secret.
    """
    texts = collect_strings(value)
    text = "\n".join(texts)
    if not _is_text(text):
        raise DataError("contains half of a surrogate pair, which is not a character")
    hints = find_hints(text)
    safe_value = {name: _part(name, part, hints) for name, part in value.items()}
    # The file itself can contain redaction marks, which are not counted.
    return safe_value, 0 if safe_value == value else _marks(collect_strings(safe_value)) - _marks(texts)


def _part(name: str, part: object, hints: Hints) -> object:
    if name not in _NAMES:
        return redact_json(part, hints)
    text = str(part) if isinstance(part, int) and not isinstance(part, bool) else part
    if not isinstance(text, str):
        raise DataError(f"`{name}` is not text")
    if text != prose.name(text):
        raise DataError(f"`{name}` is not a valid name: use one line of 1 to {prose.NAME_LIMIT} characters")
    return redact(text, hints)


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _marks(texts: list[str]) -> int:
    return sum(text.count(_HIDDEN) for text in texts)


def _item_error(error: ValidationError) -> str:
    """Describe the first validation problem without quoting the input."""
    problem = error.errors(include_input=False, include_url=False)[0]
    place = ".".join(map(str, problem["loc"]))
    if problem["type"] == "missing":
        return f"`{place}` is missing"
    return f"`{place}` is {_KINDS.get(problem['type']) or 'wrong: ' + problem['msg'].lower()}"


MAX_ITEM_BYTES = 16 * 1024 * 1024
"""Maximum number of bytes in a line. Each line contains one item."""
TOO_LONG = f"longer than {MAX_ITEM_BYTES // 1024 // 1024} MB"


def item_lines(reading: FileReader) -> Iterator[tuple[int, bytes | None]]:
    """Yield the number and the bytes of each line, including its line end.

    The bytes are None if the line is too long.
    """
    buffer, number, too_long = bytearray(), 1, False
    while piece := reading.read():
        *ends, rest = piece.split(b"\n")
        for end in ends:
            buffer += end
            yield number, None if too_long or len(buffer) > MAX_ITEM_BYTES else _line(number, buffer, b"\n")
            buffer, too_long, number = bytearray(), False, number + 1
        buffer += rest
        if len(buffer) > MAX_ITEM_BYTES:
            buffer, too_long = bytearray(), True
    if buffer or too_long:
        yield number, None if too_long else _line(number, buffer, b"")


def decode_line(line: bytes | None) -> str:
    """Decode a line as UTF-8. Raises `DataError` if the line is too long or not valid UTF-8."""
    if line is None:
        raise DataError(TOO_LONG)
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise DataError(f"not UTF-8: byte {line[error.start]:#04x} at {error.start + 1}") from None


def _line(number: int, buffer: bytearray, end: bytes) -> bytes:
    line = bytes(buffer) + end
    return line.removeprefix(codecs.BOM_UTF8) if number == 1 else line


MAX_PROBLEMS = 20
"""Maximum number of problems that are stored with a description. Any further problems are only counted."""


class ItemCollector:
    """Collects the items of a file, and the problems with its lines, while the file is read once."""

    def __init__(self, name: str, unit: str = "line", columns: Mapping[str, str] | None = None) -> None:
        """Start an empty collection.

        Args:
            name: Name of the file.
            unit: Unit that is counted in messages: `line` or `item`.
            columns: Name of the file's column for each field of the item.
        """
        self._columns = columns
        self.problems: list[str] = []
        self.bad = 0
        self.hidden = 0
        self._name = name
        self._unit = unit
        self._places: dict[str, int] = {}
        self._equal: dict[str, int] = {}

    def item(self, value: object, number: int, source: Mapping[str, JsonValue] | None = None) -> Item | None:
        """Parse an item. If the item is invalid, record the problem and return None.

        The fields of `source` are added to the item's source.
        """
        try:
            origin = {"file": self._name.rpartition("/")[2], self._unit: number, **(source or {})}
            parsed = parse_item(value, origin, self._columns)
            item = parsed.item if parsed.has_key else self._keyed(parsed.item)
            self._take(item.key, number)
        except _WrongFieldsError as error:
            # The same problem usually affects every row, so it is listed once. A set of all problems would grow without
            # bound on a hostile file.
            if any(problem.endswith(f": {error}") for problem in self.problems):
                self.bad += 1
            else:
                self.refuse(number, str(error))
            return None
        except DataError as error:
            self.refuse(number, str(error))
            return None
        self.hidden += parsed.hidden
        return item

    def refuse(self, number: int, problem: str) -> None:
        self.bad += 1
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(f"{self.place(number)}: {problem}")

    def place(self, number: int) -> str:
        return f"{self._name}:{number}" if self._unit == "line" else f"{self._name}: {self._unit} {number}"

    def _take(self, key: str, number: int) -> None:
        first = self._places.setdefault(key, number)
        if first != number:
            raise DataError(f"the key {key!r} is also used by {self._unit} {first}")

    def _keyed(self, item: Item) -> Item:
        """Add a suffix such as `-2` to the item's key if an earlier item has the same key."""
        # The search starts at the last suffix. If it started at 2, many equal items would take quadratic time.
        key, number = item.key, self._equal.get(item.key, 1)
        while key in self._places:
            number += 1
            key = f"{item.key}-{number}"
        self._equal[item.key] = number
        return item if key == item.key else item.model_copy(update={"key": key})


class ItemFile:
    """Base class for files of dataset items. Each file is read once, from beginning to end."""

    def __init__(self, path: Path, name: str, unit: str = "line", columns: Mapping[str, str] | None = None) -> None:
        """Store the arguments. The file is opened only when it is read.

        `name`, `unit` and `columns` are the same as in `ItemCollector`.
        """
        self._path = path
        self._name = name
        self._intake = ItemCollector(name, unit, columns)
        self._json = StrictJson()

    def read(self) -> Iterator[Item]:
        """Read the items.

        Raises:
            DataError: The file cannot be read to its end.
            NotFoundError: The file does not exist.
            AccessError: There is no permission to read the file.
        """
        raise NotImplementedError

    @property
    def problems(self) -> Sequence[str]:
        """Problems of the lines that are not valid items, with their locations. At most `MAX_PROBLEMS` are listed.

        The list is complete only after the file has been read.
        """
        return self._intake.problems

    @property
    def bad(self) -> int:
        """Number of lines that are not valid items, including lines whose problem is not listed."""
        return self._intake.bad

    @property
    def hidden(self) -> int:
        """Number of secrets that were removed from the items."""
        return self._intake.hidden


class JsonLines(ItemFile):
    def __init__(self, path: Path, name: str, columns: Mapping[str, str] | None = None) -> None:
        super().__init__(path, name, columns=columns)

    def read(self) -> Iterator[Item]:
        with FileReader(self._path) as reading:
            for number, line in item_lines(reading):
                if (line is None or line.strip()) and (item := self._item(number, line)) is not None:
                    yield item

    def _item(self, number: int, line: bytes | None) -> Item | None:
        try:
            return self._intake.item(self._json.decode(decode_line(line)), number)
        except DataError as error:
            self._intake.refuse(number, str(error))
            return None


class JsonList(ItemFile):
    def __init__(self, path: Path, name: str, columns: Mapping[str, str] | None = None) -> None:
        super().__init__(path, name, "item", columns)

    def read(self) -> Iterator[Item]:
        with _Utf8(self._path, self._name) as reading:
            stream = JsonStream(reading, self._name, self._json.decoder, MAX_ITEM_BYTES)
            for number, value in enumerate(stream.elements(), 1):
                if (item := self._item(number, value)) is not None:
                    yield item
            stream.end()

    def _item(self, number: int, value: object) -> Item | None:
        try:
            return self._intake.item(self._json.checked(value), number)
        except DataError as error:
            self._intake.refuse(number, str(error))
            return None


class _Utf8(FileReader):
    """A file that must be encoded in UTF-8. Reading a file in a different encoding raises `DataError`."""

    def __init__(self, path: Path, name: str) -> None:
        super().__init__(path)
        self._name = name
        self._check = codecs.getincrementaldecoder("utf-8")()

    def read(self, size: int = CHUNK_BYTES) -> bytes:
        piece = super().read(size)
        try:
            self._check.decode(piece, final=not piece)
        except UnicodeDecodeError:
            raise DataError(f"{self._name} is not UTF-8") from None
        return piece


def is_list(path: Path) -> bool:
    """Return True if the file begins with `[`."""
    with FileReader(path) as reading:
        return reading.read().removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"[")


class CsvColumns(Frozen):
    """The columns of a CSV file that contain the fields of the items.

    Columns are given by name. If the file has no header, columns are given by number, counted from 1.
    """

    input: tuple[str, ...]
    """Columns with the input. If there are several, the input is an object with one member for each column."""
    expected: str | None = None
    """Column with the expected output. If a cell is empty, the item has no expected output."""
    metadata: tuple[str, ...] = ()
    split: str | None = None
    cluster: str | None = None
    key: str | None = None
    events: str | None = None
    """Column with a JSON list of events."""
    tags: str | None = None
    """Column with tags, as a JSON list or separated by commas. The tags become `metadata.tags`."""
    source_run_id: str | None = None
    delimiter: str = ","
    header: bool = True
    json_cells: bool = False
    """True to parse cells that contain JSON. If False, every cell is read as text."""

    @property
    def named_columns(self) -> tuple[tuple[str, str], ...]:
        """Return all columns that the user named, each as a pair of the option and the column's name."""
        several = [("input_column", name) for name in self.input]
        several += [("metadata_column", name) for name in self.metadata]
        single = {
            "expected_column": self.expected,
            "split_column": self.split,
            "cluster_column": self.cluster,
            "key_column": self.key,
            "events_column": self.events,
            "tags_column": self.tags,
            "source_run_id_column": self.source_run_id,
        }
        return (*several, *((field, name) for field, name in single.items() if name is not None))


_Row = Mapping[str, str]


class CsvRows(ItemFile):
    """A CSV table in which each row is an item."""

    def __init__(self, path: Path, name: str, columns: CsvColumns) -> None:
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
        with FileReader(self._path) as reading:
            # Invalid bytes become surrogates, and `_row` refuses rows with surrogates. An error here would end the
            # reading of the table.
            decode = partial(bytes.decode, errors="surrogateescape")
            yield from csv_rows(reading, self._columns.delimiter, self._intake.place, self._intake.refuse, decode)

    def _header(self, first: list[str]) -> list[str]:
        """Return the names of the columns.

        Raises `UsageError` if a column that the user named is missing or occurs twice.
        """
        names = first if self._columns.header else [str(number) for number in range(1, len(first) + 1)]
        for field, name in self._columns.named_columns:
            if names.count(name) != 1:
                problem = "occurs twice" if name in names else "does not exist"
                raise UsageError(
                    f"`{field}` {name!r} {problem}; {self._name} has the columns {', '.join(names)}", fields=(field,)
                )
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
        except InvalidJson:
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
            raise DataError(f"column {column!r} is not a JSON list")
        return value


def csv_rows(
    reading: FileReader,
    delimiter: str,
    place: Callable[[int], str],
    refuse: Callable[[int, str], None],
    decode: Callable[[bytes], str],
) -> Iterator[tuple[int, list[str]]]:
    """Yield each non-empty row of a CSV table, together with the number of the row's first line.

    Args:
        reading: The CSV file.
        delimiter: A single character.
        place: Returns the location of a line for error messages.
        refuse: Called for each row that cannot be read, with the number of the row's first line and the problem.
        decode: Decodes a line. This function must not raise an error, because a line can be part of a cell.

    Raises:
        DataError: A line is too long, or the first row cannot be read. Without the first row, the other rows cannot be
            interpreted.
    """
    # The default limit of the csv module is 131,072 characters in a cell.
    csv.field_size_limit(MAX_ITEM_BYTES)

    def lines() -> Iterator[str]:
        for number, line in item_lines(reading):
            if line is None:
                raise DataError(f"{place(number)}: {TOO_LONG}")
            yield decode(line)

    rows = csv.reader(lines(), delimiter=delimiter, strict=True)
    began = False
    while True:
        first = rows.line_num + 1
        try:
            cells = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            if not began:
                raise DataError(f"{place(first)}: {_csv_problem(error)}") from None
            refuse(first, _csv_problem(error))
            continue
        if cells:
            began = True
            yield first, cells


def _row(header: list[str], cells: list[str]) -> _Row:
    if len(cells) != len(header):
        raise DataError(f"has {pluralise(len(cells), 'cell')}, but the header has {len(header)}")
    if not all(map(is_clean, cells)):
        raise DataError("not UTF-8, or contains NUL")
    return dict(zip(header, cells, strict=True))


def _csv_problem(error: csv.Error) -> str:
    if "new-line character" in str(error):
        return "not CSV: a carriage return outside quotes; save the file with the line ends of Unix or Windows"
    unclosed = "unexpected end" in str(error) or "field limit" in str(error)
    return f"not CSV: {error}{' (a quote that is never closed?)' if unclosed else ''}"


def open_items(path: Path, name: str, columns: Mapping[str, str] | None = None) -> ItemFile:
    """Open a file that has one item per line, or a list of items.

    Args:
        path: The file.
        name: Name of the file, as used in messages.
        columns: Maps fields of the item to the names that these fields have in the file. Only fields with a different
            name need an entry. If there are columns, unknown fields become metadata. If not, unknown fields are
            refused.

    Raises:
        NotFoundError: The file does not exist.
        AccessError: There is no permission to read the file.
        DataError: The content is invalid.
    """

    return JsonList(path, name, columns) if is_list(path) else JsonLines(path, name, columns)


def open_csv(path: Path, name: str, columns: CsvColumns) -> ItemFile:
    """Open a CSV table that has one item per row. Reading the table raises `UsageError` if a column does not exist."""

    return CsvRows(path, name, columns)
