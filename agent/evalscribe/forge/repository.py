"""Branches of our own in a user's repository, made without a working tree.

A commit is put together from objects in an index of our own, outside the repository: there is no second work tree to
check out or clean up, no filter touches the bytes, no hook runs, and whoever is killed halfway leaves nothing but
unreachable objects, which git collects. The branch moves in one step, from the commit it was expected at.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from evalscribe.errors import UsageError
from evalscribe.forge.git import GitFolder
from evalscribe.forge.remotes import Remotes
from evalscribe.forge.trees import Trees
from evalscribe.model.repository import BranchTip, PushedBranch

NONE_HERE = ("not a git repository", "must be run in a work tree")
"""Of git's words those that say no more than that."""


def open_repository(folder: Path) -> "GitRepository":
    """The repository that a folder belongs to. Raises `UsageError` where there is none with a working tree."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder")
    ended = GitFolder(folder).run("rev-parse", "--show-toplevel")
    if ended.code or not ended.text:
        usual = not ended.said or any(words in ended.err for words in NONE_HERE)
        why = "" if usual else f" that can be used: {ended.said}"
        raise UsageError(
            f"{folder.resolve()} is in no git repository with a working tree{why}.\n"
            "Work in a clone, or begin one: git init, git add, git commit."
        )
    return GitRepository(Path(ended.text))


class GitRepository:
    """`Repository` over a folder with a working tree."""

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
        return tuple(blob.path for blob in self.trees.listed("-r", commit) if blob.regular)

    def links(self, commit: str) -> tuple[str, ...]:
        return tuple(blob.path for blob in self.trees.listed("-r", commit) if not blob.regular)

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
        ended = self.git.run("cat-file", "blob", blob.id)
        try:
            return None if ended.code or b"\0" in ended.out else ended.out.decode("utf-8")
        except UnicodeDecodeError:
            return None

    def changed(self, paths: Iterable[str]) -> tuple[str, ...]:
        asked = [path for path in paths if path and "\0" not in path]
        if not asked:
            return ()
        options = ("--porcelain=v1", "-z", "--untracked-files=all", "--ignored=matching", "--no-renames")
        ended = self.git.run("status", *options, "--ignore-submodules=none", "--", *asked)
        if ended.code:
            raise UsageError(f"git cannot tell what has changed in {self.root}: {ended.said}")
        different = {line[3:] for line in ended.text.split("\0") if line}
        return tuple(path for path in asked if path in different)

    def commit(
        self,
        files: Mapping[str, str],
        *,
        parent: str,
        branch: str | None = None,
        message: str,
        merging: str | None = None,
    ) -> str:
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
        """Nothing stays open."""

    def _commit_id(self, name: str) -> str | None:
        return self.git.ask("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")

    def _tip(self, branch: str, parent: str) -> str | None:
        """Where the branch is now, None where there is none. Raises `UsageError` where it may not be moved."""
        if (
            branch in ("@", "HEAD")
            or branch[:1] == "-"
            or self.git.run("check-ref-format", f"refs/heads/{branch}").code
        ):
            raise UsageError(f"{branch!r} is no name for a branch")
        if self._in_use(branch):
            raise UsageError(f"the branch {branch} is checked out in a work tree; switch to another one there first")
        tip = self._commit_id(f"refs/heads/{branch}")
        if tip is not None and self.common(tip, parent) != tip:
            raise UsageError(
                f"the branch {branch} has commits that are not in {parent[:12]}; merge, rename or delete it"
            )
        return tip

    def _in_use(self, branch: str) -> bool:
        """Whether a work tree has it checked out, or is in the middle of rebasing or bisecting it."""
        ref = f"refs/heads/{branch}"
        trees = (self.git.ask("worktree", "list", "--porcelain") or "").splitlines()
        if f"branch {ref}" in trees:
            return True
        common = Path(self.root, self.git.ask("rev-parse", "--git-common-dir") or ".git")
        marks = ("rebase-merge/head-name", "rebase-apply/head-name", "BISECT_START")
        folders = (common, *common.glob("worktrees/*"))
        return any(_first_line(folder / mark) in (ref, branch) for folder in folders for mark in marks)

    def _check_identity(self) -> None:
        """Git would make up a name from the machine's; nobody wants that in a history."""
        if any(self.git.run("var", who).code for who in ("GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT")):
            raise UsageError("git does not know who you are; set user.name and user.email. Nothing was changed")

    def _committed(self, tree: str, parents: list[str], message: str) -> str:
        """Signed where the user's commits are; the low-level command leaves it to us to look that up."""
        signed = ["-S"] if self.git.ask("config", "--type=bool", "--get", "commit.gpgSign") == "true" else []
        above = [word for parent in parents for word in ("-p", parent)]
        text = message.replace("\0", "").encode("utf-8", "replace")
        ended = self.git.run("commit-tree", *signed, *above, "-F", "-", tree, feed=text)
        if ended.code:
            hint = " (commit.gpgSign asks for a signature)" if signed else ""
            raise UsageError(f"git made no commit{hint}: {ended.said}. Nothing was changed")
        return ended.text

    def _move(self, branch: str, commit: str, tip: str | None) -> None:
        """From where it was seen; an empty old value means that it must not exist."""
        ended = self.git.run("update-ref", "-m", "evalscribe", f"refs/heads/{branch}", commit, tip or "")
        if ended.code:
            raise UsageError(f"the branch {branch} was not moved: {ended.said}; try again")


def _first_line(path: Path) -> str | None:
    try:
        return path.read_text("utf-8", errors="replace").partition("\n")[0]
    except OSError:
        return None
