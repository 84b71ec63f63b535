"""Commits on evalscribe's own branches in real repositories; the user's state is never changed."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from evalscribe.errors import DataError, UnavailableError, UsageError
from evalscribe.git.command import GitFolder
from evalscribe.git.remotes import Remotes
from evalscribe.git.repository import GitRepository, open_repository
from support.repository_states import (
    WorkingClone,
    disarrange,
    git,
    install_hooks,
    make_clone,
    repository,
    repository_state,
)

BRANCH = "evalscribe/p/m/abc"
PATH = "reports/p/m/abc.md"


@pytest.fixture
def work(tmp_path: Path) -> WorkingClone:
    return make_clone(tmp_path)


@pytest.fixture
def repo(work: WorkingClone) -> GitRepository:
    return open_repository(work.folder)


def commit(repo: GitRepository, text: str = "x\n", path: str = PATH, branch: str | None = BRANCH) -> str:
    return repo.commit({path: text}, parent=repo.head(), branch=branch, message="Analyze a run")


@pytest.mark.parametrize("seed", range(14))
def test_commit_and_push_leave_any_repository_state_unchanged(work: WorkingClone, seed: int) -> None:
    changes = disarrange(work.folder, seed)
    before = repository_state(work.folder)
    repo = open_repository(work.folder)
    main = repo.fetch("origin")
    assert main is not None
    commit_id = repo.commit({PATH: "r\r\n€\n"}, parent=main[1], branch=BRANCH, message="m")
    repo.changed([PATH, "kept.txt"])
    pushed = repo.push("origin", BRANCH, commit_id)
    assert repository_state(work.folder) == before, changes
    assert pushed.commit == commit_id == work.refs[f"refs/heads/{BRANCH}"]
    assert sorted(work.refs) == [f"refs/heads/{BRANCH}", "refs/heads/main"]
    assert repo.read(commit_id, PATH) == "r\r\n€\n"
    assert git(work.folder, "diff", "--name-only", main[1], commit_id).split() == [PATH]


def test_git_attributes_do_not_change_the_committed_bytes(work: WorkingClone, repo: GitRepository) -> None:
    (work.folder / ".gitattributes").write_text("* text eol=crlf filter=shout ident\n")
    git(work.folder, "config", "filter.shout.clean", "tr a-z A-Z")
    git(work.folder, "config", "core.autocrlf", "input")
    text = "a\r\nb\n$Id$\n\tno end"
    assert repo.read(commit(repo, text), PATH) == text


HOSTILE = ["-rf.md", "a b\tc\nd.md", "[x]*?.md", ":(glob)x.md", 'q"uo\\te.md', "é/ü.md", "a" * 200 + ".md", "@{u}.md"]


def test_paths_with_special_characters_are_taken_literally(repo: GitRepository) -> None:
    for path in HOSTILE:
        commit_id = commit(repo, "x\n", path, branch=None)
        assert repo.read(commit_id, path) == "x\n"
        assert path in repo.files(commit_id)
        assert repo.changed([path]) == ()
        (repo.root / path).parent.mkdir(exist_ok=True)
        (repo.root / path).write_text("y")
        assert repo.changed([path, "kept.txt"]) == (path,)


NO_PLACES = ["../x", "/x", ".git/config", "a/../b", "", "a\0b", "kept.txt/x", "deep", "a//b", "link", "link/x"]


def test_path_that_cannot_hold_a_file_is_refused(work: WorkingClone, repo: GitRepository) -> None:
    (work.folder / "link").symlink_to("/etc")
    git(work.folder, "add", "link")
    git(work.folder, "commit", "-q", "-m", "link")
    before = repository_state(work.folder, "nothing")
    for path in NO_PLACES:
        with pytest.raises(UsageError, match="Nothing was changed"):
            commit(repo, "x\n", path)
    assert repository_state(work.folder, "nothing") == before
    assert "link" not in repo.files("HEAD")
    assert repo.read("HEAD", "link") is None
    assert BRANCH not in git(work.folder, "branch", "--list", BRANCH)


def test_files_are_committed_together_and_keep_their_mode(work: WorkingClone, repo: GitRepository) -> None:
    git(work.folder, "update-index", "--chmod=+x", "kept.txt")
    git(work.folder, "commit", "-q", "-m", "x")
    commit_id = repo.commit(
        {"kept.txt": "1", "new/x": "2"}, parent=repo.head(), branch=BRANCH, message="- m\n\n#1 \x00"
    )
    assert git(work.folder, "ls-tree", commit_id, "kept.txt").startswith("100755")
    assert git(work.folder, "log", "-1", "--format=%an %cn %P %s", commit_id).strip() == f"Ada Ada {repo.head()} - m"


def test_unreadable_files_are_read_as_none(work: WorkingClone, repo: GitRepository) -> None:
    (work.folder / "latin").write_bytes(b"\xff\xfe")
    (work.folder / "binary").write_bytes(b"a\0b")
    git(work.folder, "add", "latin", "binary")
    git(work.folder, "commit", "-q", "-m", "x")
    assert [repo.read("HEAD", path) for path in ("latin", "binary", "deep", "none", "")] == [None] * 5
    with pytest.raises(UsageError):
        repo.read("no-such-commit", "kept.txt")


def test_changed_sees_index_work_tree_and_new_files(work: WorkingClone, repo: GitRepository) -> None:
    (work.folder / "x.ignored").write_text("i")
    (work.folder / "deep/er/file.txt").unlink()
    (work.folder / "kept.txt").write_text("staged")
    git(work.folder, "add", "kept.txt")
    (work.folder / "kept.txt").write_text("second\n")
    paths = ["crlf.txt", "x.ignored", "deep/er/file.txt", "kept.txt", "none", "deep"]
    assert repo.changed(paths) == ("x.ignored", "deep/er/file.txt", "kept.txt")
    assert repo.changed([]) == ()


def test_branch_moves_forward_only(work: WorkingClone, repo: GitRepository) -> None:
    first = commit(repo, "1")
    second = repo.commit({PATH: "2"}, parent=first, branch=BRANCH, message="2")
    assert git(work.folder, "rev-parse", BRANCH).strip() == second
    with pytest.raises(UsageError, match="has commits that are not in"):
        commit(repo, "3")
    assert git(work.folder, "rev-parse", BRANCH).strip() == second


def test_commit_without_a_branch_creates_no_ref_and_can_be_pushed(work: WorkingClone, repo: GitRepository) -> None:
    before = git(work.folder, "for-each-ref")
    commit_id = commit(repo, "1", branch=None)
    assert git(work.folder, "for-each-ref") == before
    assert repo.push("origin", BRANCH, commit_id).commit == work.refs[f"refs/heads/{BRANCH}"] == commit_id


def test_commit_can_merge_the_main_branch(work: WorkingClone, repo: GitRepository) -> None:
    mine = commit(repo, "mine")
    (work.folder / "kept.txt").write_text("third\n")
    git(work.folder, "commit", "-q", "-a", "-m", "third")
    assert repo.common(mine, "main") == git(work.folder, "rev-parse", "main^").strip()
    commit_id = repo.commit({PATH: "both"}, parent=mine, merging=repo.head(), branch=BRANCH, message="m")
    assert git(work.folder, "diff", "--name-only", "main", commit_id).split() == [PATH]
    assert repo.common(commit_id, mine) == mine
    assert repo.common(commit_id, "main") == repo.head()


def test_merge_keeps_changes_of_other_files_and_refuses_conflicts(
    work: WorkingClone, repo: GitRepository, tmp_path: Path
) -> None:
    repo.push("origin", BRANCH, commit(repo, "mine"))
    other = work.other(tmp_path / "grace")
    git(other, "switch", "-q", BRANCH)
    (other / "notes.md").write_text("seen")
    (other / "crlf.txt").unlink()
    git(other, "add", "--all")
    git(other, "commit", "-q", "-m", "notes")
    git(other, "push", "-q", "origin", BRANCH)
    git(other, "switch", "-q", "main")
    (other / "kept.txt").write_text("third\n")
    git(other, "commit", "-q", "-a", "-m", "third")
    git(other, "push", "-q", "origin", "main")
    tip, main = repo.fetch("origin", BRANCH), repo.fetch("origin")
    assert tip
    assert main
    commit_id = repo.commit({PATH: "both"}, parent=tip[1], merging=main[1], message="m")
    assert (repo.read(commit_id, "notes.md"), repo.read(commit_id, "kept.txt")) == ("seen", "third\n")
    assert git(work.folder, "diff", "--name-only", main[1], commit_id).split() == ["crlf.txt", "notes.md", PATH]
    clash = repo.commit({"kept.txt": "fourth\n"}, parent=tip[1], message="m")
    with pytest.raises(DataError, match=r"both changed kept\.txt "):
        repo.commit({PATH: "both"}, parent=clash, merging=main[1], message="m")


RENAMING = """#!{python} -ISs
import os, subprocess, sys
real = subprocess.Popen(["git", "upload-pack", *sys.argv[1:]], stdout=subprocess.PIPE).stdout
while answer := os.read(real.fileno(), 65536):
    os.write(1, answer.replace({real}, {said}))
"""
"""A server that reports a branch under another name of the same length."""


def test_forged_branch_name_from_a_server_moves_no_local_branch(
    work: WorkingClone, repo: GitRepository, tmp_path: Path
) -> None:
    git(work.folder, "branch", "victim", "HEAD^")
    other = work.other(tmp_path / "other")
    (other / "kept.txt").write_text("third")
    git(other, "commit", "-q", "-a", "-m", "third")
    git(other, "push", "-q", "origin", "main")
    forged = "refs/heads/main:refs/heads/victim"
    real = "refs/heads/".ljust(len(forged), "x")
    git(work.remote, "update-ref", real, "refs/heads/main")
    git(work.remote, "symbolic-ref", "HEAD", real)
    server = tmp_path / "server"
    server.write_text(RENAMING.format(python=sys.executable, real=real.encode(), said=forged.encode()))
    server.chmod(0o755)
    git(work.folder, "config", "remote.origin.uploadpack", str(server))
    assert forged in git(work.folder, "ls-remote", "origin")
    before = repository_state(work.folder)
    assert repo.fetch("origin") == ("main", work.refs["refs/heads/main"])
    assert repository_state(work.folder) == before


def test_fetch_commit_and_push_download_no_missing_files_of_a_partial_clone(work: WorkingClone, tmp_path: Path) -> None:
    """Git would download the missing files one by one."""
    git(work.remote, "config", "uploadpack.allowFilter", "true")
    part = tmp_path / "part"
    git(tmp_path, "clone", "-q", "--filter=blob:none", "--no-checkout", f"file://{work.remote}", str(part))
    git(part, "config", "user.name", "Ada")
    git(part, "config", "user.email", "a@b.c")
    (work.folder / "kept.txt").write_text("third")
    git(work.folder, "commit", "-q", "-a", "-m", "third")
    git(work.folder, "push", "-q")
    repo = open_repository(part)
    main = repo.fetch("origin")
    assert main is not None
    repo.push("origin", BRANCH, repo.commit({PATH: "x"}, parent=main[1], message="m"))
    missing = git(part, "rev-list", "--objects", "--missing=print", main[1]).count("\n?")
    assert missing == len(git(part, "ls-tree", "-r", main[1]).splitlines()) + len(["first kept.txt", "second kept.txt"])


def test_local_replace_refs_do_not_affect_the_published_commit(work: WorkingClone, repo: GitRepository) -> None:
    head = repo.head()
    (work.folder / "private.txt").write_text("mine")
    git(work.folder, "add", "private.txt")
    git(work.folder, "commit", "-q", "-m", "private")
    git(work.folder, "replace", head, repo.head())
    commit_id = repo.commit({PATH: "x"}, parent=head, message="m")
    repo.push("origin", BRANCH, commit_id)
    assert git(work.remote, "diff", "--name-only", "main", commit_id).split() == [PATH]


def test_commit_on_a_checked_out_branch_is_refused(work: WorkingClone, repo: GitRepository, tmp_path: Path) -> None:
    for n, use in enumerate((("switch", "-q", "-c", "b0"), ("worktree", "add", "-q", "-b", "b1", str(tmp_path / "t")))):
        git(work.folder, *use)
        with pytest.raises(UsageError, match="checked out"):
            commit(repo, branch=f"b{n}")
    (tmp_path / "t/kept.txt").write_text("x")
    git(tmp_path / "t", "commit", "-q", "-a", "-m", "x")
    git(tmp_path / "t", "-c", "sequence.editor=echo break >", "rebase", "-q", "-i", "HEAD^")
    with pytest.raises(UsageError, match="checked out"):
        commit(repo, branch="b1")


def test_invalid_branch_name_is_refused(repo: GitRepository) -> None:
    for branch in ("", "-x", "a..b", "a b", "x.lock", "@", "a/", "HEAD", "@{-1}"):
        with pytest.raises(UsageError):
            commit(repo, branch=branch)


def test_commit_without_a_user_name_is_refused(work: WorkingClone, repo: GitRepository) -> None:
    git(work.folder, "config", "--unset", "user.name")
    with pytest.raises(UsageError, match=r"user\.name"):
        commit(repo)
    assert git(work.folder, "branch", "--list", "evalscribe/*") == ""


def test_commit_is_signed_if_the_user_signs_commits(work: WorkingClone, repo: GitRepository, tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key"], check=True)
    for name, value in {"gpg.format": "ssh", "user.signingKey": str(tmp_path / "key"), "commit.gpgSign": "yes"}.items():
        git(work.folder, "config", name, value)
    git(work.folder, "config", "log.showSignature", "true")
    assert "BEGIN SSH SIGNATURE" in git(work.folder, "cat-file", "commit", commit(repo))
    tip = repo.tip(BRANCH)
    assert tip
    assert tip.message.strip() == "Analyze a run"
    (tmp_path / "key").unlink()
    with pytest.raises(UsageError, match="gpgSign"):
        commit(repo, branch="other")


def test_git_environment_of_another_repository_is_ignored(
    work: WorkingClone, repo: GitRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = repository(tmp_path / "elsewhere")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / "index"))
    monkeypatch.setenv("GIT_GLOB_PATHSPECS", "1")
    commit_id = commit(repo)
    monkeypatch.undo()
    assert git(work.folder, "rev-parse", BRANCH).strip() == commit_id
    assert os.listdir(other) == [".git"]


def test_commits_work_in_linked_work_trees_submodules_and_subfolders(work: WorkingClone, tmp_path: Path) -> None:
    git(work.folder, "worktree", "add", "-q", "-b", "linked", str(tmp_path / "linked"))
    top = repository(tmp_path / "top")
    git(top, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(work.remote), "sub")
    git(top / "sub", "config", "user.name", "Ada")
    git(top / "sub", "config", "user.email", "a@b.c")
    for folder in (tmp_path / "linked", work.folder / "deep/er", top / "sub/deep"):
        repo = open_repository(folder)
        commit_id = repo.commit({PATH: "x"}, parent=repo.head(), branch=f"evalscribe/{folder.name}", message="m")
        assert repo.read(commit_id, PATH) == "x"
    assert open_repository(top / "sub/deep").root == top / "sub"
    git(top, "commit", "-q", "-m", "sub")
    with pytest.raises(UsageError, match="cannot be a regular file"):
        open_repository(top).commit({"sub": "x"}, parent="HEAD", branch="b", message="m")


def test_sha256_repository_is_supported(tmp_path: Path) -> None:
    work = repository(tmp_path / "w", "--object-format=sha256")
    (work / "x").write_text("x")
    git(work, "add", "x")
    git(work, "commit", "-q", "-m", "x")
    repo = open_repository(work)
    commit_id = commit(repo)
    assert len(commit_id) == 64
    assert repo.files(commit_id) == (PATH, "x")


def test_folder_without_a_work_tree_or_commit_is_refused(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "bare.git")
    (tmp_path / "plain").mkdir()
    for folder in (tmp_path / "bare.git", tmp_path / "plain", tmp_path / "none"):
        with pytest.raises(UsageError):
            open_repository(folder)
    with pytest.raises(UsageError, match="no commit yet"):
        open_repository(repository(tmp_path / "empty")).head()


def test_shallow_clone_can_push_and_fetch_and_stays_shallow(work: WorkingClone, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{work.remote}", "shallow")
    git(tmp_path / "shallow", "config", "user.name", "Ada")
    git(tmp_path / "shallow", "config", "user.email", "a@b.c")
    repo = open_repository(tmp_path / "shallow")
    repo.push("origin", BRANCH, commit(repo))
    assert repo.fetch("origin", BRANCH) == (BRANCH, work.refs[f"refs/heads/{BRANCH}"])
    assert (tmp_path / "shallow/.git/shallow").exists()


def test_fetch_finds_a_named_branch_and_the_main_branch(
    work: WorkingClone, repo: GitRepository, tmp_path: Path
) -> None:
    other = work.other(tmp_path / "other")
    git(other, "switch", "-q", "-c", BRANCH)
    (other / "kept.txt").write_text("theirs")
    git(other, "commit", "-q", "-a", "-m", "theirs")
    git(other, "push", "-q", "origin", BRANCH)
    before = repository_state(work.folder, "nothing")
    tip = git(other, "rev-parse", "HEAD").strip()
    assert repo.fetch("origin", BRANCH) == (BRANCH, tip)
    assert repo.read(tip, "kept.txt") == "theirs"
    assert repo.fetch("origin", "none") is None
    git(work.remote, "symbolic-ref", "HEAD", "refs/heads/gone")
    assert repo.fetch("origin") == ("main", repo.head())
    assert repository_state(work.folder, "nothing") == before
    git(tmp_path, "init", "-q", "--bare", "void.git")
    git(work.folder, "remote", "add", "void", str(tmp_path / "void.git"))
    assert repo.fetch("void") is None


def test_fetch_reads_from_the_push_url(work: WorkingClone, repo: GitRepository, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(work.remote), "fork.git")
    git(work.folder, "remote", "set-url", "--push", "origin", str(tmp_path / "fork.git"))
    first = commit(repo)
    repo.push("origin", BRANCH, first)
    assert repo.fetch("origin", BRANCH) == (BRANCH, first)
    assert f"refs/heads/{BRANCH}" not in work.refs
    other = work.other(tmp_path / "other")
    git(other, "commit", "-q", "--allow-empty", "-m", "more")
    git(other, "push", "-q", str(tmp_path / "fork.git"), "HEAD:main")
    assert repo.fetch("origin") == ("main", git(other, "rev-parse", "HEAD").strip())


def test_rejected_push_is_an_error_and_is_not_forced(work: WorkingClone, repo: GitRepository, tmp_path: Path) -> None:
    repo.push("origin", BRANCH, commit(repo, "mine"))
    other = repo.commit({PATH: "other"}, parent=repo.head(), message="other")
    with pytest.raises(DataError, match="rejected"):
        repo.push("origin", BRANCH, other)
    hook = work.remote / "hooks/pre-receive"
    hook.write_text("#!/bin/sh\necho policy says no >&2\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(DataError, match="policy says no"):
        repo.push("origin", "else", other)
    git(work.folder, "remote", "add", "gone", str(tmp_path / "gone.git"))
    for attempt in (lambda: repo.fetch("gone"), lambda: repo.push("gone", BRANCH, other)):
        with pytest.raises(UnavailableError):
            attempt()


def test_silent_server_is_given_up_after_the_time_limit(work: WorkingClone) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        git(work.folder, "remote", "add", "silent", f"git://127.0.0.1:{silent.getsockname()[1]}/a/b")
        with pytest.raises(UnavailableError, match="cannot reach silent: no response within"):
            Remotes(GitFolder(work.folder), answer_s=0.3).fetch("silent", None)


def test_default_remote_is_the_upstream_or_else_origin(work: WorkingClone, repo: GitRepository) -> None:
    assert (repo.remote(), repo.remote("origin")) == ("origin", "origin")
    with pytest.raises(UsageError, match="origin"):
        repo.remote("--upload-pack=x")
    git(work.folder, "remote", "rename", "origin", "up")
    assert repo.remote() == "up"
    git(work.folder, "remote", "add", "origin", "https://ada:secret@example.org/a/b.git")
    assert repo.remote() == "up"
    assert repo.remote_url("origin") == "https://example.org/a/b.git"
    git(work.folder, "branch", "--unset-upstream")
    assert repo.remote() == "origin"
    git(work.folder, "remote", "rename", "origin", "third")
    with pytest.raises(UsageError, match="`remote`"):
        repo.remote()
    assert repo.remote_url("none") is None


def test_installed_hook_leaves_a_trace_when_it_runs(work: WorkingClone) -> None:
    """Otherwise the first test in this file would prove nothing about hooks."""
    install_hooks(work.folder)
    git(work.folder, "commit", "-q", "--allow-empty", "-m", "x", code=1)
    assert (work.folder / "hook-ran.txt").read_text() == "pre-commit\n"
