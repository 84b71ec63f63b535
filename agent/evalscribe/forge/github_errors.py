"""What a refusal of GitHub's means."""

from collections.abc import Iterable

from github import GithubException

from evalscribe.errors import AccessError, DataError, EvalscribeError, UnavailableError

NEEDS = "it needs `Pull requests: write` on the repository (fine-grained), the scope `repo` (classic), or in a workflow"
PERMISSION = f"{NEEDS} `permissions: pull-requests: write`"


class AlreadyThere(DataError):
    """Somebody opened the same pull request a moment ago."""


def refusal(what: str, error: GithubException) -> EvalscribeError:
    """`what` could not be done, in words after `cannot`."""
    said = " ".join(_said(error))
    begin = f"cannot {what}: GitHub"
    if error.status == 401:
        return AccessError(f"{begin} does not take the token ({said}); set GITHUB_TOKEN to a valid one")
    if _limited(error, said):
        return UnavailableError(f"{begin} asks to wait, the token's rate limit is used up ({said}); try again later")
    if error.status == 403:
        return AccessError(f"{begin} does not allow it ({said}). The token may not do that: {PERMISSION}")
    if error.status == 404:
        return AccessError(f"{begin} shows no such repository to the token ({said}): {PERMISSION}")
    if error.status == 422:
        kind = AlreadyThere if "already exists" in said else DataError
        return kind(f"{begin} refuses: {said}")
    if error.status and error.status < 500:
        return DataError(f"{begin} refuses with status {error.status}: {said}")
    return UnavailableError(f"{begin} fails with status {error.status}: {said}")


def _limited(error: GithubException, said: str) -> bool:
    headers = {str(name).lower(): str(value) for name, value in (error.headers or {}).items()}
    spent = headers.get("x-ratelimit-remaining") == "0" or "retry-after" in headers or "rate limit" in said.lower()
    return error.status == 429 or (error.status == 403 and spent)


def _said(error: GithubException) -> Iterable[str]:
    """The messages of the answer, each short; a proxy's page is none."""
    data = error.data if isinstance(error.data, dict) else {}
    parts = [data.get("message"), *(part.get("message") for part in data.get("errors") or () if isinstance(part, dict))]
    said = [" ".join(str(part).split())[:200] for part in parts if part]
    return said or ["no reason given"]
