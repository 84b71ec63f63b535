"""Read the history of report files: their merged versions, and changes that are not merged yet."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from evalscribe import text as prose
from evalscribe.errors import DataError, UsageError
from evalscribe.git.command import GitError, ReportRepository
from evalscribe.model.repository import (
    MAX_REPORT_BYTES,
    FileVersion,
    UnmergedReport,
    data_name,
    has_data,
    is_report,
    max_bytes,
)

MAIN = ("refs/remotes/origin/HEAD", "refs/remotes/origin/main", "refs/remotes/origin/master")
_REF = "%(refname) %(symref)"
REPORTS = "*.md"
"""Pattern that matches all markdown files in a repository. All of these files are searched, because a report can have
been moved from any folder."""
_FILE = b"100"
"""First bytes of git's file mode for regular files. Symbolic links have another mode; they are not reports."""
_BOT = "[bot]"
"""Suffix of the names of authors that are bots."""
_COAUTHORS = "%(trailers:key=Co-authored-by,valueonly,unfold,separator=%x01)"
_COAUTHOR = re.compile(r"([^<>]*\S) *<([^<>]+)>")
_PLAIN = {"i18n.logOutputEncoding": "UTF-8", "log.follow": "false", "log.showSignature": "false"}


class Commit(NamedTuple):
    id: str
    parents: tuple[str, ...]
    """Ids of the nearest ancestors that touch markdown files. git leaves out other commits."""
    author: str
    email: str
    date: str


class CommitChange(NamedTuple):
    """The change that a commit makes to one file, relative to one parent."""

    blob: str | None
    """Id of the file's content; None if the commit deleted the file."""
    was: str | None
    """Path of the file in the parent commit; None if the parent does not contain the file."""
    same: bool
    """True if the commit only renamed the file and did not change its content."""


Changes = Mapping[str, CommitChange]
FileAtCommit = tuple[str, str]
"""The id of a commit, and the path of a file in that commit."""


class GitHistory:
    """The history, up to one commit, of all markdown files."""

    def __init__(self, repo: ReportRepository, tip: str) -> None:
        self.tip = tip
        self._commits = {commit.id: commit for commit in _commits(repo, tip)}
        self._age = {commit: number for number, commit in enumerate(reversed(self._commits))}
        self._changes = _changes(repo, list(self._commits.values()))

    def versions(self, repo: ReportRepository, path: str) -> Iterator[FileVersion]:
        """Yield the versions of a file, oldest first.

        A merge counts as a version if its text differs from that of every parent.
        """
        # The first commit is the newest, because children come before their parents.
        begin = next(iter(self._commits), None)
        last = self._changed_at((begin, path)) if begin else None
        before: dict[FileAtCommit, list[FileAtCommit]] = {}
        # A list instead of recursion: Python limits the recursion depth, and a report can have hundreds of versions.
        todo = [last] if last else []
        while todo:
            place = todo.pop()
            if place not in before:
                before[place] = [
                    change_place
                    for parent_place in self._parents(place)
                    if (change_place := self._changed_at(parent_place))
                ]
                todo.extend(before[place])
        places = sorted(before, key=lambda place: self._age[place[0]])
        versions = [self._version(repo, place, before[place]) for place in places]
        with_data = [(index, place) for index, place in enumerate(places) if has_data(versions[index].text or "")]
        # A single git process reads the data of all versions.
        texts = read_files(repo, [(commit, data_name(path)) for _, (commit, path) in with_data])
        for (index, _), data in zip(with_data, texts, strict=True):
            versions[index] = versions[index].model_copy(update={"data": data})
        yield from versions

    def _version(self, repo: ReportRepository, place: FileAtCommit, before: Sequence[FileAtCommit]) -> FileVersion:
        commit = self._commits[place[0]]
        blob = next(change.blob for change in self._beside_parents(place) if change)
        return FileVersion(
            commit=commit.id,
            author=commit.author,
            email=commit.email,
            date=commit.date,
            text=read_blob(repo, blob) if blob else None,
            before=tuple(dict.fromkeys(commit for commit, _ in before)),
            age=self._age[commit.id],
        )

    def _changed_at(self, place: FileAtCommit) -> FileAtCommit | None:
        """Return the commit in which the file got its text, with the file's path in this commit.

        Returns None if the file is missing.
        """
        while True:
            follow = self._unchanged_since(place)
            if follow is None:
                changes = self._beside_parents(place)
                return place if any(change and (change.blob or change.was) for change in changes) else None
            place = follow

    def _unchanged_since(self, place: FileAtCommit) -> FileAtCommit | None:
        """Return the first of the parents in which the file has the same text, with the file's path in this parent.

        Returns None if there is no such parent.
        """
        commit, path = place
        for parent, change in zip(self._commits[commit].parents, self._beside_parents(place), strict=False):
            if change is None:
                return (parent, path)
            if change.same and change.was:
                return (parent, change.was)
        return None

    def _parents(self, place: FileAtCommit) -> list[FileAtCommit]:
        parents = self._commits[place[0]].parents
        changes = self._beside_parents(place)
        return [(parent, change.was) for parent, change in zip(parents, changes, strict=False) if change and change.was]

    def _beside_parents(self, place: FileAtCommit) -> list[CommitChange | None]:
        commit, path = place
        sides = self._commits[commit].parents or (None,)
        return [self._changes[commit, parent].get(path) for parent in sides]


@contextmanager
def open_git(folder: Path) -> Iterator[ReportRepository]:
    """Open the repository that contains a folder.

    Raises `UsageError` if there is no repository, or if git refuses to open it.
    """
    try:
        # Reading must not lock the index, because the user's own commands need it.
        repo = ReportRepository(_existing(folder), env={"GIT_OPTIONAL_LOCKS": "0"})
    except GitError as error:
        if "not a git repository" not in str(error):
            raise DataError(f"git cannot read the history of {folder}: {error}") from error
        raise UsageError(
            f"{folder} is not in a git repository, but human labels are read from its history.\n"
            "Work in a clone, or create a repository: git init, git add, git commit."
        ) from error
    try:
        if repo.top is None:
            raise UsageError(f"{folder} is in a bare git repository; work in a clone of it")
        yield repo
    except (GitError, ValueError) as error:
        raise DataError(f"git cannot read the history of {folder}: {error}") from error


def _existing(folder: Path) -> Path:
    """Return the folder, or its nearest existing parent if the folder does not exist.

    The folder can be missing locally although reports in it have been merged.
    """
    return next((path for path in (folder.absolute(), *folder.absolute().parents) if path.is_dir()), folder)


def resolve_ref(repo: ReportRepository, ref: str | None) -> tuple[str, str]:
    """Return the full name and the commit of `ref`.

    If `ref` is None, use the remote's main branch, or HEAD if the main branch is unknown.
    Raises `UsageError` if `ref` does not exist.
    """
    if not ref:
        ref_lines = repo.text("for-each-ref", f"--format={_REF}", *MAIN)
        commits = dict(line.partition(" ")[::2] for line in ref_lines.splitlines())
        ref = next((commits[name] or name for name in MAIN if name in commits), "HEAD")
    commit = repo.ask("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    if not commit:
        problem = "this repository has no commits yet" if ref == "HEAD" else f"no commit {ref!r} in this repository"
        raise UsageError(f"git cannot read the history: {problem}")
    return ref, commit


def read_blob(repo: ReportRepository, blob: str) -> str | None:
    """Return the text of a blob, with invalid UTF-8 replaced.

    Returns None if the blob is larger than a report can be.
    """
    content = repo.blob(blob)
    return content.decode("utf-8-sig", "replace") if len(content) <= MAX_REPORT_BYTES else None


def read_files(repo: ReportRepository, files: Sequence[tuple[str, str]]) -> list[str | None]:
    """Return the texts of several files.

    A file is given by its commit and its path. The text is None if the file is missing or too large. A single git
    process reads all files.
    """
    # `cat-file --batch` reads one name per line.
    object_names = {file: f"{file[0]}:{file[1]}" for file in files if "\n" not in file[1]}
    names = list(dict.fromkeys(object_names.values()))
    out = repo.output("cat-file", "--batch", feed="".join(f"{name}\n" for name in names).encode()) if names else b""
    texts: dict[str, str | None] = {}
    at = 0
    for name in names:
        head, _, _ = out[at:].partition(b"\n")
        at += len(head) + 1
        kind, _, size = head.decode("utf-8", "replace").rpartition(" ")
        if size.isdecimal() and kind.endswith(" blob"):
            content = out[at : at + int(size)]
            texts[name] = content.decode("utf-8-sig", "replace") if len(content) <= max_bytes(name) else None
        # The content is skipped even if it was not used, because the blob is too large or the object is not a blob. A
        # missing object has no size and no content.
        if size.isdecimal():
            at += int(size) + 1
    return [texts.get(object_names.get(file, "")) for file in files]


def path_in_repository(repo: ReportRepository, folder: Path) -> str:
    """Return the path of a folder in the repository, with a `/` at its end.

    The result is empty if the folder is the root of the repository.
    """
    path = folder.resolve().relative_to(Path(str(repo.top)).resolve()).as_posix()
    return "" if path == "." else f"{path}/"


def list_reports(repo: ReportRepository, commit: str, folder: str) -> tuple[str, ...]:
    """List the reports in a commit that are below a folder.

    The returned paths are relative to the folder. `folder` has the form that `path_in_repository` returns.
    """
    command = ["ls-tree", "-r", "-z", "--name-only", "--full-tree", commit]
    out = repo.output(*command, *([folder] if folder else []))
    paths = (os.fsdecode(path).removeprefix(folder) for path in out.split(b"\0"))
    return tuple(path for path in paths if is_report(path))


def _commits(repo: ReportRepository, tip: str) -> Iterator[Commit]:
    """Yield all commits that touch markdown files, and the merges of such commits.

    Children come before their parents.
    """
    plain = [part for name, value in _PLAIN.items() for part in ("-c", f"{name}={value}")]
    # `--full-history`, because git would otherwise leave out a branch whose changes were undone in the merge.
    command = [*plain, "log", "-z", "--full-history", "--parents", "--topo-order", "--no-color"]
    shape = f"--format=%H%x00%P%x00%aN%x00%aE%x00%as%x00{_COAUTHORS}%x00"
    fields = repo.output(*command, shape, tip, "--", REPORTS).decode("utf-8", "replace").split("\0")
    for at in range(0, len(fields) - 6, 7):
        id_, parents, author, email, date, coauthors = (field.strip() for field in fields[at : at + 6])
        name, address = _person(author, email, coauthors)
        yield Commit(id_, tuple(dict.fromkeys(parents.split())), name, address, date)


def _person(author: str, email: str, coauthors: str) -> tuple[str, str]:
    """Return the name and the e-mail address of a commit's author.

    If the author is a bot and exactly one person is named as co-author, as in squashed branches of bots, return this
    co-author. Addresses are converted to lower case. If the address is empty, the name is used as the address. Names
    are shortened and cleaned.
    """
    people = {
        coauthor[2].lower(): coauthor
        for line in coauthors.split("\1")
        if (coauthor := _COAUTHOR.fullmatch(line.strip()))
    }
    people_only = [coauthor for coauthor in people.values() if not coauthor[1].endswith(_BOT)]
    if author.endswith(_BOT) and len(people_only) == 1:
        author, email = people_only[0][1], people_only[0][2]
    return prose.name(author or email), email.lower() or author


def _changes(repo: ReportRepository, commits: Sequence[Commit]) -> dict[tuple[str, str | None], Changes]:
    """Return the changes of each commit relative to each of its parents."""
    pairs = [(commit.id, parent) for commit in commits for parent in (commit.parents or (None,))]
    # One process compares all commits, however many there are. `--always` makes it answer for pairs without a change
    # too.
    command = ["diff-tree", "--stdin", "--root", "--always", "-r", "-M", "--raw", "-z", "--no-abbrev"]
    pair_lines = "".join(f"{commit} {parent or ''}".rstrip() + "\n" for commit, parent in pairs)
    out = repo.output(*command, "--", REPORTS, feed=pair_lines.encode())
    return dict(zip(pairs, _parsed(out), strict=True))


def _parsed(out: bytes) -> Iterator[Changes]:
    """Yield the changes of each pair of a commit and one of its parents, in the order of git's input."""
    changes: dict[str, CommitChange] | None = None
    fields = iter(out.split(b"\0"))
    for field in fields:
        if field.startswith(b":"):
            assert changes is not None
            _, mode, old, blob, status = field[1:].split()
            paths = [os.fsdecode(next(fields)) for _ in range(2 if status[:1] in b"RC" else 1)]
            # The file is missing under its old name from this commit on. Without an entry, it would look unchanged.
            if status[:1] == b"R":
                changes[paths[0]] = CommitChange(None, None, same=False)
            # The content of a link is the path of its target, not the text of a report.
            text = blob.decode() if mode.startswith(_FILE) else None
            changes[paths[-1]] = CommitChange(text, paths[0], same=old == blob)
        elif field:
            if changes is not None:
                yield changes
            changes = {}
    if changes is not None:
        yield changes


MOST_BRANCHES = 100
"""Maximum number of branches that are searched, newest first. An old repository can have thousands of branches."""


def find_unmerged(repo: ReportRepository, folder: Path, tip: str) -> Iterator[UnmergedReport]:
    """Yield the reports below `folder` that were changed in the working tree, or on a branch after it diverged from
    `tip`."""
    below = path_in_repository(repo, folder)
    yield from _in_working_tree(repo, folder, below, tip)
    for branch in _branches(repo, tip):
        base = _parting(repo, tip, branch)
        for path, was, now in _changed(repo, base, branch, below):
            text = read_blob(repo, now)
            if text is not None:
                before = read_blob(repo, was) if was else None
                data, base_data = _data(repo, below + path, text, branch), _data(repo, below + path, before, base)
                yield UnmergedReport(branch=branch, name=path, text=text, data=data, base=before, base_data=base_data)


def _in_working_tree(repo: ReportRepository, folder: Path, below: str, tip: str) -> Iterator[UnmergedReport]:
    base = _parting(repo, tip, "HEAD")
    for path, was, _ in _changed(repo, base, None, below):
        file = folder / path
        # A link can point outside the folder.
        if file.is_file() and file.resolve().is_relative_to(folder.resolve()):
            text = file.read_bytes().decode("utf-8-sig", "replace")
            before = read_blob(repo, was) if was else None
            if text != before:
                beside = folder / data_name(path)
                data = beside.read_bytes().decode("utf-8-sig", "replace") if beside.is_file() else None
                base_data = _data(repo, below + path, before, base)
                yield UnmergedReport(branch=None, name=path, text=text, data=data, base=before, base_data=base_data)


def _data(repo: ReportRepository, path: str, text: str | None, commit: str | None) -> str | None:
    """Return the text of the data file that belongs to a report's page in a commit.

    Returns None if `commit` is None or the page has no data file.
    """
    return read_files(repo, [(commit, data_name(path))])[0] if commit and has_data(text or "") else None


def _branches(repo: ReportRepository, tip: str) -> list[str]:
    where = ("refs/heads", "refs/remotes")
    options = ("--sort=-committerdate", f"--count={MOST_BRANCHES}", "--format=%(refname)")
    return repo.text("for-each-ref", f"--no-merged={tip}", *options, *where).split()


def _parting(repo: ReportRepository, tip: str, branch: str) -> str | None:
    """Return the commit from which two histories diverged (the merge base); None if the histories are unrelated."""
    return repo.ask("merge-base", tip, branch) or None


def _changed(
    repo: ReportRepository, base: str | None, branch: str | None, below: str
) -> Iterator[tuple[str, str | None, str]]:
    """Yield the name, the old blob and the new blob of each report below the folder that differs from `base`.

    If `branch` is None, the reports in the working tree are compared. The new blob then has no meaning.
    """
    # The empty tree replaces a missing base. Its id depends on the hash algorithm of the repository.
    empty = repo.text("hash-object", "-t", "tree", os.devnull)
    trees = [base or empty, *([branch] if branch else [])]
    command = [
        "-c",
        # Otherwise, `diff` would write the index, which the user's own commands need.
        "diff.autoRefreshIndex=false",
        "diff",
        "--no-ext-diff",
        "--no-textconv",
        "-M",
        "--raw",
        "-z",
        "--no-abbrev",
    ]
    options = ["--no-color", "--no-relative", "--ignore-submodules=all"]
    out = repo.output(*command, *options, *trees, "--", _only(below))
    fields = iter(out.split(b"\0"))
    for field in fields:
        if field.startswith(b":"):
            _, mode, was, now, status = field[1:].split()
            path = [os.fsdecode(next(fields)) for _ in range(2 if status[:1] in b"RC" else 1)][-1].removeprefix(below)
            if mode.startswith(b"100") and is_report(path):
                yield path, was.decode() if was.strip(b"0") else None, now.decode()
    if branch is None:
        yield from ((path, None, "") for path in _unknown(repo, below) if is_report(path))


def _unknown(repo: ReportRepository, below: str) -> Iterator[str]:
    """Yield the untracked files below the folder."""
    out = repo.output("ls-files", "--others", "--exclude-standard", "-z", "--", _only(below))
    return (os.fsdecode(path).removeprefix(below) for path in out.split(b"\0") if path)


def _only(below: str) -> str:
    """Return a pathspec that matches only this folder, even if the folder's name contains special characters."""
    return f":(literal){below}" if below else "."
