"""Lines of a text file, each bounded."""

import codecs
from collections.abc import Iterator
from pathlib import Path

from evalscribe.sources.imports.reading import Reading

LARGEST = 128 * 1024 * 1024
"""Bytes of a line."""


def lines(reading: Reading) -> Iterator[tuple[int, str | None]]:
    """Each line that is not blank, with its number; None in place of one that is too long to be read."""
    held, number, too_long = bytearray(), 0, False
    while piece := reading.read():
        *ends, rest = piece.split(b"\n")
        for end in ends:
            number += 1
            held += end
            yield from _told(number, held, too_long or len(held) > LARGEST)
            held, too_long = bytearray(), False
        held += rest
        if len(held) > LARGEST:
            held, too_long = bytearray(), True
    yield from _told(number + 1, held, too_long)


def _told(number: int, held: bytearray, too_long: bool) -> Iterator[tuple[int, str | None]]:
    line = bytes(held)
    if number == 1:
        line = line.removeprefix(codecs.BOM_UTF8)
    if too_long:
        yield number, None
    elif line.strip():
        yield number, line.decode("utf-8", "replace")


def first_line(path: Path) -> str | None:
    """The first line that is not blank, None where there is none or it is too long."""
    with Reading(path) as reading:
        return next((line for _, line in lines(reading)), None)
