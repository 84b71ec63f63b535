"""Items as JSON: one a line, or all in one list. A line that is no good does not end the reading."""

import codecs
from collections.abc import Iterator
from pathlib import Path

from evalscribe.dataset import Item
from evalscribe.errors import DataError
from evalscribe.sources.imports.json_text import JsonText
from evalscribe.sources.imports.reading import PIECE, Reading
from evalscribe.sources.items.item_file import ItemFile
from evalscribe.sources.items.lines import LARGEST, lines, text


class JsonLines(ItemFile):
    def read(self) -> Iterator[Item]:
        with Reading(self._path) as reading:
            for number, line in lines(reading):
                if (line is None or line.strip()) and (item := self._item(number, line)) is not None:
                    yield item

    def _item(self, number: int, line: bytes | None) -> Item | None:
        try:
            return self._intake.item(self._json.decode(text(line)), number)
        except DataError as error:
            self._intake.refuse(number, str(error))
            return None


class JsonList(ItemFile):
    def __init__(self, path: Path, name: str) -> None:
        super().__init__(path, name, "item")

    def read(self) -> Iterator[Item]:
        with _Utf8(self._path, self._name) as reading:
            whole = JsonText(reading, self._name, self._json.decoder, LARGEST)
            for number, value in enumerate(whole.elements(), 1):
                if (item := self._item(number, value)) is not None:
                    yield item
            whole.end()

    def _item(self, number: int, value: object) -> Item | None:
        try:
            return self._intake.item(self._json.checked(value), number)
        except DataError as error:
            self._intake.refuse(number, str(error))
            return None


class _Utf8(Reading):
    """A file that has to be UTF-8."""

    def __init__(self, path: Path, name: str) -> None:
        super().__init__(path)
        self._name = name
        self._check = codecs.getincrementaldecoder("utf-8")()

    def read(self, size: int = PIECE) -> bytes:
        piece = super().read(size)
        try:
            self._check.decode(piece, final=not piece)
        except UnicodeDecodeError:
            raise DataError(f"{self._name} is no UTF-8") from None
        return piece


def is_list(path: Path) -> bool:
    """Whether the file begins with `[`."""
    with Reading(path) as reading:
        return reading.read().removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"[")
