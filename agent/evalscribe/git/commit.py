"""Commit one file, as `git commit --only` does."""

from contextlib import suppress
from pathlib import Path

from evalscribe.errors import DataError, EvalscribeError, UsageError
from evalscribe.git.command import GitError, ReportRepository

_NAMED = ("-c", "user.useConfigOnly=true")
IN_PROGRESS = {
    "MERGE_HEAD": "a merge",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "sequencer": "a cherry-pick or revert",
}


def commit_only(path: Path, message: str) -> str:
    """Commit this file on the current branch; return the commit's id, or HEAD's if the file has not changed.

    Raises:
        UsageError: The repository cannot take a commit now.
        DataError: git or a hook refuses.
    """
    path = path.resolve()
    repo = _repository(path)
    _check(repo, path)
    try:
        if repo.text("status", "--porcelain", "--untracked-files=all", "--", _only(path)):
            _commit(repo, path, message)
        return repo.text("rev-parse", "--verify", "HEAD")
    except GitError as error:
        raise _not_committed(path, str(error)) from error


def _repository(path: Path) -> ReportRepository:
    try:
        return ReportRepository(path.parent)
    except GitError as error:
        raise UsageError(f"{path} is not in a git repository; the report was written but not committed") from error


def _check(repo: ReportRepository, path: Path) -> None:
    reason = _reason_against(repo, path)
    if reason:
        raise UsageError(f"not committed: {reason}. {path.name} is written; commit it yourself or try again")


def _reason_against(repo: ReportRepository, path: Path) -> str | None:
    if repo.top is None:
        return "the repository is bare"
    for mark, what in IN_PROGRESS.items():
        if (repo.git_dir / mark).exists():
            return f"{what} is in progress"
    try:
        if repo.ask("symbolic-ref", "--quiet", "HEAD") is None:
            return "HEAD is detached; check out a branch"
        if repo.ask("check-ignore", "--", str(path)):
            return f"git ignores {path.relative_to(repo.top.resolve())}"
        return _no_name(repo)
    except (GitError, ValueError, OSError) as error:
        return str(error)


def _no_name(repo: ReportRepository) -> str | None:
    """Return an error if no author is configured: git would derive a name from the machine's."""
    for who in ("GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"):
        if repo.ask(*_NAMED, "var", who) is None:
            return "no author is configured in git; set user.name and user.email"
    return None


def _commit(repo: ReportRepository, path: Path, message: str) -> None:
    """Commit the file; an untracked file is added first, and removed from the index if the commit fails."""
    known = bool(repo.text("ls-files", "--", _only(path)))
    if not known:
        repo.text("add", "--intent-to-add", "--", _only(path))
    try:
        repo.text(*_NAMED, "commit", "--only", "--quiet", "-m", message, "--", _only(path))
    except GitError:
        if not known:
            with suppress(GitError):
                repo.text("rm", "--cached", "--quiet", "--", _only(path))
        raise


def _only(path: Path) -> str:
    """Return a pathspec that matches exactly this file, even if its name has special characters."""
    return f":(literal){path}"


def _not_committed(path: Path, reason: str) -> EvalscribeError:
    return DataError(f"git did not commit {path.name} (the file is kept): {reason}")
