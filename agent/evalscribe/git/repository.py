"""Read commits and write branches of a git repository without touching its working tree."""

import hashlib
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from evalscribe.errors import DataError, UsageError
from evalscribe.git.command import GitFolder
from evalscribe.git.remotes import Remotes
from evalscribe.ids import content_id
from evalscribe.model.repository import BranchTip, PushedBranch
from evalscribe.model.target import SourceState

FOLDER = "040000"
FILE = "100644"
PROGRAM = "100755"


class Blob(NamedTuple):
    """The file, link or folder at a path in a commit."""

    mode: str
    id: str
    path: str

    @property
    def regular(self) -> bool:
        return self.mode in (FILE, PROGRAM)


class Trees:
    def __init__(self, git: GitFolder) -> None:
        self.git = git

    def list_blobs(self, *arguments: str) -> Iterator[Blob]:
        """List the files and folders of a commit with `ls-tree`."""
        result = self.git.run("ls-tree", "-z", "--full-tree", *arguments)
        if result.code:
            raise UsageError(f"git cannot list the files of a commit: {result.message}")
        for line in result.text.split("\0"):
            properties, tabbed, path = line.partition("\t")
            if tabbed:
                mode, _, id = properties.split(" ")
                yield Blob(mode, id, path)

    def blob(self, commit: str, path: str) -> Blob | None:
        """Return the file, link or folder at this path in a commit; None if the commit has nothing there."""
        if not _is_place(path):
            return None
        return next((blob for blob in self.list_blobs(commit, "--", path) if blob.path == path), None)

    def changed(self, base: str, files: Mapping[str, str]) -> str:
        """Write a copy of the tree of commit `base`. In the copy, each path in `files` has the given text.

        Return the id of the tree.
        """
        return self._written(("read-tree", "--end-of-options", base), base, files)

    def merged(self, commit: str, other: str, files: Mapping[str, str]) -> str:
        """Merge the trees of two commits.

        The given `files` get the given texts. Every other file is taken from the commit that changed it.

        Raises `DataError` if both commits changed a file.
        """
        # Without a common ancestor, the commits are merged as if they began with an empty tree.
        common = self.git.ask("merge-base", commit, other) or self.git.run("mktree").text  # the empty tree
        commits = ("--end-of-options", common, commit, other)
        return self._written(("read-tree", "-i", "-m", "--aggressive", *commits), other, files)

    def _written(self, start: tuple[str, ...], base: str, files: Mapping[str, str]) -> str:
        index_lines = b"".join(self._listing(base, path, text) for path, text in files.items())
        with tempfile.TemporaryDirectory(prefix="evalscribe-") as folder:
            # An index of our own: the user's index can have staged changes, which must not be committed.
            env = {"GIT_INDEX_FILE": os.path.join(folder, "index")}
            for arguments, feed in (
                (start, b""),
                (("update-index", "-z", "--index-info"), index_lines),
                (("write-tree", "--missing-ok"), b""),  # files can be missing in a partial clone
            ):
                result = self.git.run(*arguments, feed=feed, env=env)
                _check_merged(result.err)
                if result.code or result.err.startswith("error:"):
                    names = ", ".join(files)
                    raise UsageError(
                        f"{names[:200]!r} cannot be added to the files of commit {base[:12]}: "
                        f"{result.message}. Nothing was changed"
                    )
        return result.text

    def _listing(self, base: str, path: str, text: str) -> bytes:
        """Store a text as a file in the repository.

        Return the line for `update-index --index-info` that adds the file.
        """
        blob = self.blob(base, path)
        if not _is_place(path) or (blob and not blob.regular) or self._runs_through_a_file(base, path):
            raise UsageError(f"{path[:200]!r} cannot be a regular file in commit {base[:12]}. Nothing was changed")
        # Without filters, the bytes are stored as given, whatever the user's attributes and line-end settings are.
        result = self.git.run("hash-object", "-w", "--no-filters", "--stdin", feed=text.encode("utf-8", "replace"))
        if result.code:
            raise DataError(f"git cannot store a file: {result.message}. Nothing was changed")
        mode = blob.mode if blob else FILE
        return f"{mode} {result.text}\t".encode() + os.fsencode(path) + b"\0"

    def _runs_through_a_file(self, base: str, path: str) -> bool:
        """Return whether a parent folder of the path is a file or a link in the commit. git would silently replace this
        file or link."""
        parents = [parent.as_posix() for parent in PurePosixPath(path).parents][:-1]
        return bool(parents) and any(
            blob.mode != FOLDER for blob in self.list_blobs(base, "--", *parents) if blob.path in parents
        )


def _check_merged(err: str) -> None:
    both = dict.fromkeys(re.findall(r"^(.+): unmerged \(", err, re.MULTILINE))
    if both:
        raise DataError(
            f"the main branch and our branch both changed {', '.join(both)[:300]} since they diverged, as far as this "
            "clone shows (if the clone is shallow, run `git fetch --unshallow`); merge the main branch into our "
            "branch by hand"
        )


def _is_place(path: str) -> bool:
    """Return whether git accepts a file at that path."""
    parts = path.split("/")
    # Anything below `.git` could be a hook. Case is ignored, because some file systems ignore it.
    return "\0" not in path and not any(part in ("", ".", "..") or part.lower() == ".git" for part in parts)


NONE_HERE = ("not a git repository", "must be run in a work tree")
"""Parts of git messages that mean that there is no working tree."""


def open_repository(folder: Path) -> "GitRepository":
    """Open the git repository to which a folder belongs.

    Raises `UsageError` if the folder is not in a repository with a working tree.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder")
    result = GitFolder(folder).run("rev-parse", "--show-toplevel")
    if result.code or not result.text:
        is_outside = not result.message or any(words in result.err for words in NONE_HERE)
        explanation = "" if is_outside else f" that can be used: {result.message}"
        raise UsageError(
            f"{folder.resolve()} is not in a git repository with a working tree{explanation}.\n"
            "Work in a clone, or create a repository: git init, git add, git commit."
        )
    return GitRepository(Path(result.text))


class GitRepository:
    """A git repository with a working tree.

    The working tree, the index and HEAD stay unchanged. The only branch that changes is the one to which a commit is
    written.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.git = GitFolder(root)
        self.remotes = Remotes(self.git)
        self.trees = Trees(self.git)

    def head(self) -> str:
        commit = self._commit_id("HEAD")
        if commit is None:
            raise UsageError(f"{self.root} has no commit yet")
        return commit

    def files(self, commit: str) -> tuple[str, ...]:
        return tuple(blob.path for blob in self.trees.list_blobs("-r", commit) if blob.regular)

    def links(self, commit: str) -> tuple[str, ...]:
        return tuple(blob.path for blob in self.trees.list_blobs("-r", commit) if not blob.regular)

    def tip(self, branch: str) -> BranchTip | None:
        commit = self._commit_id(f"refs/heads/{branch}")
        if commit is None:
            return None
        message = self.git.ask("show", "--no-patch", "--format=%B", commit) or ""
        options = ("--root", "--no-commit-id", "--name-only", "--no-renames", "-r", "-z")
        files = (self.git.ask("diff-tree", *options, commit) or "").split("\0")
        return BranchTip(commit=commit, message=message, files=tuple(filter(None, files)))

    def read(self, commit: str, path: str) -> str | None:
        blob = self.trees.blob(commit, path)
        if blob is None or not blob.regular:
            return None
        result = self.git.run("cat-file", "blob", blob.id)
        try:
            # A file that is not text cannot be changed by a line-based patch.
            return None if result.code or b"\0" in result.out else result.out.decode("utf-8")
        except UnicodeDecodeError:
            return None

    def changed(self, paths: Iterable[str]) -> tuple[str, ...]:
        listed_paths = [path for path in paths if path and "\0" not in path]
        if not listed_paths:
            return ()
        options = ("--porcelain=v1", "-z", "--untracked-files=all", "--ignored=matching", "--no-renames")
        result = self.git.run("status", *options, "--ignore-submodules=none", "--", *listed_paths)
        if result.code:
            raise UsageError(f"git cannot list the changes in {self.root}: {result.message}")
        # Two letters for the state and a blank precede the path.
        changed_paths = {line[3:] for line in result.text.split("\0") if line}
        return tuple(path for path in listed_paths if path in changed_paths)

    def commit(
        self,
        files: Mapping[str, str],
        *,
        parent: str,
        branch: str | None = None,
        message: str,
        merging: str | None = None,
    ) -> str:
        # Checked before anything is written.
        tip = self._tip(branch, parent) if branch is not None else None
        self._check_identity()
        tree = self.trees.merged(parent, merging, files) if merging else self.trees.changed(parent, files)
        commit = self._committed(tree, [parent, merging] if merging else [parent], message)
        if branch is not None:
            self._move(branch, commit, tip)
        return commit

    def common(self, a: str, b: str) -> str | None:
        return self.git.ask("merge-base", a, b)

    def remote(self, name: str | None = None) -> str:
        return self.remotes.chosen(name)

    def remote_url(self, remote: str) -> str | None:
        return self.remotes.url(remote)

    def fetch(self, remote: str, branch: str | None = None) -> tuple[str, str] | None:
        return self.remotes.fetch(remote, branch)

    def push(self, remote: str, branch: str, commit: str) -> PushedBranch:
        return self.remotes.push(remote, branch, commit)

    def close(self) -> None:
        """Do nothing, because no process is open."""

    def _commit_id(self, name: str) -> str | None:
        return self.git.ask("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")

    def _tip(self, branch: str, parent: str) -> str | None:
        """Return the newest commit of a branch; None if the branch does not exist.

        Raises `UsageError` if evalscribe cannot write to the branch.
        """
        if (
            # git accepts these branch names, but gives them another meaning in commands.
            branch in ("@", "HEAD")
            or branch[:1] == "-"
            or self.git.run("check-ref-format", f"refs/heads/{branch}").code
        ):
            raise UsageError(f"{branch!r} is not a valid branch name")
        if self._in_use(branch):
            raise UsageError(
                f"the branch {branch} is checked out in a working tree; switch to another branch there first"
            )
        tip = self._commit_id(f"refs/heads/{branch}")
        # Moving the branch would drop its other commits.
        if tip is not None and self.common(tip, parent) != tip:
            raise UsageError(
                f"the branch {branch} has commits that are not in {parent[:12]}; merge, rename or delete it"
            )
        return tip

    def _in_use(self, branch: str) -> bool:
        """Return whether the branch is in use: checked out in a working tree, or being rebased or bisected there."""
        ref = f"refs/heads/{branch}"
        trees = (self.git.ask("worktree", "list", "--porcelain") or "").splitlines()
        if f"branch {ref}" in trees:
            return True
        common = Path(self.root, self.git.ask("rev-parse", "--git-common-dir") or ".git")
        # During a rebase or bisect, HEAD is detached, so that `worktree list` does not name the branch.
        marks = ("rebase-merge/head-name", "rebase-apply/head-name", "BISECT_START")
        folders = (common, *common.glob("worktrees/*"))
        return any(_first_line(folder / mark) in (ref, branch) for folder in folders for mark in marks)

    def _check_identity(self) -> None:
        # Otherwise, git would make up an author from the name of the machine.
        if any(self.git.run("var", identity).code for identity in ("GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT")):
            raise UsageError("no author is configured in git; set user.name and user.email. Nothing was changed")

    def _committed(self, tree: str, parents: list[str], message: str) -> str:
        # `git commit-tree` ignores the setting `commit.gpgSign`.
        sign_option = ["-S"] if self.git.ask("config", "--type=bool", "--get", "commit.gpgSign") == "true" else []
        parent_options = [word for parent in parents for word in ("-p", parent)]
        text = message.replace("\0", "").encode("utf-8", "replace")
        result = self.git.run("commit-tree", *sign_option, *parent_options, "-F", "-", tree, feed=text)
        if result.code:
            hint = " (commit.gpgSign requires a signature)" if sign_option else ""
            raise UsageError(f"git created no commit{hint}: {result.message}. Nothing was changed")
        return result.text

    def _move(self, branch: str, commit: str, tip: str | None) -> None:
        """Move the branch from `tip` to `commit`. Raises `UsageError` if another process has moved the branch.

        If `tip` is None, create the branch.
        """
        # git compares the old value when it moves the branch. An empty old value means that the branch must not exist.
        result = self.git.run("update-ref", "-m", "evalscribe", f"refs/heads/{branch}", commit, tip or "")
        if result.code:
            raise UsageError(f"the branch {branch} was not moved: {result.message}; try again")


def _first_line(path: Path) -> str | None:
    try:
        return path.read_text("utf-8", errors="replace").partition("\n")[0]
    except OSError:
        return None


LARGEST = 16 * 1024 * 1024
"""Maximum bytes of a source file that is hashed. A larger file is represented by its size only."""
MOST_FILES = 20_000
OTHERS = frozenset({"__pycache__", "node_modules", "site-packages", "venv"})
"""Names of folders whose Python files are not the user's own."""


def source_state(folder: Path, without: Iterable[Path] = ()) -> SourceState:
    """Return the state of the source files in a folder.

    `without` lists the folders that are ignored, such as the reports folder.
    """
    excluded_folders = tuple(path.resolve() for path in without)
    try:
        git = GitFolder(folder)
        top, commit = git.ask("rev-parse", "--show-toplevel"), git.ask("rev-parse", "--verify", "--quiet", "HEAD")
    except UsageError:  # raised if git is not installed
        top = commit = None
    if not top or not commit:
        return SourceState(code=_digest(folder, _python_files(folder)))
    changed = [
        path
        for path in _changed(git, Path(top))
        if not any(path.is_relative_to(excluded) for excluded in excluded_folders)
    ]
    return SourceState(commit=commit, dirty=bool(changed), code=_digest(Path(top), changed) if changed else None)


def _changed(git: GitFolder, top: Path) -> Iterator[Path]:
    """Yield the files in the folder that differ from HEAD. Untracked files are included."""
    status = git.ask("status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames", "--", ".") or ""
    paths = (top / entry[3:] for entry in status.split("\0") if entry)
    yield from (path for path in paths if OTHERS.isdisjoint(path.relative_to(top).parts))


def _python_files(folder: Path) -> Iterator[Path]:
    file_count = 0
    for place, folders, files in os.walk(folder):
        # Folders are sorted, so that the digest does not depend on the file system. Excluded folders are not entered.
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in OTHERS)
        yield from (Path(place, name) for name in sorted(files) if name.endswith(".py"))
        file_count += len(files)
        if file_count > MOST_FILES:
            return


def _digest(top: Path, paths: Iterable[Path]) -> str:
    return content_id([[path.relative_to(top).as_posix(), _content(path)] for path in paths])


def _content(path: Path) -> str | int | None:
    """Return a hash of the content of a file.

    For a large file, return its size. Returns None if the path is no longer a regular file.
    """
    try:
        if not path.is_file():
            return None
        size = path.stat().st_size
        return size if size > LARGEST else hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None
