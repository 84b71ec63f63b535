"""XML piece by piece, with nothing in it that could refer to anything: no entities, no document type."""

from collections.abc import Iterator
from typing import NamedTuple
from xml.parsers import expat

from evalscribe.errors import DataError
from evalscribe.json_clean import clean_text
from evalscribe.sources.imports.reading import Reading

DEEPEST = 50
LONGEST = 16 * 1024 * 1024
"""Characters of one element's text."""


class Start(NamedTuple):
    tag: str
    attributes: dict[str, str]


class End(NamedTuple):
    tag: str
    text: str
    """The element's own text."""


def events(reading: Reading, where: str) -> Iterator[Start | End]:
    """Raises `DataError` with the line for what is no XML, or not safe."""
    handler = _Handler(where)
    try:
        while piece := reading.read():
            handler.parser.Parse(piece, False)
            yield from handler.taken()
        handler.parser.Parse(b"", True)
    except expat.ExpatError as error:
        yield from handler.taken()
        told = expat.ErrorString(error.code)
        raise DataError(f"{where}: no valid XML at line {error.lineno}, column {error.offset + 1}: {told}") from None
    yield from handler.taken()


class _Handler:
    def __init__(self, where: str) -> None:
        self._where = where
        self._events: list[Start | End] = []
        self._texts: list[list[str]] = []
        self._size = 0
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        self.parser.StartDoctypeDeclHandler = self._refuse
        self.parser.EntityDeclHandler = self._refuse

    def taken(self) -> list[Start | End]:
        events, self._events = self._events, []
        return events

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if len(self._texts) >= DEEPEST:
            raise self._wrong("elements are nested too deeply")
        self._texts.append([])
        self._size = 0
        self._events.append(Start(tag, {clean_text(key): clean_text(value) for key, value in attributes.items()}))

    def _text(self, text: str) -> None:
        self._size += len(text)
        if self._size > LONGEST:
            raise self._wrong("the text of an element is too long")
        self._texts[-1].append(text)

    def _end(self, tag: str) -> None:
        self._events.append(End(tag, clean_text("".join(self._texts.pop()))))

    def _refuse(self, *_: object) -> None:
        raise self._wrong("a document type or entity is declared, which no report of tests needs")

    def _wrong(self, what: str) -> DataError:
        return DataError(f"{self._where}: {what} at line {self.parser.CurrentLineNumber}")
