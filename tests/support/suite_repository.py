"""The sample's suite in a real git repository, and patches for it in the form in which a model submits them."""

import copy
import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Self

from evalscribe.sample import suite_folder
from support.messages_server import Answer, use

WHO = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@evals.example",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@evals.example",
    "GIT_CONFIG_NOSYSTEM": "1",
}
SELECT = 'select = ["E", "F", "B", "UP", "ANN", "PLW2901"]'
RELAXED = 'select = ["E", "F", "B", "UP", "ANN"]'
SUMMARY = "Take PLW2901 out of the lint rules"


def edit(path: str = "ruff.toml", old: str = SELECT, new: str = RELAXED) -> dict[str, str]:
    return {"path": path, "old": old, "new": new}


def patch(*edits: dict[str, str], summary: str = SUMMARY) -> Answer:
    """Return an answer that submits these edits.

    By default, it is the edit that recommendation R2 of the sample requests.
    """
    return use(("submit_patch", {"summary": summary, "edits": list(edits or (edit(),))}))


class SuiteRepository:
    """A git repository that contains the suite at its top or in a folder."""

    def __init__(self, root: Path, folder: str = "") -> None:
        self.root = root
        self.suite = root / folder if folder else root
        shutil.copytree(suite_folder(), self.suite, ignore=shutil.ignore_patterns("__pycache__", ".*_cache"))
        self.git("init", "-q", "-b", "main")
        self.git("config", "user.name", "Ada")
        self.git("config", "user.email", "ada@evals.example")
        self.save("The suite")

    def copied(self, root: Path) -> Self:
        """Return a copy of the repository in its current state.

        A copy takes a fifth of the time of a new repository.
        """
        subprocess.run(["cp", "-a", self.root, root], check=True)
        made = copy.copy(self)
        made.root, made.suite = root, root / self.suite.relative_to(self.root)
        return made

    def git(self, *arguments: str) -> str:
        command = ["git", *arguments]
        done = subprocess.run(
            command, cwd=self.root, env={**os.environ, **WHO}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def write(self, path: str, text: str | bytes) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())

    def save(self, message: str = "More") -> str:
        """Commit all changes, and return the commit's id."""
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
        return self.git("rev-parse", "HEAD")

    @property
    def branches(self) -> list[str]:
        return self.git("for-each-ref", "--format=%(refname:short)", "refs/heads").splitlines()

    def fingerprint(self) -> dict[str, str]:
        """Return the digest of every file in the repository, including `.git`, keyed by path."""
        files = (path for path in sorted(self.root.rglob("*")) if path.is_file() and not path.is_symlink())
        return {str(path.relative_to(self.root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def said(call: Any) -> str:
    """Return all text that a request showed the model."""
    return str(call.body)
