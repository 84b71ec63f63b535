"""Run git commands in a folder."""

import logging
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, NamedTuple

from evalscribe.errors import UsageError

if TYPE_CHECKING:
    from git import GitDB


log = logging.getLogger(__name__)
REPOSITORY_VARIABLES = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_PREFIX",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_CONFIG",
    "GIT_CONFIG_PARAMETERS",
    "GIT_CONFIG_COUNT",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_GRAFT_FILE",
    "GIT_REPLACE_REF_BASE",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_SHALLOW_FILE",
    "GIT_CEILING_DIRECTORIES",
    "GIT_GLOB_PATHSPECS",
    "GIT_NOGLOB_PATHSPECS",
    "GIT_ICASE_PATHSPECS",
)
"""Environment variables that select a repository (see `git rev-parse --local-env-vars`). If a git hook starts
evalscribe, these variables select the hook's repository instead of the intended repository. The last three variables
change how git interprets path names."""


def require_git() -> None:
    """Raise `UsageError` if git is not installed."""
    if which("git") is None:
        raise UsageError("git is not installed, or not on PATH")


def environment(more: Mapping[str, str]) -> dict[str, str]:
    """Return the environment in which git runs.

    Inherited variables that select a repository are removed. Prompts are turned off, and git's messages are English.
    """
    inherited = {name: value for name, value in os.environ.items() if name not in REPOSITORY_VARIABLES}
    # Failures of remotes are told apart by git's English messages. The editor `true` does nothing, so git does not
    # wait for a person to edit a text.
    return {**inherited, "GIT_TERMINAL_PROMPT": "0", "GIT_EDITOR": "true", "LANGUAGE": "C", "LC_ALL": "C", **more}


class GitError(Exception):
    """Raised if a git command failed. The message is the output of git or of a hook, on one line."""


GRACE_S = 5.0
"""Seconds that git gets to end after SIGTERM."""
LONGEST_LOGGED = 300


class CompletedCommand(NamedTuple):
    """The result of a git command."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        """Return the output as text, without the line break at its end.

        Invalid UTF-8 is preserved if the text is passed back to git.
        """
        return self.out.decode("utf-8", "surrogateescape").removesuffix("\n")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Send SIGTERM, so that git can remove its lock files. Kill git if it has not ended after `GRACE_S` seconds."""
    process.terminate()
    try:
        process.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()


class Git:
    """Runs git in a folder. `options` are global options of git. They are placed before every command."""

    def __init__(self, folder: Path, options: Sequence[str] = (), env: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self._options = options
        self._env = dict(env or {})

    def run(
        self,
        *arguments: str,
        feed: bytes | None = None,
        env: Mapping[str, str] | None = None,
        at_most_s: float | None = None,
    ) -> CompletedCommand:
        """Run one git command to its end, with `feed` as its standard input.

        A command that takes longer than `at_most_s` seconds is ended and counts as failed. Raises `UsageError` if git
        cannot be started.
        """
        command = ["git", *self._options, *arguments]
        try:
            with tempfile.TemporaryFile() as stdin:
                stdin.write(feed or b"")
                stdin.seek(0)
                process = subprocess.Popen(
                    command,
                    cwd=self.folder,
                    env=environment({**self._env, **(env or {})}),
                    stdin=stdin,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                )
        except (OSError, ValueError) as error:
            raise UsageError(f"git cannot be run: {str(error)[:200]}") from error
        with process:
            try:
                out, err = process.communicate(timeout=at_most_s)
            except subprocess.TimeoutExpired:
                _end(process)
                return CompletedCommand(1, b"", f"no response within {at_most_s} seconds")
            except BaseException:
                # Also after Ctrl-C, because `with process` waits for the process to end.
                process.kill()
                raise
        log.debug("%s in %s: exit code %s", " ".join(command)[:LONGEST_LOGGED], self.folder, process.returncode)
        return CompletedCommand(process.returncode, out, err.decode("utf-8", "replace"))

    def ask(self, *arguments: str) -> str | None:
        """Return the output of a git command; None if the command fails."""
        result = self.run(*arguments)
        return None if result.code else result.text

    def output(self, *arguments: str, feed: bytes | None = None) -> bytes:
        """Return the output of a git command. Raises `GitError` if the command fails."""
        result = self.run(*arguments, feed=feed)
        if result.code:
            out = result.out.decode("utf-8", "replace")
            raise GitError(
                " ".join(f"{result.err} {out}".split())[:400] or f"git {arguments[0]} ended with {result.code}"
            )
        return result.out

    def text(self, *arguments: str) -> str:
        """Return the output of a git command without surrounding whitespace.

        Raises `GitError` if the command fails.
        """
        return self.output(*arguments).decode("utf-8", "surrogateescape").strip()


class ReportRepository(Git):
    """The git repository that contains a folder. Used to read the repository's objects."""

    def __init__(self, folder: Path, env: Mapping[str, str] | None = None) -> None:
        """Open the repository. Raises `GitError` if the folder is in no repository."""
        super().__init__(folder, env=env)
        self.git_dir = Path(self.text("rev-parse", "--absolute-git-dir"))
        self.common_dir = folder / self.text("rev-parse", "--git-common-dir")
        top = self.ask("rev-parse", "--show-toplevel")
        self.top = Path(top) if top else None
        """The root of the working tree; None if the repository is bare."""
        self.folder = self.top or folder
        self._objects: GitDB | None = None

    def blob(self, name: str) -> bytes:
        """Return a blob by its full id. Raises `GitError` if the blob does not exist."""
        from git import GitDB  # Imported here because the import is slow and most commands do not read history.
        from git.exc import ODBError

        # Objects are read without starting git, because a report can have hundreds of versions.
        if self._objects is None:
            self._objects = GitDB(str(self.common_dir / "objects"))
        try:
            content: bytes = self._objects.stream(bytes.fromhex(name)).read()
        except ODBError:
            # git itself fetches an object that a partial clone left on the server, and reads repositories with
            # hashes other than SHA-1.
            return self.output("cat-file", "blob", name)
        return content


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
"""Options for git commands that work on commits. Hooks are turned off, because hooks check the checked-out files
instead of the files that evalscribe commits and pushes, and hooks might even change files. git writes no split-index
file next to the user's index. Replacements by `git replace` are ignored, because other clones have the original
commits. If a server sends nothing, the command times out."""


class GitResult(CompletedCommand):
    """The result of a git command, with an error message that can be shown to the user."""

    @property
    def message(self) -> str:
        """The command's error output on one line, without secrets."""
        from evalscribe.redaction.redact import redact  # the import is slow, and git seldom fails

        return redact(" ".join(self.err.split()))[:400]


class GitFolder(Git):
    """Runs git in a folder, and redacts secrets in git's messages."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, QUIET)

    def run(
        self,
        *arguments: str,
        feed: bytes | None = None,
        env: Mapping[str, str] | None = None,
        at_most_s: float | None = None,
    ) -> GitResult:
        """Run a git command as `Git.run` does. Secrets in the result's message are redacted."""
        # The messages of the result are redacted, because a remote might repeat a URL that contains a token.
        return GitResult(*super().run(*arguments, feed=feed, env=env, at_most_s=at_most_s))
