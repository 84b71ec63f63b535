"""A proposed change to the files of a repository, complete before anything is touched."""

import difflib
import re
from collections.abc import Iterator

from evalscribe.ids import Frozen, content_id

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
"""As git sees lines: nothing else ends one, whatever editors and languages think."""


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
        names = ("/dev/null" if self.before is None else f"a/{self.path}", f"b/{self.path}")
        return "".join(
            _ended(difflib.unified_diff(_LINE.findall(self.before or ""), _LINE.findall(self.after), *names))
        )

    @property
    def shown(self) -> str:
        """The diff as anybody may see it: without the secrets of the lines around what is changed."""
        from evalscribe.redaction import redact  # whoever opens a store knows patches, and few look at one

        before = None if self.before is None else redact(self.before)
        return self.model_copy(update={"before": before, "after": redact(self.after)}).diff

    @property
    def hides(self) -> bool:
        """Whether a line that comes or goes is not shown as it is: it looks like a key, or stands in one."""
        return _changed(self.shown) != _changed(self.diff)

    @property
    def counts(self) -> str:
        """How many lines come and go: `+2 -1`."""
        signs = [line[0] for line in _changed(self.diff)]
        return f"+{signs.count('+')} -{signs.count('-')}"


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
    def shown(self) -> str:
        return "".join(change.shown for change in self.changes)


def _changed(diff: str) -> list[str]:
    """The lines that come or go, without the file's names above them."""
    return [line for line in diff.split("\n")[2:] if line.startswith(("+", "-"))]


def _ended(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
