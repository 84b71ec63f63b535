"""Fetch from remotes and push to them, and parse their addresses."""

import re
from typing import NamedTuple
from urllib.parse import quote, urlsplit, urlunsplit

from evalscribe.errors import AccessError, DataError, EvalscribeError, UnavailableError, UsageError
from evalscribe.git.command import GitFolder, GitResult
from evalscribe.model.repository import PushedBranch

# The form `[user@]host:path` of ssh. A path that begins with `//` belongs to a URL. The host can be an IPv6 address in
# brackets.
_SCP = re.compile(r"(?:(?P<login>[^@/\s]+)@)?(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(?P<path>(?!//)\S+)")
_WINDOWS_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_ADDRESS = re.compile(r"https?://[^\s<>\"']+")


class RemoteAddress(NamedTuple):
    """A repository on a server."""

    host: str
    """Name of the server, in lower case and without a port."""
    path: str
    """Path of the repository on the server: `owner/name`, sometimes with more folders in front."""
    web: str
    """Web address of the repository's page."""


def strip_credentials(url: str) -> str:
    """Return an address without its credentials. Only the user name `git`, which ssh addresses need, is kept."""
    scp = None if "://" in url or _WINDOWS_DRIVE.match(url) else _SCP.fullmatch(url)
    if scp:
        return url if scp["login"] in (None, "git") else f"{scp['host']}:{scp['path']}"
    try:
        parts = urlsplit(url)
    except ValueError:
        return "(invalid address)"
    login, at, host = parts.netloc.rpartition("@")
    user = "git@" if at and login == "git" and parts.scheme == "ssh" else ""
    return urlunsplit(parts._replace(netloc=user + host)) if at else url


def parse_address(url: str | None) -> RemoteAddress | None:
    """Parse the address of a remote.

    Returns None if `url` is None, a local folder, or anything else that is not the address of a server.
    """
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
    # The port of an ssh address is not that of the web server.
    same_server = parts.scheme in ("http", "https")
    return _hosted(host, parts.path, parts.scheme if same_server else "https", port if same_server else None)


def pull_request_page(pushed: PushedBranch, base: str, url: str | None) -> str:
    """Return the web address of the page on which a person can open the pull request.

    The result is empty if the remote is a folder. If the server printed a link to its own host, this link is returned.
    """
    remote = parse_address(url)
    if remote is None:
        return ""
    links = (link_text.rstrip(".,)") for link_text in _ADDRESS.findall(pushed.server_messages))
    # A server, or a hook on it, can print any link.
    link = next((link_text for link_text in links if _host(link_text) == remote.host), None)
    return link or _built(remote, pushed.branch, base)


def _built(remote: RemoteAddress, branch: str, base: str) -> str:
    head, onto = quote(branch, safe="/"), quote(base, safe="/")
    if "gitlab" in remote.host:
        return (
            f"{remote.web}/-/merge_requests/new?merge_request%5Bsource_branch%5D={quote(branch, safe='')}"
            f"&merge_request%5Btarget_branch%5D={quote(base, safe='')}"
        )
    if "bitbucket" in remote.host:
        return f"{remote.web}/pull-requests/new?source={quote(branch, safe='')}&dest={quote(base, safe='')}"
    opened = "?expand=1" if remote.host == "github.com" else ""
    return f"{remote.web}/compare/{onto}...{head}{opened}"


def _hosted(host: str, path: str, scheme: str, port: int | None) -> RemoteAddress | None:
    name = path.strip("/").removesuffix(".git").strip("/")
    if not name or not all(part and part.isprintable() for part in name.split("/")):
        return None
    shown = f"[{host}]" if ":" in host else host.lower()
    return RemoteAddress(host.lower(), name, f"{scheme}://{shown}{f':{port}' if port else ''}/{quote(name)}")


def _host(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None


MAIN_NAMES = ("main", "master", "trunk")
TRIES = 3
ANSWER_S = 120
"""Maximum seconds to wait for a server to list its branches. Without a limit, an ssh server that hangs would block us
forever."""
TRANSFER_S = 1800
# Git exits with 128 for all failures of a remote, and only its message tells them apart. Forges answer "not found" if
# the user has no access to a repository, so "not found" counts as no access.
_NO_ACCESS = re.compile(
    r"authentication failed|permission denied|permission to .+ denied|could not read (?:username|password)"
    r"|access denied|\b40[13]\b|invalid credentials|not authorized|host key verification failed"
    r"|repository not found|repository .+ not found",
    re.IGNORECASE,
)
_NAME = re.compile(r"[^\x00-\x20\x7f~^:?*\[\\]+")
"""Matches valid branch names. Names with a colon are invalid, because git would interpret such a name from a server as
an instruction to write a local branch."""
_NO_FETCH_EFFECTS = (
    "--no-tags",
    "--no-prune",
    "--no-write-fetch-head",
    "--no-recurse-submodules",
    "--no-auto-maintenance",
    "--refmap=",
)
"""Options with which a fetch only adds objects. The user's branches, tags and remote-tracking branches are not moved.
"""


class Remotes:
    def __init__(self, git: GitFolder, answer_s: float = ANSWER_S) -> None:
        self.git = git
        self.answer_s = answer_s

    def chosen(self, name: str | None) -> str:
        """Choose a remote and return its name. If `name` is given, choose the remote with this name.

        Otherwise, choose the remote of the current branch's upstream. If the branch has no upstream, choose `origin`.
        If no remote is named `origin`, choose the only remote.

        Raises `UsageError` if the choice is not clear or the remote does not exist.
        """
        names = (self.git.ask("remote") or "").splitlines()
        if name is not None and name not in names:
            raise UsageError(f"remote {name!r} not found; remotes: {', '.join(names) or 'none'}")
        branch = self.git.ask("symbolic-ref", "--quiet", "--short", "HEAD")
        upstream = self.git.ask("config", "--get", f"branch.{branch}.remote") if branch else None
        candidates = [
            word for word in (name, upstream, "origin", names[0] if len(names) == 1 else None) if word in names
        ]
        if not candidates:
            raise UsageError(
                f"several remotes; choose one with `remote`: {', '.join(names)}"
                if names
                else "the repository has no remote; add one with `git remote add origin URL`",
                fields=("remote",),
            )
        return str(candidates[0])

    def url(self, remote: str) -> str | None:
        """Return the address to which git pushes, without credentials.

        If the user's git config maps the address to a folder, return the address as it was configured.
        """
        url = self.git.ask("remote", "get-url", "--push", "--", remote)
        if url and not parse_address(url):
            url = self.git.ask("config", "--get", f"remote.{remote}.url") or url
        return strip_credentials(url) if url else None

    def fetch(self, remote: str, branch: str | None) -> tuple[str, str] | None:
        push_url = self._pushed_to(remote)
        for _ in range(TRIES):
            head = self._branch_head(remote, push_url, branch)
            # Nothing is transferred if the commit is here already.
            if head is None or self._has(head[1]):
                return head
            options = ("--quiet", *_NO_FETCH_EFFECTS)
            ref = f"refs/heads/{head[0]}"
            result = self.git.run("fetch", *options, "--", push_url, ref, at_most_s=TRANSFER_S)
            if result.code:
                raise _refused(f"fetch {head[0]} from {remote}", result)
            if self._has(head[1]):  # otherwise, the branch has moved in the meantime
                return head
        raise UnavailableError(f"{branch or 'the main branch'} of {remote} changed while it was fetched; try again")

    def push(self, remote: str, branch: str, commit: str) -> PushedBranch:
        # Only this branch is pushed, and never by force. The user's hooks would check the files in the working tree.
        options = ("--porcelain", "--no-verify", "--no-follow-tags", "--recurse-submodules=no")
        result = self.git.run("push", *options, "--", remote, f"{commit}:refs/heads/{branch}", at_most_s=TRANSFER_S)
        if result.code:
            raise _not_pushed(remote, branch, result)
        return PushedBranch(branch=branch, commit=commit, server_messages=_server_messages(result.err))

    def _pushed_to(self, remote: str) -> str:
        """Return the destination of a push: a separate `pushurl`, or the name of the remote."""
        # Branches are read from this destination, too. Otherwise, a second publication would not see the first.
        url = self.git.ask("remote", "get-url", "--push", "--", remote)
        return url if url and url != self.git.ask("remote", "get-url", "--", remote) else remote

    def _branch_head(self, remote: str, push_url: str, branch: str | None) -> tuple[str, str] | None:
        """Return the name and the newest commit of a branch on the remote; None if the branch does not exist.

        If `branch` is None, the main branch is used.
        """
        arguments = ("--symref", "--", push_url, "HEAD", "refs/heads/*")
        result = self.git.run("ls-remote", *arguments, at_most_s=self.answer_s)
        if result.code:
            raise _refused(f"reach {remote}", result)
        lines = [line.partition("\t")[::2] for line in result.text.splitlines()]
        heads = {ref.removeprefix("refs/heads/"): commit for commit, ref in lines if ref.startswith("refs/heads/")}
        # The names come from the server.
        tips = {name: commit for name, commit in heads.items() if _NAME.fullmatch(name)}
        if branch is None:
            branch = self._main(remote, [target.removeprefix("ref: ") for target, ref in lines if ref == "HEAD"], tips)
        return (branch, tips[branch]) if branch in tips else None

    def _main(self, remote: str, heads: list[str], tips: dict[str, str]) -> str | None:
        """Return the name of the remote's main branch; None if it is unknown.

        The following are tried in this order: the remote's HEAD, the HEAD that is recorded locally, the usual names of
        main branches, and the only branch.
        """
        recorded = self.git.ask("symbolic-ref", "--quiet", f"refs/remotes/{remote}/HEAD") or ""
        names = [name.removeprefix("refs/heads/") for name in heads]
        names += [recorded.removeprefix(f"refs/remotes/{remote}/"), *MAIN_NAMES, *(tips if len(tips) == 1 else ())]
        return next((name for name in names if name in tips), None)

    def _has(self, commit: str) -> bool:
        """Return whether a commit and its whole history exist locally."""
        # The commit alone is not enough: after an interrupted fetch, only a part of the history exists. Objects that a
        # partial clone left on the remote count as existing, because git would otherwise fetch them one by one.
        options = ("--quiet", "--max-count=1", "--objects", "--missing=allow-promisor")
        return self.git.run("rev-list", *options, commit, "--").code == 0


def _not_pushed(remote: str, branch: str, result: GitResult) -> EvalscribeError:
    """Return the error for a failed push.

    The error says whether the server rejected the push or could not be reached.
    """
    # With `--porcelain`, a line that begins with ! is the answer of a server. Without such a line, the server was not
    # reached.
    rejected = re.search(r"^!\t\S+\t(.+)$", result.text, re.MULTILINE)
    if rejected is None:
        return _refused(f"push {branch} to {remote}", result)
    message = _server_messages(result.err)
    return DataError(f"{remote} rejected {branch}: {rejected[1]}{f': {message}' if message else ''}"[:600])


def _refused(action: str, result: GitResult) -> EvalscribeError:
    if _NO_ACCESS.search(result.err):
        return AccessError(f"git cannot {action}: {result.message}\ncheck that `git push` works in this repository")
    return UnavailableError(f"git cannot {action}: {result.message}")


def _server_messages(err: str) -> str:
    lines = (line.removeprefix("remote:").strip() for line in err.splitlines() if line.startswith("remote:"))
    return "\n".join(line for line in lines if line.isprintable() and line)
