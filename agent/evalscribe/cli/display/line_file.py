"""Lines into a file, whole or not at all, or onto standard output."""

import gzip
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from io import TextIOWrapper
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import BinaryIO, TextIO, cast

from evalscribe.cli.display import streams
from evalscribe.errors import write_error

DEVICES = (Path("/dev"), Path("/dev/fd"))


def write(lines: Iterator[str], output: Path | None, *, json: bool = False) -> int:
    """Write lines and return their number. Raises `EvalscribeError` if the file cannot be written.

    `json`: the lines are JSON; in a CI job's log, CI commands in them become JSON escapes, so values stay the same.
    """
    if output is None:
        neutral = json and streams.in_ci() and streams.in_log()
        return _print(map(streams.neutral_json, lines) if neutral else lines, sys.stdout)
    try:
        with output.open("w", encoding="utf-8") if _is_written_into(output) else _replacing(output) as file:
            return _print(lines, file)
    except OSError as error:
        raise write_error(f"cannot write {output}", error) from None


def _print(lines: Iterable[str], file: TextIO) -> int:
    number = 0
    for number, line in enumerate(lines, 1):  # noqa: B007 (the last number is the answer)
        file.write(f"{line}\n")
    return number


def _is_written_into(output: Path) -> bool:
    """A pipe or a device, such as /dev/stdout: no file shall take its place."""
    return output.absolute().parent in DEVICES or (output.exists() and not output.is_file())


def _packing(whole: BinaryIO) -> gzip.GzipFile:
    """Omit the time stamp: gzip has 32 bits for it (until 2106), and equal runs give equal files."""
    return gzip.GzipFile(filename="", mode="wb", fileobj=whole, mtime=0)


@contextmanager
def _replacing(output: Path) -> Iterator[TextIO]:
    """A file beside the wanted one, which takes its place when all is in it."""
    with NamedTemporaryFile(dir=output.absolute().parent, prefix=".part-", delete=False) as raw:
        part = Path(raw.name)
    try:
        packed = output.suffix == ".gz"
        with (
            part.open("wb") as whole,
            _packing(whole) if packed else nullcontext(whole) as stream,
            TextIOWrapper(cast(BinaryIO, stream), encoding="utf-8") as file,
        ):
            yield file
        os.replace(part, output)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
