"""Apply a model's edits to the files of a commit, or explain why they cannot be applied."""

import configparser
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

from evalscribe.ids import Frozen
from evalscribe.model.repository import Edit, FileChange
from evalscribe.redaction.redact import redact
from evalscribe.reports.propose.scope import PatchScope, holds_secrets, is_unseen

_TOOLS = re.compile(
    r"ruff|mypy|(?:based)?pyright|pylint|flake8|pycodestyle|pep8|autopep8|pydocstyle|isort|black|yapf|bandit|codespell"
    r"|docformatter|pydoclint|refurb|ty|pyrefly|pytest|vulture",
    re.IGNORECASE,
)
_SECTION = re.compile(rf"(?:tool:)?(?:{_TOOLS.pattern})(?:[-.:].*)?", re.IGNORECASE)
Tables = Mapping[str, object]


def beyond_tools(path: str, before: str, after: str) -> bool:
    """Return True if more changes than the tables of such tools, or the file cannot be parsed before or after."""
    name = path.rpartition("/")[2].casefold()
    read = _toml if name == "pyproject.toml" else _ini if name in ("setup.cfg", "tox.ini") else None
    if read is None:
        return False
    try:
        return read(before) != read(after)
    except (tomllib.TOMLDecodeError, configparser.Error, RecursionError):
        return True


def _toml(text: str) -> Tables:
    tables = tomllib.loads(text)
    tools = tables.pop("tool", {})
    rest = {name: of for name, of in tools.items() if not _TOOLS.fullmatch(name)} if isinstance(tools, dict) else tools
    return {**tables, "tool": rest or {}}


def _ini(text: str) -> Tables:
    parser = configparser.RawConfigParser(strict=False)
    parser.read_string(text)
    sections = {name: dict(parser.items(name)) for name in parser.sections() if not _SECTION.fullmatch(name)}
    return {**sections, parser.default_section: dict(parser.defaults())}


MOST_EDITS = 60
LONGEST_NEW = 100_000
"""Maximum characters that all edits may write together."""
REDACTED = "[redacted:"
FARTHEST = 200
"""Maximum consecutive blanks in a line; more would move what follows out of sight."""

ReadFileText = Callable[[str], str | None]
"""Returns the text of a file by its path; None if it does not exist or is not text."""


class EditRefusal(Frozen):
    """The reason why edits do not form a patch."""

    problems: tuple[str, ...]
    forbidden: bool = False
    """True if an edit touches something that the recommendation does not concern."""


def apply_edits(edits: Sequence[Edit], scope: PatchScope, read: ReadFileText) -> tuple[FileChange, ...] | EditRefusal:
    """Apply all edits or none; return the changed files by path."""
    forbidden = dict.fromkeys(f"{e.path!r} is {why}" for e in edits if (why := scope.refusal(e.path)) is not None)
    if forbidden:
        return EditRefusal(problems=tuple(forbidden), forbidden=True)
    files: dict[str, str] = {}
    problems = tuple(_unfit(edits)) or tuple(filter(None, [_apply(edit, files, read, scope.there) for edit in edits]))
    if problems:
        return EditRefusal(problems=problems)
    made = tuple(FileChange(path=path, before=read(path), after=after) for path, after in sorted(files.items()))
    beyond = tuple(filter(None, [_beyond(change, scope) for change in made]))
    flaws = tuple(filter(None, map(_flaw, made)))
    return EditRefusal(problems=beyond or flaws, forbidden=bool(beyond)) if beyond or flaws else made


def _unfit(edits: Sequence[Edit]) -> Iterable[str]:
    if not edits:
        yield "there is no edit"
    if len(edits) > MOST_EDITS or sum(len(edit.new) for edit in edits) > LONGEST_NEW:
        yield f"too much at once: at most {MOST_EDITS} edits and {LONGEST_NEW:,} characters"
    for n, edit in enumerate(edits, 1):
        if REDACTED in edit.old or REDACTED in edit.new:
            yield f"edit {n}: what is redacted is not what the file says; leave such lines alone"
        elif redact(edit.new) != edit.new:
            yield f"edit {n}: `new` looks like a key or a password; a patch has none"
        if unseen := _unseen(edit.new) - _unseen(edit.old):
            yield f"edit {n}: `new` has characters that cannot be seen: {', '.join(map(ascii, sorted(unseen)))}"
        if re.search(rf"[^\S\n]{{{FARTHEST}}}", edit.new):
            yield f"edit {n}: `new` has more than {FARTHEST} blanks in a row"


def _unseen(text: str) -> Counter[str]:
    """Count characters that are invisible in a diff, or that only some programs treat as line ends."""
    return Counter(one for one in text.replace("\r\n", "\n") if one not in "\n\t" and is_unseen(one))


def _apply(edit: Edit, files: dict[str, str], read: ReadFileText, known: Container[str]) -> str | None:
    """Change the file's text in `files`, or return what is wrong with the edit.

    A `known` file that cannot be read is not text or is too large.
    """
    there = files[edit.path] if edit.path in files else read(edit.path)
    if not edit.old:
        if there or (there is None and edit.path in known):
            return f"{edit.path}: the file is there; give the text to replace in `old`"
        files[edit.path] = edit.new.replace("\r\n", "\n")
        return None
    if there is None:
        return f"{edit.path}: there is no such text file; for a new one leave `old` empty"
    old, new = _with_ends_of(there, edit.old), _with_ends_of(there, edit.new)
    times = there.count(old)
    if times != 1:
        return f"{edit.path}: `old` is in the file {times} times; it has to be there exactly once, letter by letter"
    files[edit.path] = there.replace(old, new)
    return None


def _with_ends_of(text: str, piece: str) -> str:
    """Convert the piece to the line ends of the text, which was shown to the model without carriage returns."""
    windows = "\r\n" in text and text.count("\r\n") == text.count("\n")
    plain = piece.replace("\r\n", "\n")
    return plain.replace("\n", "\r\n") if windows else plain


def _beyond(change: FileChange, scope: PatchScope) -> str | None:
    if scope.owns(change.path) or not beyond_tools(change.path, change.before or "", change.after):
        return None
    return f"{change.path}: only the tables of linters, type checkers and formatters may be changed"


def _flaw(change: FileChange) -> str | None:
    if change.after == change.before:
        return f"{change.path}: nothing is changed"
    if not change.after.strip():
        return f"{change.path}: nothing would be left of the file; files are not deleted"
    if change.hides:
        return f"{change.path}: a changed line looks like a key, or stands in one; leave such lines alone"
    return None


LARGEST = 400_000
"""Maximum characters of a file that is shown or changed."""
MOST_SEARCHED = 400
"""Maximum files that one search reads."""


class CommitFiles:
    """The files of a commit, read on demand; nothing outside `paths` is accessible."""

    def __init__(self, paths: Sequence[str], read: ReadFileText) -> None:
        """Store the arguments; `paths` gives the order of listing and searching."""
        self.paths = tuple(path for path in paths if not holds_secrets(path))
        self._known = frozenset(self.paths)
        self._read = read
        self._texts: dict[str, str | None] = {}

    def raw(self, path: str) -> str | None:
        """Return the file's original text, for edits; None if it is too large or not text."""
        text = self._read(path) if path in self._known else None
        return text if text is not None and len(text) <= LARGEST and "\0" not in text else None

    def text(self, path: str) -> str | None:
        """Return the file's text as shown to the model."""
        if path not in self._texts:
            raw = self.raw(path)
            self._texts[path] = None if raw is None else redact(raw.replace("\r\n", "\n"))
        return self._texts[path]

    def below(self, folder: str) -> tuple[str, ...]:
        folder = folder.strip("/")
        return tuple(path for path in self.paths if not folder or path.startswith(f"{folder}/"))

    def hits(self, words: str, paths: Iterable[str]) -> Iterator[tuple[str, int, str]]:
        """Yield path, number and text of each line that contains the words, ignoring case."""
        for path, _ in zip(paths, range(MOST_SEARCHED), strict=False):
            for number, line in enumerate((self.text(path) or "").split("\n"), 1):
                if words.casefold() in line.casefold():
                    yield path, number, line
