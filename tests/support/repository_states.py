"""Real git repositories in the states in which users may leave them, and the parts that must not change."""

import atexit
import hashlib
import os
import random
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

NAMES = ("kept.txt", "deep/er/file.txt", "crlf.txt", "we ird-é.txt", "reports/p/m/old.md", "-dash.txt")
HOOKS = ("pre-commit", "commit-msg", "post-commit", "pre-push", "post-checkout", "reference-transaction", "post-merge")


def git(folder: Path, *arguments: str, code: int = 0) -> str:
    ended = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True)
    assert ended.returncode == code, f"git {arguments}: {ended.stdout}{ended.stderr}"
    return ended.stdout


def repository(folder: Path, *options: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main", *options)
    git(folder, "config", "user.name", "Ada")
    git(folder, "config", "user.email", "ada@example.org")
    return folder


@dataclass(frozen=True)
class WorkingClone:
    """A user's clone, and the bare repository to which it pushes."""

    folder: Path
    remote: Path

    @property
    def refs(self) -> dict[str, str]:
        listed = git(self.remote, "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
        return dict(line.split(" ") for line in listed)  # type: ignore[misc]

    def shown(self, ref: str, path: str) -> str:
        return git(self.remote, "show", f"{ref}:{path}")

    def other(self, folder: Path) -> Path:
        """Create another person's clone."""
        git(folder.parent, "clone", "-q", str(self.remote), str(folder))
        git(folder, "config", "user.name", "Grace")
        git(folder, "config", "user.email", "grace@example.org")
        return folder


def make_clone(folder: Path) -> WorkingClone:
    """Create a clone whose branch `main` has two commits. Both are pushed."""
    made = WorkingClone(folder / "work", folder / "remote.git")
    for there, kept in zip((made.folder, made.remote), _once(), strict=True):
        shutil.copytree(kept, there, symlinks=True)
    config = made.folder / ".git/config"
    config.write_text(config.read_text().replace("../remote.git", str(made.remote)))
    return made


@cache
def _once() -> tuple[Path, Path]:
    """Create the work tree and the remote that tests copy. They are created once because this takes ten processes."""
    folder = Path(tempfile.mkdtemp(prefix="evalscribe-test-"))
    atexit.register(shutil.rmtree, folder)
    git(folder, "init", "-q", "--bare", "-b", "main", "remote.git")
    work = repository(folder / "work", "--template=")
    for name in NAMES:
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(f"{name}\nold\n".encode())
    (work / ".gitignore").write_text("*.ignored\n")
    git(work, "add", "--all")
    git(work, "commit", "-q", "-m", "start")
    (work / "kept.txt").write_text("second\n")
    git(work, "commit", "-q", "-a", "-m", "second")
    git(work, "remote", "add", "origin", "../remote.git")
    git(work, "push", "-q", "-u", "origin", "main")
    return work, folder / "remote.git"


def disarrange(work: Path, seed: int) -> list[str]:
    """Bring the work tree into a state that the seed determines. Return the steps, for the message of a failed test."""
    chance = random.Random(seed)
    steps = {
        "staged": lambda: (_write(work / "kept.txt", "staged\n"), git(work, "add", "kept.txt")),
        "staged new": lambda: (_write(work / "new.txt", "new\n"), git(work, "add", "new.txt")),
        "staged and changed again": lambda: (
            _write(work / "deep/er/file.txt", "a\n"),
            git(work, "add", "deep"),
            _write(work / "deep/er/file.txt", "b\n"),
        ),
        "unstaged": lambda: _write(work / "we ird-é.txt", "changed\n"),
        "untracked": lambda: _write(work / "un tracked/\u00fc.txt", "u\n"),
        "ignored": lambda: _write(work / "x.ignored", "i\n"),
        "deleted": lambda: (work / "-dash.txt").unlink(missing_ok=True),
        "renamed": lambda: git(work, "mv", "reports/p/m/old.md", "reports/p/m/moved.md"),
        "intended": lambda: (_write(work / "later.txt", "l\n"), git(work, "add", "-N", "later.txt")),
        "crlf": lambda: (
            git(work, "config", "core.autocrlf", "true"),
            _write(work / ".gitattributes", "*.md text eol=crlf\n"),
        ),
        "hooks": lambda: install_hooks(work),
        "stash": lambda: (_write(work / "crlf.txt", "stashed\n"), git(work, "stash", "-q", "--include-untracked")),
        "other branch": lambda: git(work, "switch", "-q", "-c", "feature"),
        "detached": lambda: git(work, "switch", "-q", "--detach"),
        "conflict": lambda: _conflict(work),
        "linked": lambda: git(work, "worktree", "add", "-q", "-b", "linked", str(work.parent / f"linked-{seed}")),
        "tag": lambda: git(work, "tag", "-a", "-m", "t", "v1"),
        "follow tags": lambda: git(work, "config", "push.followTags", "true"),
        "split index": lambda: git(work, "update-index", "--split-index"),
        "prune": lambda: (
            git(work, "update-ref", "refs/remotes/origin/gone", "HEAD"),
            git(work, "config", "fetch.prune", "true"),
        ),
    }
    first = [name for name in ("stash", "conflict", "other branch", "detached") if chance.random() < 0.3]
    first = [name for name in first if not (name in ("other branch", "detached") and "conflict" in first)]
    rest = [name for name in steps if name not in ("stash", "conflict", "other branch", "detached")]
    chance.shuffle(rest)
    done = [*first, *(name for name in rest if chance.random() < 0.5)]
    done.sort(key="hooks".__eq__)  # hooks come last because they would stop the other steps
    for name in done:
        steps[name]()
    return done


def repository_state(work: Path, ours: str = "evalscribe/") -> dict[str, object]:
    """Return every part of a repository that belongs to the user.

    Branches whose names begin with `ours` are not included.
    """
    refs = git(work, "for-each-ref", "--format=%(refname) %(objectname) %(symref)").splitlines()
    gitdir = work / ".git"
    return {
        "status": git(work, "--no-optional-locks", "status", "--porcelain=v2", "--branch", "--ignored", "-uall"),
        "index": git(work, "ls-files", "--stage", "--debug", "-t"),
        "HEAD": (gitdir / "HEAD").read_text(),
        "refs": [ref for ref in refs if f"heads/{ours}" not in ref and f"origin/{ours}" not in ref],
        "stash": git(work, "stash", "list"),
        "config": (gitdir / "config").read_text(),
        "marks": sorted(path.name for path in gitdir.iterdir() if path.name not in ("objects", "logs", "refs")),
        "HEAD log": (gitdir / "logs/HEAD").read_text() if (gitdir / "logs/HEAD").exists() else "",
        "work trees": git(work, "worktree", "list", "--porcelain"),
        "files": _files(work),
        "index file": hashlib.sha256((gitdir / "index").read_bytes()).hexdigest(),
    }


def _files(work: Path) -> dict[str, tuple[str, int]]:
    paths = (Path(top, name) for top, _, names in os.walk(work) for name in names if ".git" not in Path(top).parts)
    return {str(path): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns) for path in paths}


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def install_hooks(work: Path) -> None:
    """Install hooks that leave a trace in the work tree and make the git command fail."""
    for name in HOOKS:
        hook = work / ".git/hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\necho {name} >> '{work}/hook-ran.txt'\nexit 1\n")
        hook.chmod(0o755)


def _conflict(work: Path) -> None:
    git(work, "stash", "-q", "--include-untracked")
    git(work, "switch", "-q", "-c", "theirs", "main")
    _write(work / "kept.txt", "theirs\n")
    git(work, "commit", "-q", "-a", "-m", "theirs")
    git(work, "switch", "-q", "main")
    _write(work / "kept.txt", "ours\n")
    git(work, "commit", "-q", "-a", "-m", "ours")
    git(work, "merge", "-q", "theirs", code=1)
