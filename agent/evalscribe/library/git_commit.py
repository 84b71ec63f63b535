"""One commit with one file, as `git commit --only` makes it; all that this package knows of git."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from git import Repo
from git.exc import GitCommandError, GitError

from evalscribe.errors import DataError, EvalscribeError, UsageError

OF_ANOTHER_REPOSITORY = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_PREFIX",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_CONFIG",
    "GIT_CONFIG_PARAMETERS",
    "GIT_CONFIG_COUNT",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_GRAFT_FILE",
    "GIT_REPLACE_REF_BASE",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_SHALLOW_FILE",
    "GIT_CEILING_DIRECTORIES",
)
"""What `git rev-parse --local-env-vars` lists and the like: set by a hook around us, they mean its repository."""
IN_PROGRESS = {
    "MERGE_HEAD": "a merge",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "sequencer": "a cherry-pick or revert",
}


def commit_only(path: Path, message: str) -> str:
    """Commit this file on the current branch; the commit's id, HEAD's where the file has not changed.

    Raises `UsageError` where the repository cannot take a commit now, `DataError` where git or a hook refuses.
    """
    path = path.resolve()
    with _own_environment(), _repository(path) as repo:
        _check(repo, path)
        try:
            if not repo.git.status("--porcelain", "--untracked-files=all", "--", _only(path)):
                return repo.head.commit.hexsha
            _commit(repo, path, message)
            return repo.head.commit.hexsha
        except (GitError, ValueError) as error:
            raise _not_committed(path, _said(error)) from error


@contextmanager
def _own_environment() -> Iterator[None]:
    """Without variables that name another repository; nobody is asked anything."""
    kept = dict(os.environ)
    for name in OF_ANOTHER_REPOSITORY:
        os.environ.pop(name, None)
    os.environ |= {"GIT_TERMINAL_PROMPT": "0", "GIT_EDITOR": "true"}
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(kept)


@contextmanager
def _repository(path: Path) -> Iterator[Repo]:
    try:
        repo = Repo(path.parent, search_parent_directories=True)
    except (GitError, OSError) as error:
        raise UsageError(f"{path} is in no git repository; the report is written, not committed") from error
    try:
        yield repo
    finally:
        repo.close()


def _check(repo: Repo, path: Path) -> None:
    reason = _reason_against(repo, path)
    if reason:
        raise UsageError(f"not committed: {reason}. {path.name} is written; commit it yourself or try again")


def _reason_against(repo: Repo, path: Path) -> str | None:
    if repo.bare or repo.working_tree_dir is None:
        return "the repository is bare"
    for mark, what in IN_PROGRESS.items():
        if Path(repo.git_dir, mark).exists():
            return f"{what} is in progress"
    try:
        if repo.head.is_detached:
            return "HEAD is detached; check out a branch"
        if repo.ignored(str(path)):
            return f"git ignores {path.relative_to(Path(repo.working_tree_dir).resolve())}"
        return _no_name(repo)
    except (GitError, ValueError, OSError) as error:
        return _said(error)


def _no_name(repo: Repo) -> str | None:
    """Git would make up a name from the machine's; nobody wants that in a history."""
    try:
        for who in ("GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"):
            repo.git(c="user.useConfigOnly=true").var(who)
    except GitCommandError:
        return "git does not know who you are; set user.name and user.email"
    return None


def _commit(repo: Repo, path: Path, message: str) -> None:
    """A file that git does not know yet must be announced first; that is taken back where the commit fails."""
    known = bool(repo.git.ls_files("--", _only(path)))
    if not known:
        repo.git.add("--intent-to-add", "--", _only(path))
    try:
        repo.git(c="user.useConfigOnly=true").commit("--only", "--quiet", "-m", message, "--", _only(path))
    except GitError:
        if not known:
            with suppress(GitError):
                repo.git.rm("--cached", "--quiet", "--", _only(path))
        raise


def _only(path: Path) -> str:
    """A pathspec that means this file, whatever characters its name has."""
    return f":(literal){path}"


def _not_committed(path: Path, reason: str) -> EvalscribeError:
    return DataError(f"git did not commit {path.name} (it stays written): {reason}")


def _said(error: Exception) -> str:
    """What git or the hook said, on one line."""
    said = [getattr(error, "stderr", ""), getattr(error, "stdout", "")]
    text = " ".join(str(part).partition(": '")[2] or str(part) for part in said if part) or str(error)
    return " ".join(text.split())[:400].strip("' ")
