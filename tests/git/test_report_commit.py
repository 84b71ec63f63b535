"""Commits of only the report in real repositories; everything else is unchanged to the byte."""

import os
import subprocess
from pathlib import Path

import pytest

from evalscribe.errors import DataError, UsageError
from evalscribe.git.report_folder import ReportsFolder

NAME = "p/m/a_2026-01-01.md"


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    git(work, "init", "-q", "-b", "main")
    git(work, "config", "user.name", "Ada")
    git(work, "config", "user.email", "ada@example.org")
    for name in ("kept.txt", "staged.txt", "both.txt"):
        (work / name).write_text("old\n")
    git(work, "add", ".")
    git(work, "commit", "-q", "-m", "start")
    return work


@pytest.fixture
def folder(work: Path) -> ReportsFolder:
    return ReportsFolder(work / "reports")


def test_commit_contains_only_the_report(work: Path, folder: ReportsFolder) -> None:
    (work / "staged.txt").write_text("staged\n")
    (work / "new.txt").write_text("new\n")
    (work / "both.txt").write_text("staged\n")
    git(work, "add", "staged.txt", "new.txt", "both.txt")
    (work / "both.txt").write_text("and not staged\n")
    (work / "kept.txt").unlink()
    before = (git(work, "diff", "--cached"), git(work, "diff"), git(work, "status", "--porcelain"))
    path = folder.write(NAME, "report\n")
    commit = folder.commit(path, "Analyze a run")
    assert commit == git(work, "rev-parse", "main").strip()
    assert git(work, "show", "--name-status", "--format=%s", commit) == f"Analyze a run\n\nA\treports/{NAME}\n"
    assert (git(work, "diff", "--cached"), git(work, "diff"), git(work, "status", "--porcelain")) == before


def test_unchanged_report_is_not_committed_again(work: Path, folder: ReportsFolder) -> None:
    first = folder.commit(folder.write(NAME, "one\n"), "one")
    second = folder.commit(folder.write(NAME, "two\n"), "two")
    assert git(work, "rev-parse", f"{second}^").strip() == first
    assert folder.commit(folder.root / NAME, "three") == second


def test_report_can_be_the_first_commit_of_a_repository(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    git(tmp_path, "config", "user.name", "Ada")
    git(tmp_path, "config", "user.email", "ada@example.org")
    folder = ReportsFolder(tmp_path / "reports")
    commit = folder.commit(folder.write(NAME, "x\n"), "first")
    assert git(tmp_path, "rev-list", "HEAD").split() == [commit]


def test_report_with_an_odd_name_is_committed_in_a_linked_work_tree(work: Path, tmp_path: Path) -> None:
    git(work, "worktree", "add", "-q", "-b", "other", str(tmp_path / "tree"))
    folder = ReportsFolder(tmp_path / "tree" / "reports")
    commit = folder.commit(folder.write("p/m/[a]*-é.md", "x\n"), "- odd\n\nmessage")
    assert git(work, "rev-parse", "other").strip() == commit


def test_git_dir_of_another_repository_in_the_environment_is_ignored(
    work: Path, folder: ReportsFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(tmp_path, "init", "-q", "elsewhere")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere/.git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    commit = folder.commit(folder.write(NAME, "x\n"), "mine")
    assert os.environ["GIT_DIR"].endswith("elsewhere/.git")
    monkeypatch.undo()
    assert git(work, "rev-parse", "main").strip() == commit
    assert not (tmp_path / "index").exists()


def detached(work: Path) -> None:
    git(work, "checkout", "-q", "--detach")


def merging(work: Path) -> None:
    git(work, "checkout", "-q", "-b", "side")
    (work / "kept.txt").write_text("side\n")
    git(work, "commit", "-qam", "side")
    git(work, "checkout", "-q", "main")
    (work / "kept.txt").write_text("main\n")
    git(work, "commit", "-qam", "main")
    subprocess.run(["git", "merge", "side"], cwd=work, capture_output=True, check=False)


def picking(work: Path) -> None:
    merging(work)
    git(work, "merge", "--abort")
    subprocess.run(["git", "cherry-pick", "side"], cwd=work, capture_output=True, check=False)


def rebasing(work: Path) -> None:
    merging(work)
    git(work, "merge", "--abort")
    subprocess.run(["git", "rebase", "side"], cwd=work, capture_output=True, check=False)


def ignoring(work: Path) -> None:
    (work / ".gitignore").write_text("reports/\n")


def nameless(work: Path) -> None:
    git(work, "config", "--unset", "user.name")


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (detached, "detached"),
        (merging, "a merge is in progress"),
        (picking, "a cherry-pick is in progress"),
        (rebasing, "a rebase is in progress"),
        (ignoring, "git ignores reports/p/m"),
        (nameless, "set user.name"),
    ],
)
def test_refused_commit_leaves_repository_and_report_unchanged(
    work: Path, folder: ReportsFolder, state: object, reason: str
) -> None:
    state(work)  # type: ignore[operator]
    path = folder.write(NAME, "report\n")
    before = (git(work, "rev-parse", "HEAD"), git(work, "status", "--porcelain"), (work / ".git/index").read_bytes())
    with pytest.raises(UsageError, match=reason):
        folder.commit(path, "x")
    after = (git(work, "rev-parse", "HEAD"), git(work, "status", "--porcelain"), (work / ".git/index").read_bytes())
    assert after == before
    assert path.read_text() == "report\n"


def test_commit_outside_a_repository_is_refused(tmp_path: Path) -> None:
    folder = ReportsFolder(tmp_path / "reports")
    path = folder.write(NAME, "x")
    with pytest.raises(UsageError, match="not in a git repository"):
        folder.commit(path, "x")
    assert path.exists()


def test_commit_in_a_bare_repository_is_refused(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "bare.git")
    folder = ReportsFolder(tmp_path / "bare.git" / "reports")
    with pytest.raises(UsageError, match=r"bare|no git repository"):
        folder.commit(folder.write(NAME, "x"), "x")


@pytest.mark.parametrize("known", [True, False])
def test_failing_hook_is_quoted_and_nothing_is_committed(work: Path, folder: ReportsFolder, known: bool) -> None:
    if known:
        folder.commit(folder.write(NAME, "first\n"), "first")
    hook = work / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho 'reports are frozen' >&2\nexit 1\n")
    hook.chmod(0o755)
    path = folder.write(NAME, "report\n")
    before = (git(work, "rev-parse", "HEAD"), git(work, "status", "--porcelain"))
    with pytest.raises(DataError, match="reports are frozen"):
        folder.commit(path, "x")
    assert (git(work, "rev-parse", "HEAD"), git(work, "status", "--porcelain")) == before
    assert path.read_text() == "report\n"
