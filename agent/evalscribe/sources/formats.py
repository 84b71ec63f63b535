"""Recognise the format of a file or folder by its content, and open it."""

import os
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from evalscribe.errors import AccessError, DataError, NotFoundError
from evalscribe.model.record import Records
from evalscribe.sources.address import SUMMARY, RunOverrides
from evalscribe.sources.files import FileReader, first_line
from evalscribe.sources.recognition import FileStart, FolderStart, Format
from evalscribe.sources.streams import JsonStream
from evalscribe.text import cut, join_first, one_line

READERS = (
    "harbor",
    "terminal_bench",
    "atif",
    "claude_code",
    "codex",
    "swebench",
    "lm_eval",
    "every_eval_ever",
    "helm",
    "inspect_log",
    "tau_bench",
    "promptfoo",
    "pydantic_evals",
    "deepeval",
    "otlp",
    "junit",
    "export",
    "agent_runs",
    "results_table",
)
"""Modules of this package that define `FORMATS`.

The first format that recognises a file is used to read it, so specific formats come before general ones.
"""
SUPPORTED = "`evalscribe import --help` lists the formats."
MAX_FOLDER_LEVELS = 100
_DATASET = ("key", "input", "expected_output", "metadata", "split", "cluster")
"""Names of the fields of dataset items.

If a file has these fields, the error says that it is a dataset and contains no runs.
"""
# Text can contain whitespace and the escape character of terminal colours. Other control characters mean a binary file.
_CONTROL = bytes({*range(32)} - {*b"\t\n\f\r\x1b"})


def formats() -> Iterator[Format]:
    """Yield all formats.

    Each reader is imported only when it is needed, so that a caller can stop early without importing all of them.
    """
    for name in READERS:
        # Importing all readers takes about 40 ms of CPU time, which `analyze sample` does not need.
        of_reader: tuple[Format, ...] = import_module(f"{__package__}.{name}").FORMATS
        yield from of_reader


class Recognised(NamedTuple):
    """A format, with the feature by which a file or folder was recognised."""

    format: Format
    feature: str


def recognise(path: Path, overrides: RunOverrides, *, in_folder: bool = False) -> Recognised:
    """Return the format of a file or folder.

    Args:
        path: The file or folder.
        overrides: Options that the user set for the runs in the file.
        in_folder: True if the user named the folder of the file, rather than the file itself. In this case, options
            that do not apply to the file are ignored.

    Raises:
        UsageError: The user set an option that the format does not use.
        NotFoundError: The file does not exist.
        AccessError: There is no permission to read the file.
        DataError: The format is unknown. The message says what the file contains.
    """
    if _is_folder(path):
        if (recognised := recognise_folder(path)) is None:
            raise DataError(f"{path} is a folder of no known format. {SUPPORTED}")
        return _using(recognised, path, overrides, in_folder=in_folder)
    start = FileStart(path)
    if not start.is_zip and not start.is_sqlite and not start.character:
        raise DataError(f"{path} {'is empty' if not start.bytes else 'contains only whitespace'}")
    for format in formats():
        if feature := format.recognise(start, overrides):
            return _using(Recognised(format, feature), path, overrides, in_folder=in_folder)
    raise _unrecognised(start)


def _using(recognised: Recognised, path: Path, overrides: RunOverrides, *, in_folder: bool) -> Recognised:
    if not in_folder:
        overrides.require_used(recognised.format.used, f"{path} is read as {recognised.format.name}")
    return recognised


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        # The path is not valid. `FileReader` raises the error that says so.
        return False


def recognise_folder(path: Path) -> Recognised | None:
    """Return the format of a folder that is read as a whole; None if its files are read individually."""
    start = FolderStart(path)
    for format in formats():
        if feature := format.recognise_folder(start):
            return Recognised(format, feature)
    return None


def open_records(path: Path, overrides: RunOverrides, *, in_folder: bool = False) -> Records:
    """Open the runs in a file or folder. Takes the same arguments and raises the same errors as `recognise`."""
    return recognise(path, overrides, in_folder=in_folder).format.open(path, overrides)


def format_of(name: str) -> Format | None:
    """Return the format that `FileImport.format` names; None if `FileImport.format` is the name of a deployment."""
    return next((format for format in formats() if name in (format.name, *format.forms)), None)


def _unrecognised(start: FileStart) -> DataError:
    """Return the error for a file of unknown format. The message says what the file contains instead of runs."""
    path = start.path
    if start.is_zip:
        return DataError(f"{path} is a zip file but not an Inspect log. {SUPPORTED}")
    if start.is_sqlite:
        return DataError(f"{path} is an SQLite database of no known format. {SUPPORTED}")
    if start.character == "<":
        return DataError(f"{path} is XML but not JUnit: its root is <{cut(one_line(start.root), 40)}>. {SUPPORTED}")
    if start.character == "[":
        first = start.element
        if first is None:
            return DataError(f"{path} contains no runs: it is an empty list")
        if not isinstance(first, dict):
            return DataError(f"{path} contains no runs: it is a list of {_kind(first)}s, not of objects. {SUPPORTED}")
    if start.character in "[{":
        if start.top.keys() >= {"run", "failedEvals"}:
            return DataError(f"{path} is part of a snapshot: give the folder of the snapshot")
        if start.character == "{" and start.line is None:
            with FileReader(path) as reading:
                stream = JsonStream(reading, str(path))
                # Reading further raises the error that states where the file is not valid JSON.
                for _ in stream.names():
                    stream.skip()
                stream.end()
        return DataError(f"{path} contains no runs: {_describe_names(list(start.first))}. {SUPPORTED}")
    if path.suffix in (".yaml", ".yml"):
        return DataError(f"{path} contains no runs: it is YAML. With `-o results.json`, promptfoo writes JSON")
    if start.bytes.translate(None, _CONTROL) != start.bytes:
        return DataError(f"{path} contains no runs: it is binary. {SUPPORTED}")
    line = cut(one_line(first_line(path) or ""), 80)
    return DataError(
        f"{path} contains no runs: it is neither JSON nor XML, and as CSV it has none of the columns input, output, "
        f"expected, score or passed. Its first line: {line!r}. Name other columns with `map` input=NAME. {SUPPORTED}",
        fields=("map",),
    )


def _describe_names(names: Sequence[str]) -> str:
    """Describe the keys of an object of unknown format, and name the formats that have some of the same keys."""
    if not names:
        return "its first object is empty"
    shapes = {format.title: format.names for format in formats() if format.names}
    shapes["a dataset (`evalscribe datasets upload`)"] = _DATASET
    shared = {title: [name for name in shape if name in names] for title, shape in shapes.items()}
    near = sorted((title for title in shared if shared[title]), key=lambda title: -len(shared[title]))[:2]
    listed_names = join_first([f"`{cut(one_line(name), 40)}`" for name in names], 12)
    resembles = [
        f"{title} ({join_first([f'`{name}`' for name in shared[title]], 6)}; "
        f"without {join_first([f'`{name}`' for name in shapes[title] if name not in names], 6)})"
        for title in near
    ]
    return f"its keys are {listed_names}" + (f". It resembles {' and '.join(resembles)}" if resembles else "")


def _kind(value: object) -> str:
    return {str: "text", bool: "boolean", int: "number", float: "number", list: "list"}.get(type(value), "null")


def run_files(path: Path) -> tuple[Path, ...]:
    """Return every file below a folder, sorted by name, except links and hidden files.

    A snapshot counts as one file. So does a folder whose format is read as a whole.

    Raises:
        AccessError: There is no permission to read a folder.
        NotFoundError: The folder contains no files.
        DataError: The folders below `path` are nested too deeply.
    """
    try:
        files = tuple(_below(path, MAX_FOLDER_LEVELS))
    except OSError as error:
        # For example, the path is too long.
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from None
    if not files:
        raise NotFoundError(f"{path} has no files")
    return files


def _below(folder: Path, levels: int) -> list[Path]:
    if not levels:
        raise DataError(f"{cut(str(folder), 200)}: folders are nested more than {MAX_FOLDER_LEVELS} levels deep")
    if (folder / SUMMARY).is_file() or recognise_folder(folder) is not None:
        return [folder]
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except PermissionError:
        raise AccessError(f"no permission to read {folder}") from None
    files: list[Path] = []
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_dir(follow_symlinks=False):
            files += _below(Path(entry.path), levels - 1)
        elif entry.is_file(follow_symlinks=False):
            files.append(Path(entry.path))
    return files
