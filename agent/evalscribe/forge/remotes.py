"""The repository's remotes. Nothing local moves but, by a push, git's own note of where the pushed branch is."""

import re

from evalscribe.errors import AccessError, DataError, EvalscribeError, UnavailableError, UsageError
from evalscribe.forge.address import hosted, without_login
from evalscribe.forge.git import Ended, GitFolder
from evalscribe.model.repository import PushedBranch

MAIN_NAMES = ("main", "master", "trunk")
TRIES = 3
ANSWER_S = 120
"""What a server may take to tell its branches: over ssh one that hangs would be waited for without end."""
TRANSFER_S = 1800
_NO_ACCESS = re.compile(
    r"authentication failed|permission denied|permission to .+ denied|could not read (?:username|password)"
    r"|access denied|\b40[13]\b|invalid credentials|not authorized|host key verification failed"
    r"|repository not found|repository .+ not found",
    re.IGNORECASE,
)
_NAME = re.compile(r"[^\x00-\x20\x7f~^:?*\[\\]+")
"""Of a branch: with a colon, what a server calls one would be an order to write a branch here."""
_NO_FETCH_EFFECTS = (
    "--no-tags",
    "--no-prune",
    "--no-write-fetch-head",
    "--no-recurse-submodules",
    "--no-auto-maintenance",
    "--refmap=",
)
"""Only objects come: no branch, tag or remote-tracking branch of the user's moves."""


class Remotes:
    def __init__(self, git: GitFolder, answer_s: float = ANSWER_S) -> None:
        self.git = git
        self.answer_s = answer_s

    def chosen(self, name: str | None) -> str:
        """The named remote; else that of the branch's upstream, `origin`, or the only one. Raises `UsageError`."""
        names = (self.git.ask("remote") or "").splitlines()
        if name is not None and name not in names:
            raise UsageError(f"there is no remote {name!r}; there is {', '.join(names) or 'none'}")
        branch = self.git.ask("symbolic-ref", "--quiet", "--short", "HEAD")
        upstream = self.git.ask("config", "--get", f"branch.{branch}.remote") if branch else None
        wanted = [word for word in (name, upstream, "origin", names[0] if len(names) == 1 else None) if word in names]
        if not wanted:
            raise UsageError(
                f"which remote is not clear: give --remote with one of {', '.join(names)}"
                if names
                else "the repository has no remote; add one with `git remote add origin URL`"
            )
        return str(wanted[0])

    def url(self, remote: str) -> str | None:
        """Where pushes go; where that is a folder by a rewriting rule of the user's, what the rule is about."""
        url = self.git.ask("remote", "get-url", "--push", "--", remote)
        if url and not hosted(url):
            url = self.git.ask("config", "--get", f"remote.{remote}.url") or url
        return without_login(url) if url else None

    def fetch(self, remote: str, branch: str | None) -> tuple[str, str] | None:
        there = self._pushed_to(remote)
        for _ in range(TRIES):
            found = self._seen(remote, there, branch)
            if found is None or self._has(found[1]):
                return found
            options = ("--quiet", *_NO_FETCH_EFFECTS)
            ref = f"refs/heads/{found[0]}"
            ended = self.git.run("fetch", *options, "--", there, ref, at_most_s=TRANSFER_S)
            if ended.code:
                raise _refused(f"fetch {found[0]} from {remote}", ended)
            if self._has(found[1]):  # else the branch moved in between
                return found
        raise UnavailableError(f"{branch or 'the main branch'} of {remote} moves while it is fetched; try again")

    def push(self, remote: str, branch: str, commit: str) -> PushedBranch:
        options = ("--porcelain", "--no-verify", "--no-follow-tags", "--recurse-submodules=no")
        ended = self.git.run("push", *options, "--", remote, f"{commit}:refs/heads/{branch}", at_most_s=TRANSFER_S)
        if ended.code:
            raise _not_pushed(remote, branch, ended)
        return PushedBranch(branch=branch, commit=commit, said=_server_said(ended.err))

    def _pushed_to(self, remote: str) -> str:
        """Where a push goes: by a `pushurl` elsewhere than a fetch. What is read there is what a push will meet."""
        url = self.git.ask("remote", "get-url", "--push", "--", remote)
        return url if url and url != self.git.ask("remote", "get-url", "--", remote) else remote

    def _seen(self, remote: str, there: str, branch: str | None) -> tuple[str, str] | None:
        """Name and newest commit of a branch there."""
        asked = ("--symref", "--", there, "HEAD", "refs/heads/*")
        ended = self.git.run("ls-remote", *asked, at_most_s=self.answer_s)
        if ended.code:
            raise _refused(f"reach {remote}", ended)
        lines = [line.partition("\t")[::2] for line in ended.text.splitlines()]
        heads = {ref.removeprefix("refs/heads/"): commit for commit, ref in lines if ref.startswith("refs/heads/")}
        tips = {name: commit for name, commit in heads.items() if _NAME.fullmatch(name)}
        if branch is None:
            branch = self._main(remote, [said.removeprefix("ref: ") for said, ref in lines if ref == "HEAD"], tips)
        return (branch, tips[branch]) if branch in tips else None

    def _main(self, remote: str, heads: list[str], tips: dict[str, str]) -> str | None:
        """What the remote's HEAD names, else our note of that, else a usual name, else the only branch."""
        noted = self.git.ask("symbolic-ref", "--quiet", f"refs/remotes/{remote}/HEAD") or ""
        names = [name.removeprefix("refs/heads/") for name in heads]
        names += [noted.removeprefix(f"refs/remotes/{remote}/"), *MAIN_NAMES, *(tips if len(tips) == 1 else ())]
        return next((name for name in names if name in tips), None)

    def _has(self, commit: str) -> bool:
        """Whether the commit is here with all it needs, not just left over from a fetch that was broken off.

        What a partial clone left with the remote is not needed, and would come file by file.
        """
        options = ("--quiet", "--max-count=1", "--objects", "--missing=allow-promisor")
        return self.git.run("rev-list", *options, commit, "--").code == 0


def _not_pushed(remote: str, branch: str, ended: Ended) -> EvalscribeError:
    """A server that answered and said no is no network that failed."""
    rejected = re.search(r"^!\t\S+\t(.+)$", ended.text, re.MULTILINE)
    if rejected is None:
        return _refused(f"push {branch} to {remote}", ended)
    said = _server_said(ended.err)
    return DataError(f"{remote} does not take {branch}: {rejected[1]}{f': {said}' if said else ''}"[:600])


def _refused(what: str, ended: Ended) -> EvalscribeError:
    if _NO_ACCESS.search(ended.err):
        return AccessError(f"git cannot {what}: {ended.said}\ncheck that `git push` works for you there")
    return UnavailableError(f"git cannot {what}: {ended.said}")


def _server_said(err: str) -> str:
    lines = (line.removeprefix("remote:").strip() for line in err.splitlines() if line.startswith("remote:"))
    return "\n".join(line for line in lines if line.isprintable() and line)
