"""Commits on branches of our own, in real repositories: everything that is the user's stays as it was."""

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
def found(work: WorkingClone) -> GitRepository:
    return open_repository(work.folder)


def commit(found: GitRepository, text: str = "x\n", path: str = PATH, branch: str | None = BRANCH) -> str:
    return found.commit({path: text}, parent=found.head(), branch=branch, message="Analyze a run")


@pytest.mark.parametrize("seed", range(14))
def test_whatever_is_going_on_in_the_repository_stays(work: WorkingClone, seed: int) -> None:
    done = disarrange(work.folder, seed)
    before = repository_state(work.folder)
    found = open_repository(work.folder)
    main = found.fetch("origin")
    assert main is not None
    made = found.commit({PATH: "r\r\n€\n"}, parent=main[1], branch=BRANCH, message="m")
    found.changed([PATH, "kept.txt"])
    pushed = found.push("origin", BRANCH, made)
    assert repository_state(work.folder) == before, done
    assert pushed.commit == made == work.refs[f"refs/heads/{BRANCH}"]
    assert sorted(work.refs) == [f"refs/heads/{BRANCH}", "refs/heads/main"]
    assert found.read(made, PATH) == "r\r\n€\n"
    assert git(work.folder, "diff", "--name-only", main[1], made).split() == [PATH]


def test_bytes_are_as_given_whatever_attributes_say(work: WorkingClone, found: GitRepository) -> None:
    (work.folder / ".gitattributes").write_text("* text eol=crlf filter=shout ident\n")
    git(work.folder, "config", "filter.shout.clean", "tr a-z A-Z")
    git(work.folder, "config", "core.autocrlf", "input")
    text = "a\r\nb\n$Id$\n\tno end"
    assert found.read(commit(found, text), PATH) == text


HOSTILE = ["-rf.md", "a b\tc\nd.md", "[x]*?.md", ":(glob)x.md", 'q"uo\\te.md', "é/ü.md", "a" * 200 + ".md", "@{u}.md"]


def test_names_are_only_names(found: GitRepository) -> None:
    for path in HOSTILE:
        made = commit(found, "x\n", path, branch=None)
        assert found.read(made, path) == "x\n"
        assert path in found.files(made)
        assert found.changed([path]) == ()
        (found.root / path).parent.mkdir(exist_ok=True)
        (found.root / path).write_text("y")
        assert found.changed([path, "kept.txt"]) == (path,)


NO_PLACES = ["../x", "/x", ".git/config", "a/../b", "", "a\0b", "kept.txt/x", "deep", "a//b", "link", "link/x"]


def test_paths_that_are_no_place_for_a_file(work: WorkingClone, found: GitRepository) -> None:
    (work.folder / "link").symlink_to("/etc")
    git(work.folder, "add", "link")
    git(work.folder, "commit", "-q", "-m", "link")
    before = repository_state(work.folder, "nothing")
    for path in NO_PLACES:
        with pytest.raises(UsageError, match="Nothing was changed"):
            commit(found, "x\n", path)
    assert repository_state(work.folder, "nothing") == before
    assert "link" not in found.files("HEAD")
    assert found.read("HEAD", "link") is None
    assert BRANCH not in git(work.folder, "branch", "--list", BRANCH)


def test_mode_of_a_file_stays_and_several_files_are_one_commit(work: WorkingClone, found: GitRepository) -> None:
    git(work.folder, "update-index", "--chmod=+x", "kept.txt")
    git(work.folder, "commit", "-q", "-m", "x")
    made = found.commit({"kept.txt": "1", "new/x": "2"}, parent=found.head(), branch=BRANCH, message="- m\n\n#1 \x00")
    assert git(work.folder, "ls-tree", made, "kept.txt").startswith("100755")
    assert git(work.folder, "log", "-1", "--format=%an %cn %P %s", made).strip() == f"Ada Ada {found.head()} - m"


def test_unreadable_files_are_none(work: WorkingClone, found: GitRepository) -> None:
    (work.folder / "latin").write_bytes(b"\xff\xfe")
    (work.folder / "binary").write_bytes(b"a\0b")
    git(work.folder, "add", "latin", "binary")
    git(work.folder, "commit", "-q", "-m", "x")
    assert [found.read("HEAD", path) for path in ("latin", "binary", "deep", "none", "")] == [None] * 5
    with pytest.raises(UsageError):
        found.read("no-such-commit", "kept.txt")


def test_changed_sees_index_work_tree_and_new_files(work: WorkingClone, found: GitRepository) -> None:
    (work.folder / "x.ignored").write_text("i")
    (work.folder / "deep/er/file.txt").unlink()
    (work.folder / "kept.txt").write_text("staged")
    git(work.folder, "add", "kept.txt")
    (work.folder / "kept.txt").write_text("second\n")
    paths = ["crlf.txt", "x.ignored", "deep/er/file.txt", "kept.txt", "none", "deep"]
    assert found.changed(paths) == ("x.ignored", "deep/er/file.txt", "kept.txt")
    assert found.changed([]) == ()


def test_branch_moves_forward_only(work: WorkingClone, found: GitRepository) -> None:
    first = commit(found, "1")
    second = found.commit({PATH: "2"}, parent=first, branch=BRANCH, message="2")
    assert git(work.folder, "rev-parse", BRANCH).strip() == second
    with pytest.raises(UsageError, match="has commits that are not in"):
        commit(found, "3")
    assert git(work.folder, "rev-parse", BRANCH).strip() == second


def test_no_branch_needs_none(work: WorkingClone, found: GitRepository) -> None:
    before = git(work.folder, "for-each-ref")
    made = commit(found, "1", branch=None)
    assert git(work.folder, "for-each-ref") == before
    assert found.push("origin", BRANCH, made).commit == work.refs[f"refs/heads/{BRANCH}"] == made


def test_merges_of_the_main_branch(work: WorkingClone, found: GitRepository) -> None:
    mine = commit(found, "mine")
    (work.folder / "kept.txt").write_text("third\n")
    git(work.folder, "commit", "-q", "-a", "-m", "third")
    assert found.common(mine, "main") == git(work.folder, "rev-parse", "main^").strip()
    made = found.commit({PATH: "both"}, parent=mine, merging=found.head(), branch=BRANCH, message="m")
    assert git(work.folder, "diff", "--name-only", "main", made).split() == [PATH]
    assert found.common(made, mine) == mine
    assert found.common(made, "main") == found.head()


def test_merges_keep_what_people_did_to_other_files(work: WorkingClone, found: GitRepository, tmp_path: Path) -> None:
    found.push("origin", BRANCH, commit(found, "mine"))
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
    tip, main = found.fetch("origin", BRANCH), found.fetch("origin")
    assert tip
    assert main
    made = found.commit({PATH: "both"}, parent=tip[1], merging=main[1], message="m")
    assert (found.read(made, "notes.md"), found.read(made, "kept.txt")) == ("seen", "third\n")
    assert git(work.folder, "diff", "--name-only", main[1], made).split() == ["crlf.txt", "notes.md", PATH]
    clash = found.commit({"kept.txt": "fourth\n"}, parent=tip[1], message="m")
    with pytest.raises(DataError, match=r"both changed kept\.txt "):
        found.commit({PATH: "both"}, parent=clash, merging=main[1], message="m")


RENAMING = """#!{python} -ISs
import os, subprocess, sys
real = subprocess.Popen(["git", "upload-pack", *sys.argv[1:]], stdout=subprocess.PIPE).stdout
while answer := os.read(real.fileno(), 65536):
    os.write(1, answer.replace({real}, {said}))
"""
"""A server that calls a branch something else, of the same length."""


def test_what_a_server_calls_a_branch_moves_none_of_ours(
    work: WorkingClone, found: GitRepository, tmp_path: Path
) -> None:
    git(work.folder, "branch", "victim", "HEAD^")
    other = work.other(tmp_path / "other")
    (other / "kept.txt").write_text("third")
    git(other, "commit", "-q", "-a", "-m", "third")
    git(other, "push", "-q", "origin", "main")
    said = "refs/heads/main:refs/heads/victim"
    real = "refs/heads/".ljust(len(said), "x")
    git(work.remote, "update-ref", real, "refs/heads/main")
    git(work.remote, "symbolic-ref", "HEAD", real)
    server = tmp_path / "server"
    server.write_text(RENAMING.format(python=sys.executable, real=real.encode(), said=said.encode()))
    server.chmod(0o755)
    git(work.folder, "config", "remote.origin.uploadpack", str(server))
    assert said in git(work.folder, "ls-remote", "origin")
    before = repository_state(work.folder)
    assert found.fetch("origin") == ("main", work.refs["refs/heads/main"])
    assert repository_state(work.folder) == before


def test_a_partial_clone_stays_one(work: WorkingClone, tmp_path: Path) -> None:
    """Files that it left with the remote do not come, which they would one by one."""
    git(work.remote, "config", "uploadpack.allowFilter", "true")
    part = tmp_path / "part"
    git(tmp_path, "clone", "-q", "--filter=blob:none", "--no-checkout", f"file://{work.remote}", str(part))
    git(part, "config", "user.name", "Ada")
    git(part, "config", "user.email", "a@b.c")
    (work.folder / "kept.txt").write_text("third")
    git(work.folder, "commit", "-q", "-a", "-m", "third")
    git(work.folder, "push", "-q")
    found = open_repository(part)
    main = found.fetch("origin")
    assert main is not None
    found.push("origin", BRANCH, found.commit({PATH: "x"}, parent=main[1], message="m"))
    left = git(part, "rev-list", "--objects", "--missing=print", main[1]).count("\n?")
    assert left == len(git(part, "ls-tree", "-r", main[1]).splitlines()) + len(["first kept.txt", "second kept.txt"])


def test_what_only_this_folder_replaces_is_not_published(work: WorkingClone, found: GitRepository) -> None:
    head = found.head()
    (work.folder / "private.txt").write_text("mine")
    git(work.folder, "add", "private.txt")
    git(work.folder, "commit", "-q", "-m", "private")
    git(work.folder, "replace", head, found.head())
    made = found.commit({PATH: "x"}, parent=head, message="m")
    found.push("origin", BRANCH, made)
    assert git(work.remote, "diff", "--name-only", "main", made).split() == [PATH]


def test_a_branch_in_use_is_left_alone(work: WorkingClone, found: GitRepository, tmp_path: Path) -> None:
    for n, use in enumerate((("switch", "-q", "-c", "b0"), ("worktree", "add", "-q", "-b", "b1", str(tmp_path / "t")))):
        git(work.folder, *use)
        with pytest.raises(UsageError, match="checked out"):
            commit(found, branch=f"b{n}")
    (tmp_path / "t/kept.txt").write_text("x")
    git(tmp_path / "t", "commit", "-q", "-a", "-m", "x")
    git(tmp_path / "t", "-c", "sequence.editor=echo break >", "rebase", "-q", "-i", "HEAD^")
    with pytest.raises(UsageError, match="checked out"):
        commit(found, branch="b1")


def test_what_is_no_name_of_a_branch(found: GitRepository) -> None:
    for branch in ("", "-x", "a..b", "a b", "x.lock", "@", "a/", "HEAD", "@{-1}"):
        with pytest.raises(UsageError):
            commit(found, branch=branch)


def test_nobody_knows_who_commits(work: WorkingClone, found: GitRepository) -> None:
    git(work.folder, "config", "--unset", "user.name")
    with pytest.raises(UsageError, match=r"user\.name"):
        commit(found)
    assert git(work.folder, "branch", "--list", "evalscribe/*") == ""


def test_commits_are_signed_where_the_users_are(work: WorkingClone, found: GitRepository, tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key"], check=True)
    for name, value in {"gpg.format": "ssh", "user.signingKey": str(tmp_path / "key"), "commit.gpgSign": "yes"}.items():
        git(work.folder, "config", name, value)
    git(work.folder, "config", "log.showSignature", "true")
    assert "BEGIN SSH SIGNATURE" in git(work.folder, "cat-file", "commit", commit(found))
    tip = found.tip(BRANCH)
    assert tip
    assert tip.message.strip() == "Analyze a run"
    (tmp_path / "key").unlink()
    with pytest.raises(UsageError, match="gpgSign"):
        commit(found, branch="other")


def test_an_environment_of_another_repository_is_ignored(
    work: WorkingClone, found: GitRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = repository(tmp_path / "elsewhere")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / "index"))
    monkeypatch.setenv("GIT_GLOB_PATHSPECS", "1")
    made = commit(found)
    monkeypatch.undo()
    assert git(work.folder, "rev-parse", BRANCH).strip() == made
    assert os.listdir(other) == [".git"]


def test_linked_work_trees_submodules_and_subfolders(work: WorkingClone, tmp_path: Path) -> None:
    git(work.folder, "worktree", "add", "-q", "-b", "linked", str(tmp_path / "linked"))
    top = repository(tmp_path / "top")
    git(top, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(work.remote), "sub")
    git(top / "sub", "config", "user.name", "Ada")
    git(top / "sub", "config", "user.email", "a@b.c")
    for folder in (tmp_path / "linked", work.folder / "deep/er", top / "sub/deep"):
        found = open_repository(folder)
        made = found.commit({PATH: "x"}, parent=found.head(), branch=f"evalscribe/{folder.name}", message="m")
        assert found.read(made, PATH) == "x"
    assert open_repository(top / "sub/deep").root == top / "sub"
    git(top, "commit", "-q", "-m", "sub")
    with pytest.raises(UsageError, match="cannot be a regular file"):
        open_repository(top).commit({"sub": "x"}, parent="HEAD", branch="b", message="m")


def test_repositories_of_sha256(tmp_path: Path) -> None:
    work = repository(tmp_path / "w", "--object-format=sha256")
    (work / "x").write_text("x")
    git(work, "add", "x")
    git(work, "commit", "-q", "-m", "x")
    found = open_repository(work)
    made = commit(found)
    assert len(made) == 64
    assert found.files(made) == (PATH, "x")


def test_folders_that_are_no_repository(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "bare.git")
    (tmp_path / "plain").mkdir()
    for folder in (tmp_path / "bare.git", tmp_path / "plain", tmp_path / "none"):
        with pytest.raises(UsageError):
            open_repository(folder)
    with pytest.raises(UsageError, match="no commit yet"):
        open_repository(repository(tmp_path / "empty")).head()


def test_shallow_clones(work: WorkingClone, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{work.remote}", "shallow")
    git(tmp_path / "shallow", "config", "user.name", "Ada")
    git(tmp_path / "shallow", "config", "user.email", "a@b.c")
    found = open_repository(tmp_path / "shallow")
    found.push("origin", BRANCH, commit(found))
    assert found.fetch("origin", BRANCH) == (BRANCH, work.refs[f"refs/heads/{BRANCH}"])
    assert (tmp_path / "shallow/.git/shallow").exists()


def test_fetch_finds_branches_and_main_ones(work: WorkingClone, found: GitRepository, tmp_path: Path) -> None:
    other = work.other(tmp_path / "other")
    git(other, "switch", "-q", "-c", BRANCH)
    (other / "kept.txt").write_text("theirs")
    git(other, "commit", "-q", "-a", "-m", "theirs")
    git(other, "push", "-q", "origin", BRANCH)
    before = repository_state(work.folder, "nothing")
    tip = git(other, "rev-parse", "HEAD").strip()
    assert found.fetch("origin", BRANCH) == (BRANCH, tip)
    assert found.read(tip, "kept.txt") == "theirs"
    assert found.fetch("origin", "none") is None
    git(work.remote, "symbolic-ref", "HEAD", "refs/heads/gone")
    assert found.fetch("origin") == ("main", found.head())
    assert repository_state(work.folder, "nothing") == before
    git(tmp_path, "init", "-q", "--bare", "void.git")
    git(work.folder, "remote", "add", "void", str(tmp_path / "void.git"))
    assert found.fetch("void") is None


def test_what_is_pushed_elsewhere_is_read_there(work: WorkingClone, found: GitRepository, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(work.remote), "fork.git")
    git(work.folder, "remote", "set-url", "--push", "origin", str(tmp_path / "fork.git"))
    first = commit(found)
    found.push("origin", BRANCH, first)
    assert found.fetch("origin", BRANCH) == (BRANCH, first)
    assert f"refs/heads/{BRANCH}" not in work.refs
    other = work.other(tmp_path / "other")
    git(other, "commit", "-q", "--allow-empty", "-m", "more")
    git(other, "push", "-q", str(tmp_path / "fork.git"), "HEAD:main")
    assert found.fetch("origin") == ("main", git(other, "rev-parse", "HEAD").strip())


def test_push_is_refused_not_forced(work: WorkingClone, found: GitRepository, tmp_path: Path) -> None:
    found.push("origin", BRANCH, commit(found, "mine"))
    other = found.commit({PATH: "other"}, parent=found.head(), message="other")
    with pytest.raises(DataError, match="rejected"):
        found.push("origin", BRANCH, other)
    hook = work.remote / "hooks/pre-receive"
    hook.write_text("#!/bin/sh\necho policy says no >&2\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(DataError, match="policy says no"):
        found.push("origin", "else", other)
    git(work.folder, "remote", "add", "gone", str(tmp_path / "gone.git"))
    for attempt in (lambda: found.fetch("gone"), lambda: found.push("gone", BRANCH, other)):
        with pytest.raises(UnavailableError):
            attempt()


def test_a_server_that_says_nothing_is_not_waited_for_forever(work: WorkingClone) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        git(work.folder, "remote", "add", "silent", f"git://127.0.0.1:{silent.getsockname()[1]}/a/b")
        with pytest.raises(UnavailableError, match="cannot reach silent: no response within"):
            Remotes(GitFolder(work.folder), answer_s=0.3).fetch("silent", None)


def test_which_remote(work: WorkingClone, found: GitRepository) -> None:
    assert (found.remote(), found.remote("origin")) == ("origin", "origin")
    with pytest.raises(UsageError, match="origin"):
        found.remote("--upload-pack=x")
    git(work.folder, "remote", "rename", "origin", "up")
    assert found.remote() == "up"
    git(work.folder, "remote", "add", "origin", "https://ada:secret@example.org/a/b.git")
    assert found.remote() == "up"
    assert found.remote_url("origin") == "https://example.org/a/b.git"
    git(work.folder, "branch", "--unset-upstream")
    assert found.remote() == "origin"
    git(work.folder, "remote", "rename", "origin", "third")
    with pytest.raises(UsageError, match="`remote`"):
        found.remote()
    assert found.remote_url("none") is None


def test_hooks_of_the_states_would_leave_a_trace(work: WorkingClone) -> None:
    """Else the property above proved nothing about them."""
    install_hooks(work.folder)
    git(work.folder, "commit", "-q", "--allow-empty", "-m", "x", code=1)
    assert (work.folder / "hook-ran.txt").read_text() == "pre-commit\n"
