"""Open GitHub for a remote. For any other remote, name the page on which a person opens the pull request."""

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
    """Names the page on which a person opens the pull request.

    Used for GitHub without a token, and for other servers.
    """

    def __init__(self, remote_url: str | None) -> None:
        self.remote_url = remote_url

    def propose(self, pushed: PushedBranch, base: str, title: str, body: str, *, draft: bool) -> PullRequest:  # noqa: ARG002
        return PullRequest(url=pull_request_page(pushed, base, self.remote_url), state="by hand", draft=draft)

    def comment(self, number: int, mark: str, body: str) -> None:
        """Return None, because a comment cannot be written without GitHub's API."""

    def close(self) -> None:
        """Do nothing, because no connection is open."""


def repository_of(folder: Path) -> GitRepository:
    """Open the git repository to which a folder belongs. The caller must close it.

    Raises:
        UsageError: git is missing, or the folder is in no repository with a working tree.
    """
    command.require_git()

    return open_repository(folder)


def open_forge(settings: Settings, remote_url: str | None) -> "GitHubForge | ManualForge":
    """Return a GitHub client if a token is set and the remote is on GitHub's server; otherwise a `ManualForge`.

    Raises:
        UsageError: The token would be sent to a host that a stranger could have named, or a package is missing.
    """
    address, access = parse_address(remote_url), settings.github()
    if address is None or access.key is None or not _belongs(address.host, access):
        return ManualForge(remote_url)
    try:
        from evalscribe.git.github import GitHubForge
    except ImportError as error:
        raise UsageError("pull requests on GitHub need PyGithub: pip install 'evalscribe[github]'") from error
    return GitHubForge(access.url, access.key.get_secret_value(), address.path, remote_url)


def advice(settings: Settings, remote_url: str | None) -> str | None:
    """Return the setting with which evalscribe would open the pull request itself.

    None if it already does, or if it cannot do so.
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
    """Return whether the API belongs to the remote's host.

    It does if both are the same host, or are `api.github.com` and `github.com`.
    """
    api = (urlsplit(access.url).hostname or "").lower()
    return host in (api, api.removeprefix("api.")) or (host == "ssh.github.com" and api == "api.github.com")
