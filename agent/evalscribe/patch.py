"""A proposed change to the files of a repository, complete before anything is touched."""

import difflib
from collections.abc import Iterator

from evalscribe.ids import Frozen, content_id


class Edit(Frozen):
    """One replacement in one file, as a model submits it."""

    path: str
    """Relative to the repository's root, with `/`."""
    old: str
    """A text that the file has exactly once; empty for a new file."""
    new: str


class Proposal(Frozen):
    """What a model proposes, free of the repository's text but for what it replaces."""

    edits: tuple[Edit, ...]
    summary: str
    """What is changed, in one line."""


class FileChange(Frozen):
    path: str
    """Relative to the repository's root, with `/`."""
    before: str | None
    """The whole text at the commit that the patch is made against; None for a new file."""
    after: str

    @property
    def diff(self) -> str:
        """As `git diff` prints it, without its index line."""
        old = [] if self.before is None else self.before.splitlines(keepends=True)
        names = ("/dev/null" if self.before is None else f"a/{self.path}", f"b/{self.path}")
        return "".join(_ended(difflib.unified_diff(old, self.after.splitlines(keepends=True), *names)))


class Patch(Frozen):
    """What one recommendation would change."""

    run: str
    recommendation: str
    """Its id in the run's report: `R3`."""
    base: str
    """The commit that it is made against."""
    changes: tuple[FileChange, ...]
    summary: str
    """What is changed, in one line; the subject of the commit."""
    judge: str
    """Who proposed it: `anthropic/claude-opus-5-5`."""

    @property
    def digest(self) -> str:
        """What a yes is about."""
        return content_id(self)

    @property
    def diff(self) -> str:
        return "".join(change.diff for change in self.changes)


def _ended(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
