"""Read the beginning of a file or folder, from which its format is recognised."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from evalscribe.errors import AccessError, DataError, NotFoundError
from evalscribe.model.record import Records
from evalscribe.sources.address import RunOverrides
from evalscribe.sources.files import ZIP_MAGIC, FileReader, first_line, is_folder, open_members
from evalscribe.sources.streams import JsonStream, StartTag, decode_json, read_xml

MAX_NAMES = 64
"""Maximum names of an object that are read."""
BEGINNING_BYTES = 16 * 1024 * 1024
"""Bytes of a file that are searched for the names of an object."""
MAX_ENTRIES = 10_000
"""Maximum entries of a folder that are listed."""
MAX_SCALAR = 200
SQLITE_MAGIC = b"SQLite format 3\0"


class FileStart:
    """The beginning of a file: its kind, and the names of the first object in it."""

    def __init__(self, path: Path) -> None:
        """Read the beginning. Raises the errors of `FileReader`."""
        self.path = path
        with FileReader(path) as reading:
            self.bytes = reading.read(4096)
        self.character = "" if self.is_zip or self.is_sqlite else self._character()
        """The first character that is not white space."""

    @property
    def is_zip(self) -> bool:
        return self.bytes.startswith(ZIP_MAGIC)

    @property
    def is_sqlite(self) -> bool:
        return self.bytes.startswith(SQLITE_MAGIC)

    def _character(self) -> str:
        with FileReader(self.path) as reading:
            return JsonStream(reading, str(self.path)).peek()

    @cached_property
    def members(self) -> tuple[str, ...]:
        """The names of a zip file's members; empty for other files. Raises `DataError` if it is damaged."""
        if not self.is_zip:
            return ()
        with closing(open_members(self.path)) as members:
            return tuple(members.names)

    @cached_property
    def root(self) -> str:
        """The root element of an XML file; empty for other files. Raises `DataError` if it is not XML."""
        if self.character != "<":
            return ""
        with FileReader(self.path) as reading:
            root = next(read_xml(reading, str(self.path)), None)
        return root.tag if isinstance(root, StartTag) else ""

    @cached_property
    def top(self) -> Mapping[str, object]:
        """The top-level names of a JSON object with their values; None for values that are long, lists or objects."""
        if self.character != "{":
            return {}
        members: dict[str, object] = {}
        with FileReader(self.path, BEGINNING_BYTES) as reading, suppress(DataError):
            text = JsonStream(reading, str(self.path))
            for name in text.names():
                members[name] = None
                if len(members) == MAX_NAMES:
                    break
                if text.peek() in "[{":
                    text.skip()
                else:
                    value = text.value()
                    members[name] = value if not isinstance(value, str) or len(value) <= MAX_SCALAR else None
        return members

    @cached_property
    def line(self) -> Mapping[str, object] | None:
        """The object on the first line, if the file has one object per line; None for other files."""
        if self.character != "{":
            return None
        with suppress(DataError):
            value = decode_json(first_line(self.path) or "")
            return value if isinstance(value, dict) else None
        return None

    @cached_property
    def element(self) -> object:
        """The first element of a JSON list; None for other files and empty lists. Raises `DataError`."""
        if self.character != "[":
            return None
        with FileReader(self.path) as reading:
            return next(JsonStream(reading, str(self.path)).elements(), None)

    @property
    def first(self) -> Mapping[str, object]:
        """The first object of the file: its first line, the first element of its list, or the whole file."""
        if self.character == "[":
            with suppress(DataError):
                return self.element if isinstance(self.element, dict) else {}
            return {}
        return self.line or self.top


class FolderStart:
    """The names of a folder's entries, and of its subfolders' entries."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(name for name, _ in zip(self._names(self.path), range(MAX_ENTRIES), strict=False))

    def _names(self, path: Path) -> Iterator[str]:
        with suppress(OSError):
            for entry in path.iterdir():
                yield entry.name

    @cached_property
    def folders(self) -> tuple["FolderStart", ...]:
        """Subfolders of the folder by name, excluding links and hidden folders."""
        paths = (self.path / name for name in sorted(self.names) if not name.startswith("."))
        return tuple(FolderStart(path) for path in paths if is_folder(path))

    def object_in(self, name: str) -> Mapping[str, object]:
        """Read the JSON object in a file of the folder; empty if there is none."""
        if name not in self.names or (self.path / name).is_symlink():
            return {}
        with suppress(DataError, AccessError, NotFoundError), FileReader(self.path / name, BEGINNING_BYTES) as reading:
            value = JsonStream(reading, name).value()
            return value if isinstance(value, dict) else {}
        return {}

    def top_of(self, name: str) -> Mapping[str, object]:
        """Return `FileStart.top` of a file of the folder; empty if there is none."""
        if name not in self.names or (self.path / name).is_symlink():
            return {}
        with suppress(Exception):
            return FileStart(self.path / name).top
        return {}


class Format(NamedTuple):
    """A format of runs: how it is recognised and read, and what its fields become."""

    name: str
    """The name that `import` prints, such as `tau-bench`."""
    title: str
    """The name in messages and the documentation."""
    open: Callable[[Path, RunOverrides], Records]
    recognise: Callable[[FileStart, RunOverrides], str | None] = lambda _start, _overrides: None
    """Return the feature by which a file is recognised, as messages state it; None if it has another format."""
    recognise_folder: Callable[[FolderStart], str | None] = lambda _start: None
    """Return the same for a folder that is read as a whole; None if the folder has another format."""
    forms: tuple[str, ...] = ()
    """Other names that readers of this format print: `csv`, `jsonl`."""
    a_run: str = "the file"
    """What one run is in this format, such as `the file`."""
    an_eval: str = ""
    """What one eval is in this format."""
    passed: str = ""
    """When an eval counts as passed."""
    versions: str = ""
    """Versions of the tool or format with which real files were tested; empty if it has no versions."""
    used: frozenset[str] = frozenset()
    """The import options that apply: any of `map`, `threshold`, `tasks` and `reference_run`."""
    names: tuple[str, ...] = ()
    """Typical top-level names of the format's objects; the error for an unknown file lists formats with its names."""
    fields: Mapping[str, str] = {}
    """What each source field becomes, for the docs: `{"reward": "score; passed from 1"}`."""


def has(fields: Mapping[str, object], *names: str) -> str | None:
    """Return "it has `a`, `b` and `c`" if an object has all the names; None otherwise."""
    if not fields.keys() >= set(names):
        return None
    *head, last = (f"`{name}`" for name in names)
    return f"it has {', '.join(head)} and {last}" if head else f"it has {last}"
