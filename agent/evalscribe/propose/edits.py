"""A model's edits, applied to the files they mean: a whole patch, or what is wrong with it."""

import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence

from evalscribe.ids import Frozen
from evalscribe.model.repository import Edit, FileChange
from evalscribe.propose.protected import is_unseen
from evalscribe.propose.scope import Scope
from evalscribe.propose.tool_tables import beyond_tools
from evalscribe.redaction.redact import redact

MOST_EDITS = 60
LONGEST_NEW = 100_000
"""Characters that all edits may write together."""
REDACTED = "[redacted:"
FARTHEST = 200
"""Blanks in a row that a line may have; more move what follows out of sight."""

Read = Callable[[str], str | None]
"""The text of a file by its path; None where there is none or it is no text."""


class Refusal(Frozen):
    """Why edits are no patch."""

    problems: tuple[str, ...]
    forbidden: bool = False
    """Whether something is touched that the recommendation does not concern."""


def changes(edits: Sequence[Edit], scope: Scope, read: Read) -> tuple[FileChange, ...] | Refusal:
    """What the edits make of the files, by path; all of them or none."""
    forbidden = dict.fromkeys(f"{e.path!r} is {why}" for e in edits if (why := scope.refusal(e.path)) is not None)
    if forbidden:
        return Refusal(problems=tuple(forbidden), forbidden=True)
    files: dict[str, str] = {}
    problems = tuple(_unfit(edits)) or tuple(filter(None, [_apply(edit, files, read, scope.there) for edit in edits]))
    if problems:
        return Refusal(problems=problems)
    made = tuple(FileChange(path=path, before=read(path), after=after) for path, after in sorted(files.items()))
    beyond = tuple(filter(None, [_beyond(change, scope) for change in made]))
    flaws = tuple(filter(None, map(_flaw, made)))
    return Refusal(problems=beyond or flaws, forbidden=bool(beyond)) if beyond or flaws else made


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
    """The characters that nobody would see in a diff, or that end a line for some programs only."""
    return Counter(one for one in text.replace("\r\n", "\n") if one not in "\n\t" and is_unseen(one))


def _apply(edit: Edit, files: dict[str, str], read: Read, known: Container[str]) -> str | None:
    """Change the file's text in `files`; what is wrong with the edit otherwise. A file that is `known` and cannot be
    read is no text, or too large."""
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
    """The piece with the line ends of the text, which is read without carriage returns."""
    windows = "\r\n" in text and text.count("\r\n") == text.count("\n")
    plain = piece.replace("\r\n", "\n")
    return plain.replace("\n", "\r\n") if windows else plain


def _beyond(change: FileChange, scope: Scope) -> str | None:
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
