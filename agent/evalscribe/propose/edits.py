"""A model's edits, applied to the files they mean: a whole patch, or what is wrong with it."""

import re
from collections.abc import Callable, Iterable, Sequence

from evalscribe.ids import Frozen
from evalscribe.patch import Edit, FileChange
from evalscribe.propose.scope import Scope
from evalscribe.redaction import redact

MOST_EDITS = 60
LONGEST_NEW = 100_000
"""Characters that all edits may write together."""
REDACTED = "[redacted:"
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")

Read = Callable[[str], str | None]
"""The text of a file by its path; None where there is none or it is no text."""


class Refusal(Frozen):
    """Why edits are no patch."""

    problems: tuple[str, ...]
    forbidden: bool = False
    """Whether a path is named that the recommendation does not concern."""


def changes(edits: Sequence[Edit], scope: Scope, read: Read) -> tuple[FileChange, ...] | Refusal:
    """What the edits make of the files, by path; all of them or none."""
    forbidden = dict.fromkeys(f"{e.path!r} is {why}" for e in edits if (why := scope.refusal(e.path)) is not None)
    if forbidden:
        return Refusal(problems=tuple(forbidden), forbidden=True)
    problems = list(_unfit(edits))
    files: dict[str, str] = {}
    if not problems:
        problems = [said for edit in edits if (said := _apply(edit, files, read))]
    made = [FileChange(path=path, before=read(path), after=after) for path, after in sorted(files.items())]
    problems += [] if problems else [said for change in made if (said := _flaw(change))]
    return Refusal(problems=tuple(problems)) if problems else tuple(made)


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
        if unseen := set(_UNSEEN.findall(edit.new)) - {"\r"}:
            yield f"edit {n}: `new` has characters that cannot be seen: {', '.join(map(ascii, sorted(unseen)))}"


def _apply(edit: Edit, files: dict[str, str], read: Read) -> str | None:
    """Change the file's text in `files`; what is wrong with the edit otherwise."""
    there = files[edit.path] if edit.path in files else read(edit.path)
    if not edit.old:
        if there is not None:
            return f"{edit.path}: the file is there; give the text to replace in `old`"
        files[edit.path] = edit.new
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


def _flaw(change: FileChange) -> str | None:
    if change.after == change.before:
        return f"{change.path}: nothing is changed"
    if not change.after.strip():
        return f"{change.path}: nothing would be left of the file; files are not deleted"
    return None
