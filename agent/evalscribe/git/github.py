"""Open pull requests and write comments on GitHub. Needs PyGithub, the extra `github`."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

import requests
from github import Auth, BadAttributeException, Github, GithubException, IncompletableObject
from github.GithubObject import NotSet
from github.Requester import HTTPRequestsConnectionClass, HTTPSRequestsConnectionClass, Requester, RequestsResponse
from urllib3.util import Retry

from evalscribe.errors import AccessError, DataError, EvalscribeError, UnavailableError
from evalscribe.git.remotes import pull_request_page
from evalscribe.model.repository import PullRequest, PushedBranch

if TYPE_CHECKING:
    from github.IssueComment import IssueComment
    from github.PullRequest import PullRequest as Pull


def wrap_section(mark: str, text: str) -> str:
    """Wrap a section's text in its marks. Marks within the text are escaped, because evidence can quote them."""
    return f"{_begin(mark)}\n{text.strip().replace('<!--', '<! --')}\n{_end(mark)}"


def starts_with_section(mark: str, body: str) -> bool:
    """Return whether the text begins with our section."""
    return body.lstrip().startswith(_begin(mark))


def replace_section(mark: str, body: str | None, text: str) -> str:
    """Replace our section of the text. If people removed the section's marks, return the text unchanged."""
    if not body or not body.strip():
        return wrap_section(mark, text)
    before, begin_mark, remaining = body.partition(_begin(mark))
    _, end_mark, after = remaining.partition(_end(mark))
    return f"{before}{wrap_section(mark, text)}{after}" if begin_mark and end_mark else body


def _begin(mark: str) -> str:
    return f"<!-- evalscribe:{mark} -->"


def _end(mark: str) -> str:
    return f"<!-- /evalscribe:{mark} -->"


NEEDS = "it needs `Pull requests: write` on the repository (fine-grained), the scope `repo` (classic), or in a workflow"
PERMISSION = f"{NEEDS} `permissions: pull-requests: write`"


class PullRequestExists(DataError):
    """Another process has opened the same pull request in the meantime."""


def translate_error(action: str, error: GithubException) -> EvalscribeError:
    """Convert an API error to one of ours. `action` completes a message that begins with `cannot`."""
    message = " ".join(_messages(error))
    begin = f"cannot {action}: GitHub"
    if error.status == 401:
        return AccessError(f"{begin} rejected the token ({message}); set GITHUB_TOKEN to a valid one")
    if _limited(error, message):
        return UnavailableError(
            f"{begin} asks to wait because the token's rate limit is used up ({message}); try again later"
        )
    if error.status == 403:
        return AccessError(f"{begin} denied access ({message}). The token lacks permission: {PERMISSION}")
    if error.status == 404:  # GitHub also answers 404 for a repository that the token must not see
        return AccessError(f"{begin} found no such repository, or the token may not see it ({message}): {PERMISSION}")
    if error.status == 422:
        kind = PullRequestExists if "already exists" in message else DataError
        return kind(f"{begin} refused: {message}")
    if error.status and error.status < 500:
        return DataError(f"{begin} refused with status {error.status}: {message}")
    return UnavailableError(f"{begin} failed with status {error.status}: {message}")


def _limited(error: GithubException, message: str) -> bool:
    headers = {str(name).lower(): str(value) for name, value in (error.headers or {}).items()}
    spent = headers.get("x-ratelimit-remaining") == "0" or "retry-after" in headers or "rate limit" in message.lower()
    return error.status == 429 or (error.status == 403 and spent)


def _messages(error: GithubException) -> Iterable[str]:
    """Yield the short messages in a response. The HTML page of a proxy contains none."""
    data = error.data if isinstance(error.data, dict) else {}
    parts = [data.get("message"), *(part.get("message") for part in data.get("errors") or () if isinstance(part, dict))]
    messages = [" ".join(str(part).split())[:200] for part in parts if part]
    return messages or ["no reason given"]


PART = "report"
"""Name in the marks around the section of a pull request's text that evalscribe writes."""
OUR_TITLE = "Analyze "
"""Start of every title that evalscribe writes. Any other title was written by a person."""
TIMEOUT_S = 20
LARGEST = 16 * 1024 * 1024
"""Maximum bytes of a decompressed response. A page of a hundred comments with 64 KiB each has less than half as many.
"""
PIECE = 16 * 1024
"""Number of bytes that are decompressed at a time. gzip expands them at most a thousandfold."""
_NO_API = (BadAttributeException, RuntimeError, TypeError, AttributeError, KeyError, AssertionError, ValueError)
"""Errors that PyGithub raises if a response has an unexpected shape or redirects to another host."""
AGAIN = Retry(
    total=2,
    backoff_factor=0.5,
    status_forcelist=(500, 502, 503, 504),
    allowed_methods=("GET", "PATCH"),
    respect_retry_after_header=False,
    raise_on_status=False,
)
"""Replaces PyGithub's own retry, which sleeps until a rate limit ends. That can take an hour."""


class _Response(RequestsResponse):
    """A response whose body is limited to `LARGEST` bytes."""

    def read(self) -> str:
        """Return the body.

        Raises `requests.exceptions.ContentDecodingError` if it is too large, or compressed more than once.
        """
        if "," in self.headers.get("content-encoding", ""):
            raise requests.exceptions.ContentDecodingError("compressed more than once")
        content = bytearray()
        for piece in self.iter_content(PIECE):
            content += piece
            if len(content) > LARGEST:
                self.response.close()
                raise requests.exceptions.ContentDecodingError(f"more than {LARGEST // 1024 // 1024} MiB")
        return content.decode("utf-8", "replace")


class _Http(HTTPRequestsConnectionClass):
    def getresponse(self) -> RequestsResponse:
        self.session.stream = True
        return _Response(super().getresponse().response)


class _Https(HTTPSRequestsConnectionClass):
    def getresponse(self) -> RequestsResponse:
        self.session.stream = True
        return _Response(super().getresponse().response)


class GitHubForge:
    """GitHub, for one repository. Errors show `remote_url`."""

    def __init__(self, api_url: str, token: str, path: str, remote_url: str | None = None) -> None:
        self.owner = path.partition("/")[0]
        self.path = path
        self.remote_url = remote_url
        # PyGithub sets connection classes for the whole process. A client keeps the ones that were set when it was
        # created.
        Requester.injectConnectionClasses(_Http, _Https)
        try:
            self.client = Github(
                auth=Auth.Token(token),
                base_url=api_url,
                timeout=TIMEOUT_S,
                retry=AGAIN,
                seconds_between_requests=None,
                seconds_between_writes=None,
                lazy=True,
            )
        finally:
            Requester.resetConnectionClasses()
        self.repository = self.client.get_repo(path)

    def propose(self, pushed: PushedBranch, base: str, title: str, body: str, *, draft: bool) -> PullRequest:
        """Open the branch's pull request, or update it if it is already open.

        Raises `EvalscribeError` with the reason.
        """
        try:
            with _errors(f"open a pull request in {self.path}"):
                return self._proposed(pushed.branch, base, title, body, draft)
        except EvalscribeError as error:
            page = pull_request_page(pushed, base, self.remote_url)
            by_hand = f"; open the pull request by hand: {page}" if page else ""
            raise type(error)(f"{error}\nthe branch {pushed.branch} is pushed{by_hand}") from error

    def comment(self, number: int, mark: str, body: str) -> str | None:
        """Write our comment with this mark into a pull request, or replace it, and return its address.

        Raises `AccessError` if the token has no write access.
        """
        with _errors(f"comment on #{number} in {self.path}"):
            issue = self.repository.get_issue(number)
            own_comment = next(
                (comment for comment in issue.get_comments() if starts_with_section(mark, comment.body or "")), None
            )
            if own_comment is None:
                return issue.create_comment(wrap_section(mark, body)).html_url
            _rewrite(own_comment, wrap_section(mark, body))
            return own_comment.html_url

    def check(self) -> None:
        """Check that the API accepts the token. Changes nothing. Raises `EvalscribeError` if it does not."""
        with _errors("check the token"):
            self.client.requester.requestJsonAndCheck("GET", "/meta")

    def close(self) -> None:
        self.client.close()

    def _proposed(self, branch: str, base: str, title: str, body: str, draft: bool) -> PullRequest:
        pull = self._open(branch)
        if pull is None:
            try:
                text = wrap_section(PART, body)
                created = self.repository.create_pull(
                    base=base, head=branch, title=title, body=text, draft=draft or NotSet
                )
                return _pull_request(created, "new")
            except GithubException as error:
                pull = self._open(branch) if isinstance(translate_error("", error), PullRequestExists) else None
                if pull is None:
                    raise
        return _pull_request(pull, "updated" if _updated(pull, title, body) else "unchanged")

    def _open(self, branch: str) -> "Pull | None":
        """Return the branch's open pull request; None if there is none."""
        pulls = self.repository.get_pulls(state="open", head=f"{self.owner}:{branch}")
        return next((pull for pull in pulls if pull.head.ref == branch and _from_here(pull)), None)


def _from_here(pull: "Pull") -> bool:
    """Return whether the branch is in this repository and not in a fork.

    A renamed repository also lists pull requests of forks.
    """
    return pull.head.repo is not None and pull.head.repo.id == pull.base.repo.id


def _updated(pull: "Pull", title: str, body: str) -> bool:
    """Update a pull request, and return whether anything changed. A title or text that a person wrote is preserved."""
    title = title if pull.title.startswith(OUR_TITLE) else pull.title
    text = replace_section(PART, pull.body, body)
    if (title, _lines(text)) == (pull.title, _lines(pull.body or "")):
        return False
    pull.edit(title=title, body=text)
    return True


def _rewrite(comment: "IssueComment", body: str) -> None:
    if _lines(comment.body or "") != _lines(body):
        comment.edit(body)


def _lines(text: str) -> list[str]:
    """Split a text into lines, because GitHub can change its line ends."""
    return text.replace("\r\n", "\n").strip().split("\n")


def _pull_request(pull: "Pull", state: Literal["new", "updated", "unchanged"]) -> PullRequest:
    return PullRequest(url=pull.html_url, number=pull.number, state=state, draft=bool(pull.draft))


@contextmanager
def _errors(action: str) -> Iterator[None]:
    """Convert every error of the client to an `EvalscribeError`, because a client's message can quote a whole page."""
    try:
        yield
    except (IncompletableObject, *_NO_API) as error:
        message = f"cannot {action}: the server is not GitHub's API ({type(error).__name__})"
        raise UnavailableError(message) from error
    except GithubException as error:
        raise translate_error(action, error) from error
    except requests.exceptions.ContentDecodingError as error:
        raise UnavailableError(f"cannot {action}: the response of GitHub's API is invalid ({error})") from error
    except (requests.exceptions.RequestException, OSError) as error:
        raise UnavailableError(f"cannot {action}: GitHub's API did not respond ({type(error).__name__})") from error
