"""Git commands in one folder, as argument lists, with nothing of the user's configured to run along."""

import os
from collections.abc import Mapping
from pathlib import Path

from evalscribe.git import command
from evalscribe.redaction import redact

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


class Ended(command.Ended):
    """How a command ended, with an error message that may be shown."""

    @property
    def said(self) -> str:
        """What it complained about, on one line and without a secret."""
        return redact.redact(" ".join(self.err.split()))[:400]


class GitFolder(command.Git):
    """Runs git in a folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, QUIET)

    def run(
        self,
        *arguments: str,
        feed: bytes | None = None,
        env: Mapping[str, str] | None = None,
        at_most_s: float | None = None,
    ) -> Ended:
        """As for any `Git`; a remote may repeat its URL with a token in what it says."""
        return Ended(*super().run(*arguments, feed=feed, env=env, at_most_s=at_most_s))
