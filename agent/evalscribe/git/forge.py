"""Connect to GitHub if a remote is on GitHub.

For other remotes, name the page on which a person can open the pull request.
"""

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from evalscribe.errors import UsageError
from evalscribe.git import command
from evalscribe.git.remotes import parse_address, pull_request_page
from evalscribe.git.repository import GitRepository, open_repository
from evalscribe.model.repository import PullRequest, PushedBranch
from evalscribe.settings import Settings
from evalscribe.settings.access import GITHUB_API, Access

if TYPE_CHECKING:
    from evalscribe.git.github import GitHubForge


class ManualForge:
    """A forge that only names the page on which a person can open the pull request.

    Used for GitHub if no token is set, and for all other servers.
    """

    def __init__(self, remote_url: str | None) -> None:
        self.remote_url = remote_url

    def propose(self, pushed: PushedBranch, base: str, title: str, body: str, *, draft: bool) -> PullRequest:  # noqa: ARG002
        return PullRequest(url=pull_request_page(pushed, base, self.remote_url), state="by hand", draft=draft)

    def comment(self, number: int, mark: str, body: str) -> None:
        """Return None, because comments cannot be written without GitHub's API."""

    def close(self) -> None:
        """Do nothing, because no connection is open."""


def repository_of(folder: Path) -> GitRepository:
    """Open the git repository to which a folder belongs. The caller must close the repository.

    Raises:
        UsageError: git is not installed, or the folder is not in a repository with a working tree.
    """
    command.require_git()

    return open_repository(folder)


def open_forge(settings: Settings, remote_url: str | None) -> "GitHubForge | ManualForge":
    """Return a GitHub client if a token is set and the remote is on GitHub's server; otherwise a `ManualForge`.

    Raises:
        UsageError: The token would be sent to a host that a stranger could have named, or a required package is
            missing.
    """
    address, access = parse_address(remote_url), settings.github()
    # The token is sent only to the API of the server that the remote is on.
    if address is None or access.key is None or not _belongs(address.host, access):
        return ManualForge(remote_url)
    try:
        from evalscribe.git.github import GitHubForge
    except ImportError as error:
        raise UsageError("pull requests on GitHub need PyGithub: pip install 'evalscribe[github]'") from error
    return GitHubForge(access.url, access.key.get_secret_value(), address.path, remote_url)


def advice(settings: Settings, remote_url: str | None) -> str | None:
    """Return advice on the setting that would let evalscribe open the pull request itself.

    Returns None if evalscribe already opens pull requests, or if no such setting is known for this server.
    """
    address, access = parse_address(remote_url), settings.github()
    if address is None:
        return None
    if _belongs(address.host, access):
        return (
            None if access.key else "Next time, set GITHUB_TOKEN or GH_TOKEN to have evalscribe open the pull request."
        )
    if access.key and access.url != GITHUB_API:
        return (
            f"evalscribe opened no pull request: the API {access.url} does not belong to {address.host}. Set --api-url."
        )
    return None


def _belongs(host: str, access: Access) -> bool:
    """Return whether the API belongs to the host of the remote.

    The API belongs to the host if the API's host is the same host, or the same host with `api.` in front, such as
    `api.github.com` for `github.com`. `api.github.com` also belongs to `ssh.github.com`.
    """
    api = (urlsplit(access.url).hostname or "").lower()
    # `ssh.github.com` is GitHub's address for ssh over the port of HTTPS.
    return host in (api, api.removeprefix("api.")) or (host == "ssh.github.com" and api == "api.github.com")
