"""The repository that a folder belongs to, and the forge that its remote is on."""

from contextlib import closing
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from evalscribe import git_process, wiring
from evalscribe.app.reports.pull_request import PublishDesk
from evalscribe.errors import UsageError
from evalscribe.ports import Forge, Repository
from evalscribe.settings import Settings
from evalscribe.settings.access import Access
from evalscribe.settings.github import API


def repository(folder: Path) -> Repository:
    """Raises `UsageError` where there is none."""
    git_process.required()
    from evalscribe.forge.repository import open_repository

    return open_repository(folder)


def forge(found: Settings, remote_url: str | None) -> Forge:
    """GitHub where there is a token and the remote is on the server of its API; else one that only tells the address.

    Raises `UsageError` where the token would go to a host that a stranger could have named, or a package is missing.
    """
    from evalscribe.forge.address import hosted
    from evalscribe.forge.by_hand import ByHand

    there, access = hosted(remote_url), found.github()
    if there is None or access.key is None or not _belongs(there.host, access):
        return ByHand(remote_url)
    try:
        from evalscribe.forge.github import GitHub
    except ImportError as error:
        raise UsageError("pull requests on GitHub need PyGithub: pip install 'evalscribe[github]'") from error
    return GitHub(access.url, access.key.get_secret_value(), there.path, remote_url)


def advice(found: Settings, remote_url: str | None) -> str | None:
    """How evalscribe would open the pull request itself; None where it cannot be helped or need not."""
    from evalscribe.forge.address import hosted

    there, access = hosted(remote_url), found.github()
    if there is None:
        return None
    if _belongs(there.host, access):
        return (
            None if access.key else "Next time: set GITHUB_TOKEN or GH_TOKEN to have evalscribe open the pull request."
        )
    if access.key and access.url != API:
        return f"Not opened by evalscribe: the API {access.url} is not that of {there.host}; --api-url names another."
    return None


def publish_desk(found: Settings) -> PublishDesk:
    """All that publishing works with."""
    return PublishDesk(
        library=wiring.library(found),
        repository=repository,
        forge=partial(forge, found),
        last_written=partial(_last_written, found),
    )


def _last_written(found: Settings, run_id: str) -> str | None:
    """From the store where there is one; publishing makes none."""
    if not wiring.has_store(found):
        return None
    with closing(wiring.store(found)) as store:
        stored = store.get_report(run_id)
    return stored.text if stored else None


def _belongs(host: str, access: Access) -> bool:
    """Whether the API is that of the remote's server: `github.com` and `api.github.com`, or one host with both."""
    api = (urlsplit(access.url).hostname or "").lower()
    return host in (api, api.removeprefix("api.")) or (host == "ssh.github.com" and api == "api.github.com")
