"""Members of a zip file, each read whole and bounded. Nothing is unpacked into a folder, so no name leads anywhere.

A file that was cut off has lost the list of its members: they are found one after the other then, as far as it goes.
"""

import os
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

import zstandard

from evalscribe.errors import DataError, EvalscribeError
from evalscribe.sources.imports.reading import open_regular, read_errors

MAGIC = b"PK\x03\x04"
LARGEST = 128 * 1024 * 1024
"""Bytes of one member, unpacked."""
TIGHTEST = 200
"""How many times smaller than its content a large member may be: text never is."""
LOOSE = 16 * 1024 * 1024
"""Members up to this size may be packed as tightly as they like."""
ZSTANDARD = 93
_LOCAL = struct.Struct("<4s5H3L2H")
_STREAMED = 8


class ZipMembers(Protocol):
    torn: bool
    """Whether the file was cut off."""
    names: tuple[str, ...]
    """In the file's order; of equal ones the last counts."""

    def read(self, name: str) -> bytes:
        """Raises `DataError` for a member that cannot be read."""

    def close(self) -> None: ...


def open_members(path: Path) -> ZipMembers:
    """Raises `DataError` where not even one member can be found."""
    file = open_regular(path)
    try:
        return _Whole(zipfile.ZipFile(file), file)
    except (zipfile.BadZipFile, NotImplementedError, struct.error, OSError, ValueError):
        return _Torn(path, file)


class _Whole:
    torn = False

    def __init__(self, archive: zipfile.ZipFile, file: BinaryIO) -> None:
        self._archive = archive
        self._file = file
        self.names = tuple(dict.fromkeys(archive.namelist()))

    def read(self, name: str) -> bytes:
        info = self._archive.getinfo(name)
        _check(info.compress_size, info.file_size)
        try:
            content = self._unpacked(info)
        except NotImplementedError:
            raise DataError("a member that is packed or locked in a way that is not understood") from None
        except Exception:  # Each way of packing has errors of its own.
            raise DataError("a member that is damaged") from None
        _check(info.compress_size, len(content))
        return content

    def _unpacked(self, info: zipfile.ZipInfo) -> bytes:
        if info.compress_type == ZSTANDARD:
            return _with_zstandard(self._file, info)
        with self._archive.open(info) as member:
            return member.read(LARGEST + 1)

    def close(self) -> None:
        self._archive.close()
        self._file.close()


class _Place(NamedTuple):
    start: int
    packed: int
    method: int


class _Torn:
    torn = True

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._file = file
        with read_errors(path):
            self._places: Mapping[str, _Place] = dict(_found(file))
        self.names = tuple(self._places)
        if not self.names:
            file.close()
            raise DataError(f"{path} is a zip file that is damaged")

    def read(self, name: str) -> bytes:
        place = self._places[name]
        self._file.seek(place.start)
        packed = self._file.read(place.packed)
        try:
            content = packed if place.method == zipfile.ZIP_STORED else _inflated(packed, place.method)
        except EvalscribeError:
            raise
        except Exception:  # Each way of packing has errors of its own.
            raise DataError("a member that is damaged") from None
        _check(place.packed, len(content))
        return content

    def close(self) -> None:
        self._file.close()


def _found(file: BinaryIO) -> list[tuple[str, _Place]]:
    """Members whose whole content is there, by the headers that stand before each."""
    size = file.seek(0, 2)
    at, found = 0, []
    while at + _LOCAL.size <= size:
        file.seek(at)
        magic, _, flags, method, _, _, _, packed, _, name_length, extra = _LOCAL.unpack(file.read(_LOCAL.size))
        start = at + _LOCAL.size + name_length + extra
        if magic != MAGIC or flags & _STREAMED or start + packed > size:
            break
        name = file.read(name_length).decode("utf-8", "replace")
        found.append((name, _Place(start, packed, method)))
        at = start + packed
    return found


def _with_zstandard(file: BinaryIO, info: zipfile.ZipInfo) -> bytes:
    """Newer logs are packed so; `zipfile` itself learns it in Python 3.14."""
    file.seek(info.header_offset)
    *_, name_length, extra = _LOCAL.unpack(file.read(_LOCAL.size))
    file.seek(name_length + extra, os.SEEK_CUR)
    content = _inflated(file.read(min(info.compress_size, LARGEST)), ZSTANDARD)
    if zlib.crc32(content) != info.CRC:
        raise zipfile.BadZipFile(info.filename)
    return content


def _inflated(packed: bytes, method: int) -> bytes:
    if method == ZSTANDARD:
        unpacked = zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True)
        return bytes(unpacked.read(LARGEST + 1))
    if method != zipfile.ZIP_DEFLATED:
        raise DataError("a member that is packed in a way that is not understood")
    return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, LARGEST + 1)


def _check(packed: int, whole: int) -> None:
    if whole > LARGEST:
        raise DataError(f"a member larger than {LARGEST // 1024 // 1024} MiB")
    if whole > LOOSE and whole > packed * TIGHTEST:
        raise DataError("a member that is packed more tightly than any text is")
