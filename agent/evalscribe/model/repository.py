"""Report files, commits, branches, pull requests and proposed patches."""

import difflib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from evalscribe.ids import Frozen, content_id

MAX_REPORT_BYTES = 16 * 1024 * 1024
"""Bytes; no report is larger, and what is larger is not read."""
_FRONT = re.compile(r"\ufeff?---\r?\n(?:(?!---\r?\n).*\n){0,40}?kind:[ \t]*[\"']?evalscribe-([a-z]+/?)")


LABELS_PAGE = "labels.md"
"""Page in the root of the reports folder that defines the labels; it is not a report."""


def is_report(path: str) -> bool:
    """Whether a path below the reports folder, with `/`, is a report's by its name."""
    return path != LABELS_PAGE and path.endswith(".md") and not any(part.startswith(".") for part in path.split("/"))


_WITH_DATA = re.compile(r"\ufeff?---[ \t]*(?:\r\n?|\n)kind:[ \t]*evalscribe-report/2\b")


def has_data(text: str) -> bool:
    """Whether a page says that its data is in a file beside it."""
    return _WITH_DATA.match(text) is not None


def data_name(page: str) -> str:
    """Return the name of the file with a page's data: the page's, ending in `.json`."""
    return f"{page.removesuffix('.md')}.json"


def is_of_another_kind(text: str) -> bool:
    """Whether a document of ours says that it is no report: a comparison, an exploration."""
    front = _FRONT.match(text)
    return front is not None and not front[1].startswith("report/")


class StoredReport(Frozen):
    """The text last written for a run, to tell a person's edits from ours."""

    path: str
    text: str


class ReportFile(Frozen):
    """A report on disk."""

    path: Path
    """Absolute."""
    name: str
    """Relative to the reports folder, with `/`."""
    text: str
    data: str | None = None
    """Text of the file with the page's data; None if there is none."""


class FileVersion(Frozen):
    """What a file was after one commit that changed it."""

    commit: str
    author: str
    email: str
    date: str
    """ISO date of authorship, in the author's time zone."""
    text: str | None
    """None where the commit removed it."""
    data: str | None = None
    """Text of the file with the page's data in the same commit."""
    before: tuple[str, ...] = ()
    """Commits of the versions that it was made from: none for the first, several for a merge."""
    age: int = 0
    """How many commits of the history are older."""


class MergedReports(Frozen):
    """What of the reports is merged."""

    ref: str
    """The name that git has for it: `refs/remotes/origin/main`, `HEAD`."""
    commit: str
    reports: tuple[str, ...]
    """Names of the reports in this commit, relative to the reports folder, by name."""
    shallow: bool = False
    """Whether older commits are missing here: what they brought seems to come from the oldest that is here."""


class UnmergedReport(Frozen):
    """A report as a branch or the working tree has it, which differs from the one that it started from."""

    branch: str | None
    """The name that git has for it; None for the working tree."""
    name: str
    """Relative to the reports folder, with `/`."""
    text: str
    data: str | None = None
    base: str | None
    """What it was where branch and merged history parted; None where there was none."""
    base_data: str | None = None


class BranchTip(Frozen):
    """The newest commit of a branch."""

    commit: str
    message: str
    files: tuple[str, ...] = ()
    """Paths that it changed against its first parent."""


class PushedBranch(Frozen):
    """A branch as it is on the remote now."""

    branch: str
    commit: str
    said: str = ""
    """What the remote's server printed: some print the address that opens a merge request."""


class PullRequest(Frozen):
    """A request to merge a branch."""

    url: str
    number: int | None = None
    state: Literal["new", "updated", "unchanged", "by hand"]
    """`by hand`: nothing was asked of the forge, `url` is where a person opens it."""
    draft: bool = False


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
        from evalscribe.redaction.redact import redact  # whoever opens a store knows patches, and few look at one

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
