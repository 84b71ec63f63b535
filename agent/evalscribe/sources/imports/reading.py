"""Files as they are read: regular ones only, unpacked where gzip packed them, with how far the reading is."""

import gzip
import hashlib
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from evalscribe.errors import AccessError, DataError, EvalscribeError, NotFoundError

GZIP = b"\x1f\x8b"
PIECE = 256 * 1024
"""Bytes that are read at once."""


class Reading:
    """One pass over a file. `progress` counts the file's own bytes, packed as they are."""

    def __init__(self, path: Path) -> None:
        """Raises `NotFoundError`, `AccessError`, or `DataError` for what is no regular file."""
        self._path = path
        self._raw = open_regular(path)
        self._size = max(1, os.fstat(self._raw.fileno()).st_size)
        packed = self._raw.read(2) == GZIP
        self._raw.seek(0)
        self._stream: BinaryIO = gzip.GzipFile(fileobj=self._raw) if packed else self._raw  # type: ignore[assignment]
        self._hash = hashlib.sha256()

    @property
    def progress(self) -> float:
        return 1.0 if self._raw.closed else min(1.0, self._raw.tell() / self._size)

    @property
    def digest(self) -> str:
        """Hex digits that name what was read so far, the same however it is packed."""
        return self._hash.hexdigest()

    def read(self, size: int = PIECE) -> bytes:
        """The next bytes, none at the end. Raises `DataError` for what cannot be unpacked."""
        with read_errors(self._path):
            piece = self._stream.read(size)
        self._hash.update(piece)
        return piece

    def close(self) -> None:
        self._stream.close()
        self._raw.close()

    def __enter__(self) -> "Reading":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_regular(path: Path) -> BinaryIO:
    """A regular file, opened to be read; a pipe is not waited for. Raises as `Reading` does."""
    with read_errors(path):
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise DataError(f"{path} is no regular file")
        return os.fdopen(descriptor, "rb", PIECE)


@contextmanager
def read_errors(path: Path) -> Iterator[None]:
    """Every way in which a file cannot be read, as an error that names it."""
    try:
        yield
    except EvalscribeError:
        raise
    except (FileNotFoundError, NotADirectoryError):
        raise NotFoundError(f"there is no file {path}") from None
    except PermissionError:
        raise AccessError(f"{path} may not be read") from None
    except EOFError:
        raise DataError(f"{path} ends in the middle of what gzip packed") from None
    except (zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path} cannot be unpacked: {error}") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise DataError(f"{str(path)!r} can be no file: {error}") from None
