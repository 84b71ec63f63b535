"""Where a remote is: the parts of its address, and the page on which a person opens a request to merge."""

import re
from typing import NamedTuple
from urllib.parse import quote, urlsplit, urlunsplit

from evalscribe.model.repository import PushedBranch

_SCP = re.compile(r"(?:(?P<login>[^@/\s]+)@)?(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(?P<path>(?!//)\S+)")
_WINDOWS_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_ADDRESS = re.compile(r"https?://[^\s<>\"']+")


class Hosted(NamedTuple):
    """A repository on a server."""

    host: str
    """In lower case, without a port."""
    path: str
    """`owner/name`, maybe with more folders before it."""
    web: str
    """The page of the repository."""


def without_login(url: str) -> str:
    """The address as it may be shown: of a login only git's own user of ssh addresses stays."""
    scp = None if "://" in url or _WINDOWS_DRIVE.match(url) else _SCP.fullmatch(url)
    if scp:
        return url if scp["login"] in (None, "git") else f"{scp['host']}:{scp['path']}"
    try:
        parts = urlsplit(url)
    except ValueError:
        return "(an address that cannot be read)"
    login, at, host = parts.netloc.rpartition("@")
    kept = "git@" if at and login == "git" and parts.scheme == "ssh" else ""
    return urlunsplit(parts._replace(netloc=kept + host)) if at else url


def hosted(url: str | None) -> Hosted | None:
    """None for a folder, and for what cannot be read as an address."""
    if not url or _WINDOWS_DRIVE.match(url):
        return None
    if "://" not in url:
        scp = _SCP.fullmatch(url)
        return _hosted(scp["host"].strip("[]"), scp["path"], "https", None) if scp else None
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if parts.scheme not in ("http", "https", "ssh", "git") or not host:
        return None
    same_server = parts.scheme in ("http", "https")
    return _hosted(host, parts.path, parts.scheme if same_server else "https", port if same_server else None)


def page_to_open(pushed: PushedBranch, base: str, url: str | None) -> str:
    """Where a person opens the request: what the server said, where that is on its own host, else what forges have.

    Empty where the remote is a folder.
    """
    there = hosted(url)
    if there is None:
        return ""
    told = (address.rstrip(".,)") for address in _ADDRESS.findall(pushed.said))
    own = next((address for address in told if _host(address) == there.host), None)
    return own or _built(there, pushed.branch, base)


def _built(there: Hosted, branch: str, base: str) -> str:
    head, onto = quote(branch, safe="/"), quote(base, safe="/")
    if "gitlab" in there.host:
        return (
            f"{there.web}/-/merge_requests/new?merge_request%5Bsource_branch%5D={quote(branch, safe='')}"
            f"&merge_request%5Btarget_branch%5D={quote(base, safe='')}"
        )
    if "bitbucket" in there.host:
        return f"{there.web}/pull-requests/new?source={quote(branch, safe='')}&dest={quote(base, safe='')}"
    opened = "?expand=1" if there.host == "github.com" else ""
    return f"{there.web}/compare/{onto}...{head}{opened}"


def _hosted(host: str, path: str, scheme: str, port: int | None) -> Hosted | None:
    name = path.strip("/").removesuffix(".git").strip("/")
    if not name or not all(part and part.isprintable() for part in name.split("/")):
        return None
    shown = f"[{host}]" if ":" in host else host.lower()
    return Hosted(host.lower(), name, f"{scheme}://{shown}{f':{port}' if port else ''}/{quote(name)}")


def _host(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None
