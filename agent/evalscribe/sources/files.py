"""Read files safely: only regular files, members of gzip and zip files, and lines of limited length."""

import codecs
import gzip
import hashlib
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

import zstandard

from evalscribe.errors import AccessError, DataError, EvalscribeError, NotFoundError

GZIP = b"\x1f\x8b"
MAX_COMPRESSION = 200
"""Maximum compression ratio of a large file or zip member. The compression ratio of real text is lower."""
UNCHECKED_BYTES = 16 * 1024 * 1024
"""Maximum decompressed size, in bytes, of a file or zip member whose compression ratio is not checked."""
CHUNK_BYTES = 256 * 1024
"""Number of bytes read at once."""


class FileReader:
    """Reads a file once, from beginning to end.

    `progress` is measured in bytes of the file itself, before decompression.
    """

    def __init__(self, path: Path, limit: int | None = None) -> None:
        """Open the file. If `limit` is set, reading ends after that many decompressed bytes.

        Raises:
            NotFoundError: The file does not exist.
            AccessError: There is no permission to read the file.
            DataError: The path is not a regular file.
        """
        self._path = path
        self._raw = open_regular(path)
        self._size = max(1, os.fstat(self._raw.fileno()).st_size)
        packed = self._raw.read(2) == GZIP
        self._raw.seek(0)
        self._stream: BinaryIO = gzip.GzipFile(fileobj=self._raw) if packed else self._raw  # type: ignore[assignment]
        self._hash = hashlib.sha256()
        self._remaining = limit
        self.bytes = 0
        """Number of bytes read so far, after decompression."""

    @property
    def progress(self) -> float:
        return 1.0 if self._raw.closed else min(1.0, self._raw.tell() / self._size)

    @property
    def digest(self) -> str:
        """Return a hex digest of the decompressed content that has been read so far.

        The digest is therefore the same for a compressed and an uncompressed file.
        """
        return self._hash.hexdigest()

    def read(self, size: int = CHUNK_BYTES) -> bytes:
        """Return the next bytes of the file; empty at the end. Raises `DataError` if decompression fails."""
        with read_errors(self._path):
            piece = self._stream.read(size if self._remaining is None else min(size, self._remaining))
        self.bytes += len(piece)
        if self.bytes > UNCHECKED_BYTES and self.bytes > self._size * MAX_COMPRESSION:
            raise DataError(
                f"{self._path} was not read: it is compressed by a factor above {MAX_COMPRESSION}, unlike real text"
            )
        if self._remaining is not None:
            self._remaining -= len(piece)
        self._hash.update(piece)
        return piece

    def close(self) -> None:
        self._stream.close()
        self._raw.close()

    def __enter__(self) -> "FileReader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading. Does not block if the path is a pipe.

    Raises the same errors as `FileReader`.
    """
    with read_errors(path):
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        # The open file is checked, not the path, because the path can be replaced between the check and the opening.
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise DataError(f"{path} is not a regular file")
        return os.fdopen(descriptor, "rb", CHUNK_BYTES)


@contextmanager
def read_errors(path: Path) -> Iterator[None]:
    """Convert each error that occurs during reading to an error that names the file."""
    try:
        yield
    except EvalscribeError:
        raise
    except (FileNotFoundError, NotADirectoryError):
        raise NotFoundError(f"file {path} not found") from None
    except PermissionError:
        raise AccessError(f"no permission to read {path}") from None
    except EOFError:
        raise DataError(f"{path} ends in the middle of gzip data") from None
    except (zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path} cannot be decompressed: {error}") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        # The path contains NUL.
        raise DataError(f"{str(path)!r} cannot be a file: {error}") from None


def file_below(folder: Path, *names: str) -> Path | None:
    """Return the regular file at the path `names` below a folder, without following links; None if there is none.

    The names can come from an untrusted source. The result is also None if a name could lead out of the folder, such as
    `..`.
    """
    path = folder
    try:
        for name in names:
            path = path / name
            if not is_entry(name) or path.is_symlink():
                return None
        return path if path.is_file() else None
    except (OSError, ValueError):
        # The name is too long for a file, or contains NUL.
        return None


def is_folder(path: Path) -> bool:
    """Return whether a path is a folder rather than a link to one. Returns False if the path is too long."""
    try:
        return path.is_dir() and not path.is_symlink()
    except OSError:
        return False


def is_entry(name: str) -> bool:
    """Return whether a text can be the name of an entry directly in a folder. A path such as `../a` cannot be one."""
    return bool(name) and name not in (".", "..") and not any(character in name for character in "/\\\0")


def folders_in(folder: Path, most: int) -> list[Path]:
    """Return the first `most` subfolders in alphabetical order. Links and hidden folders are left out."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(
                entry.name for entry in entries if entry.is_dir(follow_symlinks=False) and entry.name[0] != "."
            )
    except OSError:
        return []
    return [folder / name for name in names[:most]]


MAX_LINE_BYTES = 128 * 1024 * 1024
"""Maximum number of bytes in a line."""


def read_lines(reading: FileReader) -> Iterator[tuple[int, str | None, bool]]:
    """Yield the number and text of each non-blank line, and whether the line has a line end.

    The text of a line that is too long is None.
    """
    buffer, number, too_long = bytearray(), 0, False
    while piece := reading.read():
        *ends, rest = piece.split(b"\n")
        for end in ends:
            number += 1
            buffer += end
            yield from _decoded_line(number, buffer, too_long or len(buffer) > MAX_LINE_BYTES, ended=True)
            buffer, too_long = bytearray(), False
        buffer += rest
        if len(buffer) > MAX_LINE_BYTES:
            buffer, too_long = bytearray(), True
    yield from _decoded_line(number + 1, buffer, too_long, ended=False)


def _decoded_line(
    number: int, content: bytearray, too_long: bool, *, ended: bool
) -> Iterator[tuple[int, str | None, bool]]:
    line = bytes(content)
    if number == 1:
        line = line.removeprefix(codecs.BOM_UTF8)
    if too_long:
        yield number, None, ended
    elif line.strip():
        yield number, line.decode("utf-8", "replace"), ended


def first_line(path: Path) -> str | None:
    """Return the first non-blank line of a file.

    Returns None if there is no such line, or if the line is too long.
    """
    with FileReader(path, MAX_LINE_BYTES + CHUNK_BYTES) as reading:
        return next((line for _, line, _ in read_lines(reading)), None)


ZIP_MAGIC = b"PK\x03\x04"
MAX_MEMBER_BYTES = 128 * 1024 * 1024
"""Maximum number of bytes in one member of an archive, after decompression."""
ZSTANDARD = 93
_LOCAL = struct.Struct("<4s5H3L2H")
# In a member with this flag, the sizes come after the data, so the next header cannot be found.
_STREAMED = 8


def open_members(path: Path) -> "WholeZip | TornZip":
    """Open a zip file for reading its members. Raises `DataError` if no member can be read."""
    file = open_regular(path)
    try:
        # A file that was cut off lacks the directory at its end, but each member has a header of its own.
        return WholeZip(zipfile.ZipFile(file), file)
    except (zipfile.BadZipFile, NotImplementedError, struct.error, OSError, ValueError):
        return TornZip(path, file)


class WholeZip:
    torn = False

    def __init__(self, archive: zipfile.ZipFile, file: BinaryIO) -> None:
        self._archive = archive
        self._file = file
        # An archive can contain a name twice. `getinfo` then returns the last member.
        self.names = tuple(dict.fromkeys(archive.namelist()))

    def read(self, name: str) -> bytes:
        info = self._archive.getinfo(name)
        _check(info.compress_size, info.file_size)
        try:
            content = self._unpacked(info)
        except NotImplementedError:
            raise DataError("a member with unsupported compression or encryption") from None
        except Exception:
            # Each compression method raises its own errors.
            raise DataError("a member that is damaged") from None
        # The sizes that the directory of the archive states can be false.
        _check(info.compress_size, len(content))
        return content

    def _unpacked(self, info: zipfile.ZipInfo) -> bytes:
        if info.compress_type == ZSTANDARD:
            return _with_zstandard(self._file, info)
        with self._archive.open(info) as member:
            return member.read(MAX_MEMBER_BYTES + 1)

    def close(self) -> None:
        self._archive.close()
        self._file.close()


class _Place(NamedTuple):
    start: int
    packed: int
    method: int


class TornZip:
    torn = True

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._file = file
        with read_errors(path):
            self._places: Mapping[str, _Place] = dict(_zip_members(file))
        self.names = tuple(self._places)
        if not self.names:
            file.close()
            raise DataError(f"{path} is a damaged zip file")

    def read(self, name: str) -> bytes:
        place = self._places[name]
        self._file.seek(place.start)
        packed = self._file.read(place.packed)
        try:
            content = packed if place.method == zipfile.ZIP_STORED else _inflated(packed, place.method)
        except EvalscribeError:
            raise
        except Exception:
            # Each compression method raises its own errors.
            raise DataError("a member that is damaged") from None
        _check(place.packed, len(content))
        return content

    def close(self) -> None:
        self._file.close()


def _zip_members(file: BinaryIO) -> list[tuple[str, _Place]]:
    """Find the complete members of a damaged zip file by the headers that precede them."""
    size = file.seek(0, 2)
    at, members = 0, []
    while at + _LOCAL.size <= size:
        file.seek(at)
        magic, _, flags, method, _, _, _, packed, _, name_length, extra = _LOCAL.unpack(file.read(_LOCAL.size))
        start = at + _LOCAL.size + name_length + extra
        if magic != ZIP_MAGIC or flags & _STREAMED or start + packed > size:
            break
        name = file.read(name_length).decode("utf-8", "replace")
        members.append((name, _Place(start, packed, method)))
        at = start + packed
    return members


def _with_zstandard(file: BinaryIO, info: zipfile.ZipInfo) -> bytes:
    """Read a member that is compressed with Zstandard, as in newer Inspect logs.

    Python's `zipfile` supports Zstandard only from version 3.14.
    """
    file.seek(info.header_offset)
    *_, name_length, extra = _LOCAL.unpack(file.read(_LOCAL.size))
    file.seek(name_length + extra, os.SEEK_CUR)
    content = _inflated(file.read(min(info.compress_size, MAX_MEMBER_BYTES)), ZSTANDARD)
    # `zipfile` checks this sum only for members that it decompresses itself.
    if zlib.crc32(content) != info.CRC:
        raise zipfile.BadZipFile(info.filename)
    return content


def _inflated(packed: bytes, method: int) -> bytes:
    if method == ZSTANDARD:
        # The limit on the result protects against a small member that expands to gigabytes.
        unpacked = zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True)
        return bytes(unpacked.read(MAX_MEMBER_BYTES + 1))
    if method != zipfile.ZIP_DEFLATED:
        raise DataError("a member with unsupported compression")
    # A negative window size means raw deflate data, because members of a zip file have no zlib header.
    return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, MAX_MEMBER_BYTES + 1)


def _check(packed: int, size: int) -> None:
    if size > MAX_MEMBER_BYTES:
        raise DataError(f"a member larger than {MAX_MEMBER_BYTES // 1024 // 1024} MiB")
    if size > UNCHECKED_BYTES and size > packed * MAX_COMPRESSION:
        raise DataError(f"a member compressed by a factor above {MAX_COMPRESSION}, unlike real text")
