"""Parsing of remote addresses as people write them."""

import pytest

from evalscribe.git.remotes import parse_address, pull_request_page, strip_credentials
from evalscribe.model.repository import PushedBranch

BRANCH = "evalscribe/p/m/abc"
SHAPES = {
    "https://github.com/ada/evals.git": ("github.com", "ada/evals"),
    "https://ada:secret@GitHub.com/ada/evals": ("github.com", "ada/evals"),
    "git@github.com:ada/evals.git": ("github.com", "ada/evals"),
    "ssh://git@ssh.github.com:443/ada/evals.git": ("ssh.github.com", "ada/evals"),
    "git://example.org/a/b/c.git/": ("example.org", "a/b/c"),
    "host:evals": ("host", "evals"),
    "http://[::1]:3000/a/b": ("::1", "a/b"),
}


@pytest.mark.parametrize("url", SHAPES)
def test_host_and_path_are_parsed_from_an_address(url: str) -> None:
    address = parse_address(url)
    assert address is not None
    assert (address.host, address.path) == SHAPES[url]


@pytest.mark.parametrize(
    "url", ["/srv/git/x.git", "../x", "file:///x", "C:\\x\\y", "C:/x", "", None, "https:///x", "http://[x", "https://h"]
)
def test_local_paths_and_invalid_addresses_have_no_server(url: str | None) -> None:
    assert parse_address(url) is None
    assert pull_request_page(PushedBranch(branch=BRANCH, commit="0"), "main", url) == ""


def test_credentials_are_stripped_from_addresses() -> None:
    assert strip_credentials("https://ada:secret@h.example:8443/a/b?x=1") == "https://h.example:8443/a/b?x=1"
    assert strip_credentials("ssh://ada@h.example/a/b") == "ssh://h.example/a/b"
    assert strip_credentials("git@h.example:a/b") == "git@h.example:a/b"
    assert strip_credentials("token@h.example:a/b") == "h.example:a/b"
    assert strip_credentials("/srv/a@b:c") == "/srv/a@b:c"
    assert "secret" not in strip_credentials("https://a:secret@[x/a")


PAGES = {
    "git@github.com:ada/evals.git": f"https://github.com/ada/evals/compare/main...{BRANCH}?expand=1",
    "https://u:p@gitlab.example:8443/g/s/evals.git": (
        "https://gitlab.example:8443/g/s/evals/-/merge_requests/new?merge_request%5Bsource_branch%5D="
        "evalscribe%2Fp%2Fm%2Fabc&merge_request%5Btarget_branch%5D=main"
    ),
    "git@bitbucket.org:t/evals.git": "https://bitbucket.org/t/evals/pull-requests/new?source=evalscribe%2Fp%2Fm%2Fabc&dest=main",
    "ssh://git@codeberg.org/ada/evals.git": f"https://codeberg.org/ada/evals/compare/main...{BRANCH}",
}


@pytest.mark.parametrize("url", PAGES)
def test_pull_request_page_has_the_form_of_its_host(url: str) -> None:
    assert pull_request_page(PushedBranch(branch=BRANCH, commit="0"), "main", url) == PAGES[url]


def test_pull_request_url_in_server_messages_is_used_only_on_the_same_host() -> None:
    server_messages = "Create a merge request:\n  https://evil.example/x\n  https://git.example/o/r/-/mr/new?x=1"
    pushed = PushedBranch(branch=BRANCH, commit="0", server_messages=server_messages)
    assert pull_request_page(pushed, "main", "git@git.example:o/r.git") == "https://git.example/o/r/-/mr/new?x=1"
    assert "evil" not in pull_request_page(pushed, "main", "git@other.example:o/r.git")
