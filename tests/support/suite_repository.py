"""The sample's suite in a real git repository of its own, and patches for it as a model submits them."""

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
    """A submission of these edits, by default the one that R2 of the sample calls for."""
    return use(("submit_patch", {"summary": summary, "edits": list(edits or (edit(),))}))


class SuiteRepository:
    """A git repository with the suite at its top, or in a folder of it."""

    def __init__(self, root: Path, folder: str = "") -> None:
        self.root = root
        self.suite = root / folder if folder else root
        shutil.copytree(suite_folder(), self.suite, ignore=shutil.ignore_patterns("__pycache__", ".*_cache"))
        self.git("init", "-q", "-b", "main")
        self.git("config", "user.name", "Ada")
        self.git("config", "user.email", "ada@evals.example")
        self.save("The suite")

    def copied(self, root: Path) -> Self:
        """Another one in the same state: a fifth of the cost of making one."""
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
        """Commit everything; the commit's id."""
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
        return self.git("rev-parse", "HEAD")

    @property
    def branches(self) -> list[str]:
        return self.git("for-each-ref", "--format=%(refname:short)", "refs/heads").splitlines()

    def fingerprint(self) -> dict[str, str]:
        """Every file below the root, `.git` included, by the digest of its bytes."""
        files = (path for path in sorted(self.root.rglob("*")) if path.is_file() and not path.is_symlink())
        return {str(path.relative_to(self.root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def said(call: Any) -> str:
    """All text that one request showed the model."""
    return str(call.body)
