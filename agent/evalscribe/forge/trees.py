"""The files of a commit, and those of the next one, put together in an index of our own."""

import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import NamedTuple

from evalscribe.errors import DataError, UsageError
from evalscribe.forge.git import GitFolder

FOLDER = "040000"
FILE = "100644"
PROGRAM = "100755"


class Blob(NamedTuple):
    """What a commit has at a path."""

    mode: str
    id: str
    path: str

    @property
    def regular(self) -> bool:
        return self.mode in (FILE, PROGRAM)


class Trees:
    def __init__(self, git: GitFolder) -> None:
        self.git = git

    def listed(self, *arguments: str) -> Iterator[Blob]:
        """What `ls-tree` tells for a commit."""
        ended = self.git.run("ls-tree", "-z", "--full-tree", *arguments)
        if ended.code:
            raise UsageError(f"git cannot list the files of a commit: {ended.said}")
        for line in ended.text.split("\0"):
            about, tabbed, path = line.partition("\t")
            if tabbed:
                mode, _, id = about.split(" ")
                yield Blob(mode, id, path)

    def blob(self, commit: str, path: str) -> Blob | None:
        """The entry of exactly this path, of whatever kind."""
        if not _is_place(path):
            return None
        return next((blob for blob in self.listed(commit, "--", path) if blob.path == path), None)

    def changed(self, base: str, files: Mapping[str, str]) -> str:
        """The tree of a commit with these files in it, their bytes exactly as given."""
        return self._written(("read-tree", "--end-of-options", base), base, files)

    def merged(self, ours: str, theirs: str, files: Mapping[str, str]) -> str:
        """The tree of two commits: the given files, and every other one as the side has it that changed it.

        Raises `DataError` where both did.
        """
        common = self.git.ask("merge-base", ours, theirs) or self.git.run("mktree").text  # of no file
        commits = ("--end-of-options", common, ours, theirs)
        return self._written(("read-tree", "-i", "-m", "--aggressive", *commits), theirs, files)

    def _written(self, start: tuple[str, ...], base: str, files: Mapping[str, str]) -> str:
        listed = b"".join(self._listing(base, path, text) for path, text in files.items())
        with tempfile.TemporaryDirectory(prefix="evalscribe-") as folder:
            env = {"GIT_INDEX_FILE": os.path.join(folder, "index")}
            for arguments, feed in (
                (start, b""),
                (("update-index", "-z", "--index-info"), listed),
                (("write-tree", "--missing-ok"), b""),  # a partial clone left files with the remote
            ):
                ended = self.git.run(*arguments, feed=feed, env=env)
                _check_merged(ended.err)
                if ended.code or ended.err.startswith("error:"):
                    names = ", ".join(files)
                    raise UsageError(
                        f"{names[:200]!r} cannot be put into {base[:12]}: {ended.said}. Nothing was changed"
                    )
        return ended.text

    def _listing(self, base: str, path: str, text: str) -> bytes:
        """A line for `update-index --index-info`."""
        there = self.blob(base, path)
        if not _is_place(path) or (there and not there.regular) or self._runs_through_a_file(base, path):
            raise UsageError(f"{path[:200]!r} can be no regular file in {base[:12]}. Nothing was changed")
        ended = self.git.run("hash-object", "-w", "--no-filters", "--stdin", feed=text.encode("utf-8", "replace"))
        if ended.code:
            raise DataError(f"git cannot store a file: {ended.said}. Nothing was changed")
        mode = there.mode if there else FILE
        return f"{mode} {ended.text}\t".encode() + os.fsencode(path) + b"\0"

    def _runs_through_a_file(self, base: str, path: str) -> bool:
        """Whether what would have to be a folder is a file or a link; git would replace it without a word."""
        parents = [parent.as_posix() for parent in PurePosixPath(path).parents][:-1]
        return bool(parents) and any(
            blob.mode != FOLDER for blob in self.listed(base, "--", *parents) if blob.path in parents
        )


def _check_merged(err: str) -> None:
    both = dict.fromkeys(re.findall(r"^(.+): unmerged \(", err, re.MULTILINE))
    if both:
        raise DataError(
            f"the main branch and ours both changed {', '.join(both)[:300]} since they parted, as far as this clone "
            "shows (a shallow one shows little: `git fetch --unshallow`); merge the main branch into ours by hand"
        )


def _is_place(path: str) -> bool:
    """Whether git would take a file of that path."""
    parts = path.split("/")
    return "\0" not in path and not any(part in ("", ".", "..") or part.lower() == ".git" for part in parts)
