"""Define report files, commits, branches, pull requests and proposed patches."""

import difflib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from evalscribe.ids import Frozen, content_id

MAX_REPORT_BYTES = 16 * 1024 * 1024
"""Maximum size of a report's page, in bytes. Larger files are not read."""
MAX_DATA_BYTES = 128 * 1024 * 1024
"""Maximum size of a page's data file, in bytes. The data file of a report with 10,000 failures is 17 MB."""
# At most 40 lines are searched, so that a long page without a kind costs little.
_FRONT = re.compile(r"\ufeff?---\r?\n(?:(?!---\r?\n).*\n){0,40}?kind:[ \t]*[\"']?evalscribe-([a-z]+/?)")


LABELS_PAGE = "labels.md"
"""Page in the root of the reports folder that defines the labels. It is not a report."""


def is_report(path: str) -> bool:
    """Return whether a file in the reports folder is a report.

    Only the path is considered; it is relative to the folder and uses `/`.
    """
    return path != LABELS_PAGE and path.endswith(".md") and not any(part.startswith(".") for part in path.split("/"))


_WITH_DATA = re.compile(r"\ufeff?---[ \t]*(?:\r\n?|\n)kind:[ \t]*evalscribe-report/2\b")


def has_data(text: str) -> bool:
    """Return whether the data of a page is in a separate file, according to the page's front matter."""
    return _WITH_DATA.match(text) is not None


def data_name(page: str) -> str:
    """Return the name of a page's data file: the name of the page with `.json` in place of `.md`."""
    return f"{page.removesuffix('.md')}.json"


def max_bytes(name: str) -> int:
    """Return the maximum size of a file in bytes.

    The maximum depends on whether the file is a page or a data file. Larger files are not read.
    """
    return MAX_DATA_BYTES if name.endswith(".json") else MAX_REPORT_BYTES


def is_of_another_kind(text: str) -> bool:
    """Return whether the document was written by evalscribe but is not a report, for example a comparison."""
    front = _FRONT.match(text)
    return front is not None and not front[1].startswith("report/")


class StoredReport(Frozen):
    """The text that evalscribe last wrote to a run's report.

    Any differences between this text and the file are people's edits.
    """

    path: str
    text: str


class ReportFile(Frozen):
    """A report on disk."""

    path: Path
    """Absolute path of the report."""
    name: str
    """Name of the report: its path relative to the reports folder, with `/`."""
    text: str
    data: str | None = None
    """Text of the page's data file; None if the page has no data file."""


class FileVersion(Frozen):
    """The state of a file after one of the commits that changed it."""

    commit: str
    author: str
    email: str
    date: str
    """ISO date on which the commit was authored, in the author's time zone."""
    text: str | None
    """Text of the file; None if the commit removed the file."""
    data: str | None = None
    """Text of the page's data file in the same commit."""
    before: tuple[str, ...] = ()
    """Commits of the preceding versions of the file. The first version has none, and a merge has several."""
    age: int = 0
    """Number of older commits in the file's history."""


class MergedReports(Frozen):
    """The reports on the main branch."""

    ref: str
    """Full name of the git ref of the main branch, such as `refs/remotes/origin/main` or `HEAD`."""
    commit: str
    reports: tuple[str, ...]
    """Names of the reports in the main branch's newest commit, relative to the reports folder and sorted."""
    shallow: bool = False
    """Whether the clone is shallow. In a shallow clone, git attributes all older changes to the oldest commit."""


class UnmergedReport(Frozen):
    """A report on a branch or in the working tree that differs from the version at the merge base."""

    branch: str | None
    """Name of the branch; None if the report is in the working tree."""
    name: str
    """Name of the report: its path relative to the reports folder, with `/`."""
    text: str
    data: str | None = None
    base: str | None
    """Text of the report at the merge base; None if the report did not exist there."""
    base_data: str | None = None


class BranchTip(Frozen):
    """The newest commit of a branch."""

    commit: str
    message: str
    files: tuple[str, ...] = ()
    """Paths of the files that the commit changed, compared with its first parent."""


class PushedBranch(Frozen):
    """A branch that was pushed to a remote."""

    branch: str
    commit: str
    server_messages: str = ""
    """Output of the remote's server during the push. Some servers print an address at which a merge request can be
    opened."""


class PullRequest(Frozen):
    """A request to merge a branch."""

    url: str
    number: int | None = None
    state: Literal["new", "updated", "unchanged", "by hand"]
    """State of the pull request. `by hand`: the forge was not contacted, but a person can open the pull request at
    `url`."""
    draft: bool = False


_LINE = re.compile(r"[^\n]*\n|[^\n]+")
"""Matches a line as git sees it. Only a line feed ends a line."""


class Edit(Frozen):
    """One replacement of text in one file, as submitted by a model."""

    path: str
    """Path of the file, relative to the repository's root, with `/`."""
    old: str
    """The text to replace. The file must contain it exactly once. It is empty if the file is new."""
    new: str


class Proposal(Frozen):
    """The edits that a model proposes. The only repository text in them is the text that they replace."""

    edits: tuple[Edit, ...]
    summary: str
    """Summary of the change, in one line."""


class FileChange(Frozen):
    path: str
    """Path of the file, relative to the repository's root, with `/`."""
    before: str | None
    """Text of the file in the commit on which the patch is based; None if the file is new."""
    after: str

    @property
    def diff(self) -> str:
        """The change in the format of `git diff`, without the index line."""
        names = ("/dev/null" if self.before is None else f"a/{self.path}", f"b/{self.path}")
        return "".join(
            _ended(difflib.unified_diff(_LINE.findall(self.before or ""), _LINE.findall(self.after), *names))
        )

    @property
    def shown(self) -> str:
        """The diff for display. Secrets in the lines around the change are redacted."""
        from evalscribe.redaction.redact import redact  # slow to import, and seldom needed

        before = None if self.before is None else redact(self.before)
        return self.model_copy(update={"before": before, "after": redact(self.after)}).diff

    @property
    def hides(self) -> bool:
        """Whether an added or removed line is redacted in `shown`, because it looks like a key or a part of a key."""
        return _changed(self.shown) != _changed(self.diff)

    @property
    def counts(self) -> str:
        """Number of added and removed lines, such as `+2 -1`."""
        signs = [line[0] for line in _changed(self.diff)]
        return f"+{signs.count('+')} -{signs.count('-')}"


class Patch(Frozen):
    """The change that one recommendation proposes."""

    run: str
    recommendation: str
    """Id of the recommendation in the run's report, such as `R3`."""
    base: str
    """The commit that the patch applies to."""
    changes: tuple[FileChange, ...]
    summary: str
    """Summary of the change in one line, used as the commit's subject."""
    judge: str
    """Id of the model that proposed the patch, such as `anthropic/claude-opus-5-5`."""

    @property
    def digest(self) -> str:
        """Content id of the patch. Approvals refer to this id."""
        return content_id(self)

    @property
    def shown(self) -> str:
        return "".join(change.shown for change in self.changes)


def _changed(diff: str) -> list[str]:
    """Return the added and removed lines of a diff, without the header that contains the file names."""
    return [line for line in diff.split("\n")[2:] if line.startswith(("+", "-"))]


def _ended(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
