"""One commit with one file, as `git commit --only` makes it."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from git import Repo
from git.exc import GitCommandError, GitError

from evalscribe.errors import DataError, EvalscribeError, UsageError
from evalscribe.git_process import own_environment, said

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
    with own_environment(), _repository(path) as repo:
        _check(repo, path)
        try:
            if not repo.git.status("--porcelain", "--untracked-files=all", "--", _only(path)):
                return repo.head.commit.hexsha
            _commit(repo, path, message)
            return repo.head.commit.hexsha
        except (GitError, ValueError) as error:
            raise _not_committed(path, said(error)) from error


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
        return said(error)


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
