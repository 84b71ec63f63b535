"""Lines of a file of items, as bytes, each bounded."""

import codecs
from collections.abc import Iterator

from evalscribe.errors import DataError
from evalscribe.sources.imports.reading import Reading

LARGEST = 16 * 1024 * 1024
"""Bytes of a line, and so of an item."""
TOO_LONG = f"longer than {LARGEST // 1024 // 1024} MB"


def lines(reading: Reading) -> Iterator[tuple[int, bytes | None]]:
    """Every line with its end and its number; None in place of one that is too long to be read."""
    held, number, too_long = bytearray(), 1, False
    while piece := reading.read():
        *ends, rest = piece.split(b"\n")
        for end in ends:
            held += end
            yield number, None if too_long or len(held) > LARGEST else _line(number, held, b"\n")
            held, too_long, number = bytearray(), False, number + 1
        held += rest
        if len(held) > LARGEST:
            held, too_long = bytearray(), True
    if held or too_long:
        yield number, None if too_long else _line(number, held, b"")


def text(line: bytes | None) -> str:
    """Raises `DataError` for a line that is too long, or no UTF-8."""
    if line is None:
        raise DataError(TOO_LONG)
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise DataError(f"no UTF-8: byte {line[error.start]:#04x} at {error.start + 1}") from None


def _line(number: int, held: bytearray, end: bytes) -> bytes:
    line = bytes(held) + end
    return line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
