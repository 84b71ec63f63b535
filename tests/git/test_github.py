"""Pull requests and comments through a real client and a real server on loopback."""

import pytest

from evalscribe.errors import AccessError, DataError, UnavailableError
from evalscribe.git.github import GitHubForge, wrap_section
from evalscribe.model.repository import PushedBranch
from support.github_server import GONE, RATE_LIMITED, Answer, GitHubServer, Request, problem

PUSHED = PushedBranch(branch="evalscribe/p/m/abc", commit="0" * 40)


@pytest.fixture
def server():
    with GitHubServer("ada/evals") as server:
        yield server


@pytest.fixture
def forge(server: GitHubServer):
    forge = GitHubForge(server.api, server.token, server.repository, server.url)
    yield forge
    forge.close()


def propose(
    forge: GitHubForge, title: str = "Analyze m, run abc: 1 of 2 evals failed", body: str = "text", draft: bool = False
):
    return forge.propose(PUSHED, "main", title, body, draft=draft)


def test_pull_request_is_opened_once_and_then_updated_only_on_changes(server: GitHubServer, forge: GitHubForge) -> None:
    first = propose(forge, draft=True)
    assert (first.state, first.number, first.draft) == ("new", 1, True)
    assert first.url == f"{server.root}/ada/evals/pull/1"
    assert propose(forge).state == "unchanged"
    again = propose(forge, "Analyze m, run abc: 2 of 2 evals failed", "other")
    assert (again.state, again.number, again.draft) == ("updated", 1, True)
    assert server.pulls[1]["title"].endswith("2 of 2 evals failed")
    assert [method for method, _, _ in server.writes] == ["POST", "PATCH"]
    assert server.writes[0][2]["base"] == "main"


def test_text_of_people_in_title_and_body_is_kept(server: GitHubServer, forge: GitHubForge) -> None:
    propose(forge)
    pull = server.pulls[1]
    pull["title"] = "Ours is better"
    pull["body"] = "before\r\n\r\n" + pull["body"].replace("\n", "\r\n") + "\r\nafter"
    assert propose(forge).state == "unchanged"
    assert propose(forge, body="new").state == "updated"
    assert pull["title"] == "Ours is better"
    assert pull["body"].startswith("before")
    assert pull["body"].endswith("after")
    assert "new" in pull["body"]
    assert "text" not in pull["body"]
    pull["body"] = "all of it is theirs"
    assert propose(forge, body="newer").state == "unchanged"
    assert pull["body"] == "all of it is theirs"


def test_new_pull_request_is_opened_after_the_old_one_was_merged(server: GitHubServer, forge: GitHubForge) -> None:
    propose(forge)
    server.close(1, merged=True)
    assert propose(forge).number == 2


def test_pull_request_opened_meanwhile_by_another_process_is_reused(server: GitHubServer, forge: GitHubForge) -> None:
    """The other process opens it between our lookup and our request to create one."""

    def create_before_us(request: Request) -> Answer | None:
        if request.method == "POST" and not server.pulls:
            server._create_pull(request)
        return None

    server.refuse = create_before_us
    assert propose(forge, body="mine").state == "unchanged"
    assert len(server.pulls) == 1


def test_pull_request_from_a_fork_is_not_updated(server: GitHubServer, forge: GitHubForge) -> None:
    """A renamed repository redirects to an address with its number; that response lists pull requests of forks too."""
    text = {
        "head": f"mallory:{PUSHED.branch}",
        "base": "main",
        "title": "Analyze evil",
        "body": wrap_section("report", ""),
    }
    server.take(Request("POST", "/repos/ada/evals/pulls", {}, text, {"authorization": f"token {server.token}"}))
    server.refuse = lambda request: (
        Answer(301, {}, {"Location": f"{server.api}/repositories/1/pulls?{request.query}"})
        if request.path == "/repos/ada/evals/pulls" and request.method == "GET"
        else Answer(200, list(server.pulls.values()))
        if request.path == "/repositories/1/pulls"
        else None
    )
    assert [propose(forge, body=body).number for body in ("a", "b")] == [2, 2]
    assert server.pulls[1]["title"] == "Analyze evil"


def test_section_markers_quoted_in_the_text_do_not_break_updates(server: GitHubServer, forge: GitHubForge) -> None:
    text = "`<!-- /evalscribe:report -->` and <!-- evalscribe:report --> of "
    for word in ("one", "two", "three"):
        propose(forge, body=text + word)
    body = server.pulls[1]["body"]
    assert (body.count("<!--"), body.count(" of three"), "one" in body or "two" in body) == (2, 1, False)


def test_response_with_a_url_on_another_host_is_not_followed(server: GitHubServer, forge: GitHubForge) -> None:
    propose(forge)
    with GitHubServer() as elsewhere:
        server.pulls[1]["url"] = elsewhere.api.replace("127.0.0.1", "localhost") + "/repos/ada/evals/pulls/1"
        with pytest.raises(UnavailableError, match="not GitHub's API"):
            propose(forge, body="other")
        assert not elsewhere.requests


REFUSALS = {
    "key": (problem(401, "Bad credentials"), AccessError, "rejected the token"),
    "scope": (problem(403, "Resource not accessible by integration"), AccessError, "pull-requests: write"),
    "unseen": (problem(404, "Not Found"), AccessError, "no such repository"),
    "rate": (RATE_LIMITED, UnavailableError, "rate limit"),
    "secondary": (
        problem(403, "You have exceeded a secondary rate limit", Retry_After="3600"),
        UnavailableError,
        "wait",
    ),
    "too many": (problem(429, "slow down", Retry_After="3600"), UnavailableError, "wait"),
    "invalid": (problem(422, "Validation Failed", "No commits between main and x"), DataError, "No commits between"),
    "broken": (problem(502, "Server Error"), UnavailableError, "502"),
    "gone": (GONE, UnavailableError, "did not respond"),
    "page": (Answer(200, "<html>sign in</html>"), UnavailableError, "not GitHub's API"),
    "other shape": (Answer(200, [{"head": 3}]), UnavailableError, "not GitHub's API"),
    "elsewhere": (Answer(301, {}, {"Location": "https://evil.example/x"}), UnavailableError, "not GitHub's API"),
    "elsewhere for now": (
        Answer(307, {}, {"Location": "https://evil.example/x"}),
        UnavailableError,
        "not GitHub's API",
    ),
    "other host": (Answer(302, {}, {"Location": "http://evil.example/x"}), UnavailableError, "not GitHub's API"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_api_errors_say_what_to_do_and_that_the_branch_is_pushed(
    server: GitHubServer, forge: GitHubForge, name: str
) -> None:
    answer, kind, words = REFUSALS[name]
    server.refuse = lambda request: answer
    with pytest.raises(kind) as caught:
        propose(forge)
    assert words in str(caught.value)
    assert f"is pushed; open the pull request by hand: {server.root}/ada/evals/compare/main..." in str(caught.value)
    assert server.token not in str(caught.value)
    assert {request.headers["authorization"] for request in server.requests} == {f"token {server.token}"}


def test_one_comment_per_marker_is_created_and_then_updated(server: GitHubServer, forge: GitHubForge) -> None:
    propose(forge)
    server.comments[1] = [
        {"id": 900 + n, "body": f"chat {n} <!-- evalscribe:check -->", "url": "", "html_url": ""} for n in range(120)
    ]
    first = forge.comment(1, "check", "one problem")
    assert first == f"{server.root}/ada/evals/pull/1#issuecomment-2"
    assert forge.comment(1, "check", "no problem") == first
    assert forge.comment(1, "other", "x") != first
    assert [comment["body"] for comment in server.comments[1][120:]] == [
        "<!-- evalscribe:check -->\nno problem\n<!-- /evalscribe:check -->",
        "<!-- evalscribe:other -->\nx\n<!-- /evalscribe:other -->",
    ]
    writes = len(server.writes)
    forge.comment(1, "check", "no problem")
    assert len(server.writes) == writes
    server.refuse = lambda request: (
        problem(403, "Resource not accessible by integration") if request.method == "POST" else None
    )
    with pytest.raises(AccessError, match="comment on #1"):
        forge.comment(1, "third", "x")
    with pytest.raises(AccessError):
        forge.comment(77, "check", "x")


def test_api_prefix_of_an_enterprise_server_is_used() -> None:
    with GitHubServer("o/r", prefix="/api/v3") as server:
        forge = GitHubForge(server.api, server.token, "o/r", server.url)
        assert propose(forge).state == "new"
        assert propose(forge, body="x").state == "updated"
        forge.check()
        forge.close()


def test_token_is_checked_without_writing_anything(server: GitHubServer, forge: GitHubForge) -> None:
    forge.check()
    assert [(request.method, request.path) for request in server.requests] == [("GET", "/meta")]
    server.token = "another"
    with pytest.raises(AccessError, match="rejected the token"):
        forge.check()
