"""Open pull requests and write comments on GitHub. This needs PyGithub, which the extra `github` installs."""

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
    """Put marks around the text of a section.

    Marks inside the text are escaped, because evidence can quote such marks.
    """
    return f"{_begin(mark)}\n{text.strip().replace('<!--', '<! --')}\n{_end(mark)}"


def starts_with_section(mark: str, body: str) -> bool:
    """Return whether the text begins with the section that evalscribe wrote."""
    return body.lstrip().startswith(_begin(mark))


def replace_section(mark: str, body: str | None, text: str) -> str:
    """Replace the section that evalscribe wrote in a text.

    If people have removed the marks of the section, return the text unchanged.
    """
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
    """Raised if another process has opened the same pull request in the meantime."""


def translate_error(action: str, error: GithubException) -> EvalscribeError:
    """Convert an error of GitHub's API to an `EvalscribeError`.

    `action` completes a message that begins with `cannot`.
    """
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
    if error.status == 404:  # GitHub also answers 404 if the token may not see the repository
        return AccessError(
            f"{begin} found no such repository, or the token has no access to it ({message}). "
            f"The token may lack permission: {PERMISSION}"
        )
    if error.status == 422:
        kind = PullRequestExists if "already exists" in message else DataError
        return kind(f"{begin} refused: {message}")
    if error.status and error.status < 500:
        return DataError(f"{begin} refused with status {error.status}: {message}")
    return UnavailableError(f"{begin} failed with status {error.status}: {message}")


def _limited(error: GithubException, message: str) -> bool:
    headers = {str(name).lower(): str(value) for name, value in (error.headers or {}).items()}
    spent = headers.get("x-ratelimit-remaining") == "0" or "retry-after" in headers or "rate limit" in message.lower()
    # GitHub answers 403 not only if a permission is missing, but also if a rate limit is reached.
    return error.status == 429 or (error.status == 403 and spent)


def _messages(error: GithubException) -> Iterable[str]:
    """Return the short messages in an error response, or a default message if there are none, for example in the HTML
    page of a proxy."""
    data = error.data if isinstance(error.data, dict) else {}
    parts = [data.get("message"), *(part.get("message") for part in data.get("errors") or () if isinstance(part, dict))]
    messages = [" ".join(str(part).split())[:200] for part in parts if part]
    return messages or ["no reason given"]


PART = "report"
"""Name of the section that evalscribe writes into the text of a pull request. The marks around the section contain this
name."""
OUR_TITLE = "Analyze "
"""Beginning of every pull request title that evalscribe writes. A title with another beginning was written by a person.
"""
TIMEOUT_S = 20
LARGEST = 16 * 1024 * 1024
"""Maximum bytes of a decompressed response. A page of 100 comments with 64 KiB each has less than half this size."""
PIECE = 16 * 1024
"""Number of bytes that are decompressed at a time. Data grows at most a thousandfold when gzip decompresses it."""
_NO_API = (BadAttributeException, RuntimeError, TypeError, AttributeError, KeyError, AssertionError, ValueError)
"""Exceptions that PyGithub raises if a response has an unexpected form or redirects to another host."""
AGAIN = Retry(
    total=2,
    backoff_factor=0.5,
    status_forcelist=(500, 502, 503, 504),
    # A POST is not repeated, because it could open a second pull request or write a second comment.
    allowed_methods=("GET", "PATCH"),
    respect_retry_after_header=False,
    raise_on_status=False,
)
"""Retry settings that replace PyGithub's own. With its own settings, PyGithub sleeps until a rate limit ends, which can
take an hour."""


class _Response(RequestsResponse):
    """A response whose body is limited to `LARGEST` bytes."""

    def read(self) -> str:
        """Return the body of the response.

        Raises `requests.exceptions.ContentDecodingError` if the body is too large or compressed more than once.
        """
        # The limit on the size of a piece holds for one layer of compression only.
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
        # Without streaming, the whole body would be read and decompressed before it can be measured.
        self.session.stream = True
        return _Response(super().getresponse().response)


class _Https(HTTPSRequestsConnectionClass):
    def getresponse(self) -> RequestsResponse:
        self.session.stream = True
        return _Response(super().getresponse().response)


class GitHubForge:
    """A GitHub client for one repository. Error messages show `remote_url`."""

    def __init__(self, api_url: str, token: str, path: str, remote_url: str | None = None) -> None:
        self.owner = path.partition("/")[0]
        self.path = path
        self.remote_url = remote_url
        # PyGithub sets connection classes for the whole process. A client keeps those classes that were set when the
        # client was created.
        Requester.injectConnectionClasses(_Http, _Https)
        try:
            self.client = Github(
                auth=Auth.Token(token),
                base_url=api_url,
                timeout=TIMEOUT_S,
                retry=AGAIN,
                # The few calls of a command need no pauses between them, which PyGithub makes by default.
                seconds_between_requests=None,
                seconds_between_writes=None,
                # Without this, `get_repo` would send a request.
                lazy=True,
            )
        finally:
            Requester.resetConnectionClasses()
        self.repository = self.client.get_repo(path)

    def propose(self, pushed: PushedBranch, base: str, title: str, body: str, *, draft: bool) -> PullRequest:
        """Open a pull request for the branch. If a pull request is already open, update that pull request.

        Raises `EvalscribeError` with the reason if GitHub cannot open or update the pull request.
        """
        try:
            with _errors(f"open a pull request in {self.path}"):
                return self._proposed(pushed.branch, base, title, body, draft)
        except EvalscribeError as error:
            page = pull_request_page(pushed, base, self.remote_url)
            by_hand = f"; open the pull request by hand: {page}" if page else ""
            raise type(error)(f"{error}\nthe branch {pushed.branch} is pushed{by_hand}") from error

    def comment(self, number: int, mark: str, body: str) -> str | None:
        """Write evalscribe's comment with this mark into a pull request.

        If the comment already exists, replace it. Return the web address of the comment. Raises `AccessError` if the
        token has no write access.
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
        """Check that the API accepts the token, without changing anything.

        Raises `EvalscribeError` if the API does not accept the token.
        """
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
                # Another process can have opened the pull request since it was looked for.
                pull = self._open(branch) if isinstance(translate_error("", error), PullRequestExists) else None
                if pull is None:
                    raise
        return _pull_request(pull, "updated" if _updated(pull, title, body) else "unchanged")

    def _open(self, branch: str) -> "Pull | None":
        """Return the open pull request of the branch; None if the branch has no open pull request."""
        pulls = self.repository.get_pulls(state="open", head=f"{self.owner}:{branch}")
        return next((pull for pull in pulls if pull.head.ref == branch and _from_here(pull)), None)


def _from_here(pull: "Pull") -> bool:
    """Return whether the branch of a pull request is in this repository and not in a fork."""
    # For a renamed repository, GitHub lists all open pull requests, including those from forks.
    return pull.head.repo is not None and pull.head.repo.id == pull.base.repo.id


def _updated(pull: "Pull", title: str, body: str) -> bool:
    """Update a pull request, and return whether anything changed. Titles and text that a person wrote are preserved."""
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
    # Texts are compared by lines, because GitHub can change the line endings.
    return text.replace("\r\n", "\n").strip().split("\n")


def _pull_request(pull: "Pull", state: Literal["new", "updated", "unchanged"]) -> PullRequest:
    return PullRequest(url=pull.html_url, number=pull.number, state=state, draft=bool(pull.draft))


@contextmanager
def _errors(action: str) -> Iterator[None]:
    """Convert every error of the GitHub client to an `EvalscribeError`.

    The client's own message is replaced, because that message can quote a whole page.
    """
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
