"""Read the beginning of a file or folder, to recognise its format."""

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
"""Maximum number of keys that are read from a JSON object."""
BEGINNING_BYTES = 16 * 1024 * 1024
"""Maximum number of bytes that are read from a file to find the keys of its JSON object."""
MAX_ENTRIES = 10_000
"""Maximum number of entries that are listed in a folder."""
MAX_SCALAR = 200
SQLITE_MAGIC = b"SQLite format 3\0"


class FileStart:
    """The beginning of a file, from which the kind of the file and the keys of its first object can be read."""

    def __init__(self, path: Path) -> None:
        """Read the first bytes of the file. Raises the same errors as `FileReader`."""
        self.path = path
        with FileReader(path) as reading:
            self.bytes = reading.read(4096)
        self.character = "" if self.is_zip or self.is_sqlite else self._character()
        """First non-whitespace character of the file; empty for zip files and SQLite databases."""

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
        """Names of the members of a zip file; empty for other files. Raises `DataError` if the zip file is damaged."""
        if not self.is_zip:
            return ()
        with closing(open_members(self.path)) as members:
            return tuple(members.names)

    @cached_property
    def root(self) -> str:
        """Tag of the root element of an XML file; empty for other files.

        Raises `DataError` if the file is not XML.
        """
        if self.character != "<":
            return ""
        with FileReader(self.path) as reading:
            root = next(read_xml(reading, str(self.path)), None)
        return root.tag if isinstance(root, StartTag) else ""

    @cached_property
    def top(self) -> Mapping[str, object]:
        """Top-level keys of a JSON object, with their values; empty for other files.

        A value that is a list, an object or a long string is replaced by None.
        """
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
        """JSON object on the first line of the file; None if the first line is not a JSON object."""
        if self.character != "{":
            return None
        with suppress(DataError):
            value = decode_json(first_line(self.path) or "")
            return value if isinstance(value, dict) else None
        return None

    @cached_property
    def element(self) -> object:
        """First element of a JSON list; None if the list is empty or the file is not a list.

        Raises `DataError` if the file is not valid JSON.
        """
        if self.character != "[":
            return None
        with FileReader(self.path) as reading:
            return next(JsonStream(reading, str(self.path)).elements(), None)

    @property
    def first(self) -> Mapping[str, object]:
        """First object of the file.

        It is the first element if the file is a list, otherwise the first line or the whole file.
        """
        if self.character == "[":
            with suppress(DataError):
                return self.element if isinstance(self.element, dict) else {}
            return {}
        return self.line or self.top


class FolderStart:
    """Names of the entries in a folder and in its subfolders."""

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
        """The subfolders of the folder, sorted by name. Links and hidden folders are left out."""
        paths = (self.path / name for name in sorted(self.names) if not name.startswith("."))
        return tuple(FolderStart(path) for path in paths if is_folder(path))

    def object_in(self, name: str) -> Mapping[str, object]:
        """Return the JSON object in a file of the folder; empty if there is no such file or object."""
        # A link could lead to a file outside the folder.
        if name not in self.names or (self.path / name).is_symlink():
            return {}
        with suppress(DataError, AccessError, NotFoundError), FileReader(self.path / name, BEGINNING_BYTES) as reading:
            value = JsonStream(reading, name).value()
            return value if isinstance(value, dict) else {}
        return {}

    def top_of(self, name: str) -> Mapping[str, object]:
        """Return `FileStart.top` of a file in the folder; empty if there is no such file or it cannot be read."""
        if name not in self.names or (self.path / name).is_symlink():
            return {}
        with suppress(DataError, AccessError, NotFoundError):
            return FileStart(self.path / name).top
        return {}


class Format(NamedTuple):
    """A format in which runs are stored: how its files are recognised and read, and what becomes of their fields."""

    name: str
    """Name of the format that `import` prints, such as `tau-bench`."""
    title: str
    """Name of the format in messages and in the documentation."""
    open: Callable[[Path, RunOverrides], Records]
    recognise: Callable[[FileStart, RunOverrides], str | None] = lambda _start, _overrides: None
    """Function that returns the feature by which a file is recognised. Messages quote this feature.

    The function returns None if the file has a different format.
    """
    recognise_folder: Callable[[FolderStart], str | None] = lambda _start: None
    """Function like `recognise`, for folders that are read as a whole.

    The function returns None if the folder has a different format.
    """
    forms: tuple[str, ...] = ()
    """Other names under which readers report this format, such as `csv` and `jsonl`."""
    a_run: str = "the file"
    """What a single run is in this format, such as `the file`."""
    an_eval: str = ""
    """What a single eval is in this format, such as `a row`."""
    passed: str = ""
    """Condition under which an eval counts as passed."""
    versions: str = ""
    """Versions of the tool or format with which the reader was tested; empty if there are no versions."""
    used: frozenset[str] = frozenset()
    """Import options that apply to this format: any of `map`, `threshold`, `tasks` and `reference_run`."""
    names: tuple[str, ...] = ()
    """Typical top-level keys of objects in this format.

    The error for a file of unknown format names the formats with which the file shares keys.
    """
    fields: Mapping[str, str] = {}
    """What becomes of each field of the source, such as `{"reward": "score; passed from 1"}`.

    Used for the documentation.
    """


def has(fields: Mapping[str, object], *names: str) -> str | None:
    """Return "it has `a`, `b` and `c`" if an object has all of these keys; None otherwise."""
    if not fields.keys() >= set(names):
        return None
    *head, last = (f"`{name}`" for name in names)
    return f"it has {', '.join(head)} and {last}" if head else f"it has {last}"
