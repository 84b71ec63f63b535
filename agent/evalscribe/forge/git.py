"""Git commands in one folder, as argument lists, with nothing of the user's configured to run along."""

import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from git import Git
from git.exc import GitError

from evalscribe import redaction
from evalscribe.errors import UsageError
from evalscribe.git_process import own_environment

QUIET = (
    "--no-optional-locks",
    "--literal-pathspecs",
    "--no-replace-objects",
    *("-c", f"core.hooksPath={os.devnull}"),
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.splitIndex=false"),
    *("-c", "gc.auto=0"),
    *("-c", "maintenance.auto=false"),
    *("-c", "i18n.commitEncoding=UTF-8"),
    *("-c", "log.showSignature=false"),
    *("-c", "color.ui=false"),
    *("-c", "user.useConfigOnly=true"),
    *("-c", "http.lowSpeedLimit=1"),
    *("-c", "http.lowSpeedTime=60"),
)
"""Hooks look at the folder's checked out files, which are not what is committed and pushed here, and may change them;
an index of our own must leave nothing beside the user's; a commit that only this folder replaces by another is still
the one that others have; and a server that says nothing is not waited for forever."""


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        """Its output without the last line end; what is no UTF-8 comes back as it was when it is given to git."""
        return self.out.decode("utf-8", "surrogateescape").removesuffix("\n")

    @property
    def said(self) -> str:
        """What it complained about, on one line and without a secret."""
        return redaction.redact(" ".join(self.err.split()))[:400]


class GitFolder:
    """Runs git in a folder."""

    def __init__(self, folder: Path) -> None:
        self.git = Git(folder)

    def run(
        self,
        *arguments: str,
        feed: bytes | None = None,
        env: Mapping[str, str] | None = None,
        at_most_s: float | None = None,
    ) -> Ended:
        """Run one command to its end, `feed` on its standard input. Raises `UsageError` where git cannot be run.

        After `at_most_s` seconds it is ended, and has failed.
        """
        command = [Git.GIT_PYTHON_GIT_EXECUTABLE or "git", *QUIET, *arguments]
        try:
            with own_environment(), tempfile.TemporaryFile() as given:
                given.write(feed or b"")
                given.seek(0)
                process = self.git.execute(command, istream=given, env=env or {}, as_process=True)
        except (GitError, OSError, ValueError) as error:
            raise UsageError(f"git cannot be run: {redaction.redact(str(error))[:200]}") from error
        try:
            out, err = process.communicate(timeout=at_most_s)
        except subprocess.TimeoutExpired:
            process.terminate()
            return Ended(1, b"", f"no answer within {at_most_s} seconds")
        return Ended(process.returncode, out, err.decode("utf-8", "replace"))

    def ask(self, *arguments: str) -> str | None:
        """What a command prints; None where it fails."""
        ended = self.run(*arguments)
        return None if ended.code else ended.text
