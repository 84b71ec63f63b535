"""Reports as files, and what git knows of them."""

import re
from pathlib import Path

from evalscribe.ids import Frozen

LARGEST = 16 * 1024 * 1024
"""Bytes; no report is larger, and what is larger is not read."""
_FRONT = re.compile(r"\ufeff?---\r?\n(?:(?!---\r?\n).*\n){0,40}?kind:[ \t]*[\"']?evalscribe-([a-z]+/?)")


def is_report(path: str) -> bool:
    """Whether a path below the reports folder, with `/`, is a report's by its name."""
    return path.endswith(".md") and not any(part.startswith(".") for part in path.split("/"))


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


class FileVersion(Frozen):
    """What a file was after one commit that changed it."""

    commit: str
    author: str
    email: str
    date: str
    """ISO date of authorship, in the author's time zone."""
    text: str | None
    """None where the commit removed it."""
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
    base: str | None
    """What it was where branch and merged history parted; None where there was none."""
