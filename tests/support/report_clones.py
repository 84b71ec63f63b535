"""Real git repositories: a bare repository on a server, and clones in which people work."""

import atexit
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

# Without `maintenance`, every commit, merge and fetch starts two more processes to check for maintenance work.
CONFIG = """\
[user]
	name = Ada
	email = ada@example.org
[maintenance]
	auto = false
[gc]
	auto = 0
"""


def git(folder: Path, *arguments: str, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=folder, check=True, capture_output=True, env={**os.environ, **(env or {})}
    )
    return done.stdout.decode("utf-8", "replace").strip()


@dataclass(frozen=True)
class Clone:
    """A person's clone, with a folder `reports`."""

    folder: Path

    def git(self, *arguments: str) -> str:
        return git(self.folder, *arguments)

    @property
    def reports(self) -> Path:
        return self.folder / "reports"

    def commit(
        self, text: str | bytes | None, who: str = "Ada", name: str = "p/m/a.md", day: str = "2026-11-01"
    ) -> str:
        """Commit a report in the name of a person on a given day, and return the commit's id.

        If `text` is None, remove it.
        """
        file = self.reports / name
        if text is None:
            file.unlink()
        else:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text.encode() if isinstance(text, str) else text)
        self.git("add", "-A")
        return self.commit_staged(who, day)

    def commit_staged(self, who: str = "Ada", day: str = "2026-11-01", message: str = "a change") -> str:
        person = {"NAME": who, "EMAIL": f"{who.lower().replace(' ', '.')}@example.org", "DATE": f"{day}T12:00:00+0900"}
        env = {f"GIT_{role}_{key}": value for key, value in person.items() for role in ("AUTHOR", "COMMITTER")}
        git(self.folder, "commit", "-q", "--allow-empty", "-m", message, env=env)
        return self.git("rev-parse", "HEAD")


def configure(folder: Path) -> Clone:
    with (folder / ".git/config").open("a") as config:
        config.write(CONFIG)
    return Clone(folder)


def repository_without_remote(folder: Path) -> Clone:
    """Create a repository without a remote."""
    git(folder, "init", "-q", "-b", "main", "work")
    return configure(folder / "work")


def clone_of_server(folder: Path) -> Clone:
    """Create a clone of a bare repository whose main branch has one commit."""
    return copied_clone(_served(), folder)


def copied_clone(source: Path, folder: Path) -> Clone:
    """Copy the server and the clone in the folder `source`, in their current state."""
    for name in ("server.git", "work"):
        shutil.copytree(source / name, folder / name, symlinks=True)
    config = folder / "work/.git/config"
    config.write_text(config.read_text().replace(str(source), str(folder)))
    return Clone(folder / "work")


@cache
def _served() -> Path:
    """Create the server and the clone that tests copy. They are created once because this takes a dozen processes."""
    folder = Path(tempfile.mkdtemp(prefix="evalscribe-test-")).resolve()
    atexit.register(shutil.rmtree, folder)
    git(folder, "init", "-q", "--bare", "-b", "main", "server.git")
    git(folder, "clone", "-q", "server.git", "work")
    clone = configure(folder / "work")
    clone.git("checkout", "-q", "-b", "main")
    (clone.folder / "readme.txt").write_text("evals\n")
    clone.git("add", ".")
    clone.commit_staged(message="start")
    clone.git("push", "-q", "-u", "origin", "main")
    clone.git("remote", "set-head", "origin", "main")
    return folder
