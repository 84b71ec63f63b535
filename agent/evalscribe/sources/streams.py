"""Read JSON and XML piece by piece, so that a file can have any length."""

import codecs
import json
import math
import re
from collections.abc import Collection, Iterator
from typing import NamedTuple
from xml.parsers import expat

from evalscribe.errors import DataError
from evalscribe.json_data import clean_text
from evalscribe.sources.files import CHUNK_BYTES, FileReader, read_lines

# ijson is not used because version 3.6 is no faster (43 MB in 0.40 s of CPU, here 0.39 s), and because it refuses input
# that this module reads: NaN and Infinity, line breaks in strings, UTF-16, a byte order mark, and invalid UTF-8. Its C
# backend crashes the process with a segmentation fault on a number of 5,000 digits. Its Python backend takes 10.4 s for
# the same 43 MB.


MAX_VALUE_CHARS = 128 * 1024 * 1024
"""Maximum number of characters in one JSON value."""
# Integers of 18 digits fit into 64 bits, which is what databases store. Longer ones stay text, so that no digit is
# lost.
MAX_INT_DIGITS = 18
_SPACE = re.compile(r"[ \t\r\n]*")
_CUT = 16
"""Length, in characters, of the last part of the text read so far. A parse error in this part is not final.

Such an error might only mean that more text must be read.
"""


def _parse_int(digits: str) -> int | str:
    return int(digits) if len(digits) <= MAX_INT_DIGITS else digits


def _real(digits: str) -> float | str:
    number = float(digits)
    # JSON cannot represent infinity, so `1e999` stays text.
    return number if math.isfinite(number) else digits


# Python's writers produce NaN, and Inspect writes it as the value of an unscored sample. These names stay text. Without
# `strict`, strings can contain line breaks.
DECODER = json.JSONDecoder(parse_int=_parse_int, parse_float=_real, parse_constant=str, strict=False)


def decode_json(text: str) -> object:
    """Parse a text that contains exactly one JSON value. Raises `DataError`, whose message does not quote the text."""
    try:
        return DECODER.decode(text)
    except RecursionError:
        raise DataError("JSON nested too deeply") from None
    except json.JSONDecodeError as error:
        raise DataError(f"invalid JSON: {error.msg} at character {error.pos + 1}") from None


class JsonLine(NamedTuple):
    number: int
    """Number of the line, counted from 1. Blank lines are counted too."""
    value: dict[str, object] | None
    """JSON object of the line. None if the line is too long or invalid, or contains a different kind of value."""
    problem: str
    """Reason why `value` is None; empty if `value` is an object."""
    characters: int
    ended: bool
    """True if the line has a line end. The last line of a file can lack a line end."""


def json_lines(reading: FileReader) -> Iterator[JsonLine]:
    """Yield each line of a file that has one JSON object per line. Blank lines are left out.

    Raises the same errors as `FileReader`.
    """
    for number, text, ended in read_lines(reading):
        if text is None:
            yield JsonLine(number, None, "it is too long", 0, ended)
            continue
        value, problem = None, "it is not an object"
        try:
            value = decode_json(text)
        except DataError as error:
            problem = str(error)
        line = value if isinstance(value, dict) else None
        yield JsonLine(number, line, "" if line is not None else problem, len(text), ended)


class JsonStream:
    """The JSON text of a file. The file is read only once, from beginning to end."""

    def __init__(
        self, reading: FileReader, where: str, decoder: json.JSONDecoder = DECODER, largest: int | None = None
    ) -> None:
        """Store the arguments. If `largest` is given, it replaces `MAX_VALUE_CHARS` as the maximum size of a value."""
        self._reading = reading
        self._where = where
        self._values = decoder
        self._largest = largest or MAX_VALUE_CHARS
        first = reading.read()
        wide = first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        self._decoder = codecs.getincrementaldecoder("utf-16" if wide else "utf-8-sig")(errors="replace")
        self._text = self._decoder.decode(first)
        self._at = 0
        self._lines = 0
        """Number of line ends before the start of `_text`."""
        self._column = 0
        """Number of characters in the current line before the start of `_text`."""
        self._ended = not first

    def peek(self) -> str:
        """Return the next non-whitespace character without consuming it; empty at the end of the file."""
        while True:
            space = _SPACE.match(self._text, self._at)
            self._at = space.end() if space else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def value(self) -> object:
        """Return the next JSON value. Raises `DataError`, whose message states the location."""
        self.peek()
        while True:
            try:
                value, end = self._values.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                # The text is doubled each time. With equal pieces, parsing a long value would take quadratic time.
                if not (self._may_go_on(error) and self._more(len(self._text) - self._at)):
                    raise self.wrong(f"invalid JSON: {error.msg}", error.pos) from None
                continue
            except RecursionError:
                raise self.wrong("JSON nested too deeply") from None
            if end == len(self._text) and self._more():
                # The rest of a number might follow.
                continue
            self._at = end
            return value

    def elements(self) -> Iterator[object]:
        """Yield the elements of the list that begins at the current position.

        Each element is read only when it is requested.
        """
        for _ in self.places():
            yield self.value()

    def places(self) -> Iterator[None]:
        """Yield once before each element of the list that begins at the current position.

        The caller must then read or skip the element.
        """
        self._take("[")
        if self.peek() == "]":
            self._take("]")
            return
        while True:
            yield
            if self._take(",]") == "]":
                return

    def names(self) -> Iterator[str]:
        """Yield the keys of the object that begins at the current position.

        After each key, the caller must read or skip the value.
        """
        self._take("{")
        if self.peek() == "}":
            self._take("}")
            return
        while True:
            name = self.value()
            if not isinstance(name, str):
                raise self.wrong("expected a name")
            self._take(":")
            yield name
            if self._take(",}") == "}":
                return

    def members(
        self, lists: Collection[str], inside: Collection[str] = (), unread: Collection[str] = ()
    ) -> Iterator[tuple[str, object]]:
        """Yield the key and value of each member of the object that begins at the current position.

        Args:
            lists: Keys of lists whose elements are yielded one by one.
            inside: Keys of objects whose members are yielded in place of the object.
            unread: Keys of members that are skipped.
        """
        for name in self.names():
            following = self.peek()
            if name in lists and following == "[":
                for element in self.elements():
                    yield name, element
            elif name in inside and following == "{":
                yield from self.members(lists, (), unread)
            elif name in unread:
                self.skip()
            else:
                yield name, self.value()

    def skip(self, levels: int = 3) -> None:
        """Skip the next value.

        Lists and objects in the value are read piece by piece down to `levels` levels of nesting, because they can be
        long.
        """
        following = self.peek() if levels else ""
        if following == "[":
            for _ in self.places():
                self.skip(levels - 1)
        elif following == "{":
            for _ in self.names():
                self.skip(levels - 1)
        else:
            self.value()

    def end(self) -> None:
        """Check that nothing follows at the end of the JSON text. Raises `DataError` if there is more content."""
        if self.peek():
            raise self.wrong("unexpected content after the end")

    def wrong(self, problem: str, at: int | None = None) -> DataError:
        lines, column = self._position(self._at if at is None else at)
        return DataError(f"{self._where}: {problem} at line {lines + 1:,}, column {column + 1:,}")

    def _position(self, at: int) -> tuple[int, int]:
        lines = self._text.count("\n", 0, at)
        column = at - self._text.rfind("\n", 0, at) - 1 if lines else self._column + at
        return self._lines + lines, column

    def _may_go_on(self, error: json.JSONDecodeError) -> bool:
        # The position of this error is the start of the string, which can be far from the end of the text. Any other
        # error far from the end stays an error, so a file with a mistake is not read into memory as a whole.
        return error.msg.startswith("Unterminated string") or error.pos >= len(self._text) - _CUT

    def _take(self, expected: str) -> str:
        character = self.peek()
        if not character or character not in expected:
            raise self.wrong(f"expected {' or '.join(map(repr, expected))}")
        self._at += 1
        return character

    def _more(self, least: int = 0) -> bool:
        """Read at least `least` more characters. Returns False at the end of the file."""
        if self._ended:
            return False
        self._lines, self._column = self._position(self._at)
        pieces, size = [self._text[self._at :]], 0
        self._at = 0
        while size < max(CHUNK_BYTES, least) and not self._ended:
            piece = self._reading.read()
            self._ended = not piece
            pieces.append(self._decoder.decode(piece, final=self._ended))
            size += len(pieces[-1])
        self._text = "".join(pieces)
        if len(self._text) > self._largest:
            raise self.wrong(f"a value is longer than {self._largest // 1024 // 1024} million characters")
        return True


MAX_XML_DEPTH = 50
MAX_XML_TEXT = 16 * 1024 * 1024
"""Maximum number of characters in the text of one XML element."""


class StartTag(NamedTuple):
    tag: str
    attributes: dict[str, str]


class EndTag(NamedTuple):
    tag: str
    text: str
    """Text directly inside the element, without the text of its child elements."""


def read_xml(reading: FileReader, where: str) -> Iterator[StartTag | EndTag]:
    """Yield the tags of an XML file.

    If the file is invalid or unsafe, raises `DataError` with the line number.
    """
    handler = _Handler(where)
    try:
        while piece := reading.read():
            handler.parser.Parse(piece, False)
            yield from handler.take_events()
        handler.parser.Parse(b"", True)
    except expat.ExpatError as error:
        # The tags before a mistake are still yielded, so that the readable part of a file is used.
        yield from handler.take_events()
        message = expat.ErrorString(error.code)
        raise DataError(f"{where}: invalid XML at line {error.lineno}, column {error.offset + 1}: {message}") from None
    yield from handler.take_events()


class _Handler:
    def __init__(self, where: str) -> None:
        self._where = where
        self._events: list[StartTag | EndTag] = []
        self._texts: list[list[str]] = []
        self._sizes: list[int] = []
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        # Nested entities can expand a few hundred bytes to gigabytes.
        self.parser.StartDoctypeDeclHandler = self._refuse
        self.parser.EntityDeclHandler = self._refuse

    def take_events(self) -> list[StartTag | EndTag]:
        events, self._events = self._events, []
        return events

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if len(self._texts) >= MAX_XML_DEPTH:
            raise self._wrong("elements are nested too deeply")
        self._texts.append([])
        self._sizes.append(0)
        self._events.append(StartTag(tag, {clean_text(key): clean_text(value) for key, value in attributes.items()}))

    def _text(self, text: str) -> None:
        # Counted for each open element, because its text can continue after the end of a child.
        self._sizes[-1] += len(text)
        if self._sizes[-1] > MAX_XML_TEXT:
            raise self._wrong("the text of an element is too long")
        self._texts[-1].append(text)

    def _end(self, tag: str) -> None:
        self._sizes.pop()
        self._events.append(EndTag(tag, clean_text("".join(self._texts.pop()))))

    def _refuse(self, *_: object) -> None:
        raise self._wrong("a document type or entity is declared, which test reports do not need")

    def _wrong(self, problem: str) -> DataError:
        return DataError(f"{self._where}: {problem} at line {self.parser.CurrentLineNumber}")
