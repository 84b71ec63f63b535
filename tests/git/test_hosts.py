"""Choice of the forge for a remote, and the hosts to which a token may be sent."""

from pathlib import Path

import pytest

from evalscribe.errors import UsageError
from evalscribe.git.forge import ManualForge, advice, open_forge
from evalscribe.git.github import GitHubForge
from evalscribe.settings import Options, load

ENTERPRISE = "https://ghe.example/api/v3"
REMOTES = {
    ("git@github.com:ada/evals.git", None): True,
    ("ssh://git@ssh.github.com:443/ada/evals.git", None): True,
    ("https://github.com/ada/evals", "https://api.github.com"): True,
    ("https://ghe.example/ada/evals.git", ENTERPRISE): True,
    ("https://acme.ghe.com/ada/evals.git", "https://api.acme.ghe.com"): True,
    ("https://github.com.evil.example/ada/evals", None): False,
    ("https://api.github.com.evil.example/ada/evals", None): False,
    ("https://evil.example/ada/evals", ENTERPRISE): False,
    ("git@github.com:ada/evals.git", ENTERPRISE): False,
    ("https://gitlab.com/ada/evals.git", None): False,
    ("/srv/git/github.com/ada/evals", None): False,
    (None, None): False,
}


@pytest.mark.parametrize(("remote", "api"), REMOTES)
def test_github_forge_is_used_only_if_the_api_belongs_to_the_remotes_server(
    tmp_path: Path, remote: str | None, api: str | None
) -> None:
    environment = {"GH_TOKEN": "t", **({"GITHUB_API_URL": api} if api else {})}
    forge = open_forge(load(Options(), tmp_path, environment), remote)
    assert isinstance(forge, GitHubForge if REMOTES[remote, api] else ManualForge)
    if isinstance(forge, GitHubForge):
        assert forge.path == "ada/evals"
    forge.close()


def test_missing_token_is_suggested_only_for_github_remotes(tmp_path: Path) -> None:
    settings = load(Options(), tmp_path, {})
    assert isinstance(open_forge(settings, "git@github.com:ada/evals.git"), ManualForge)
    assert "GITHUB_TOKEN" in (advice(settings, "https://github.com/ada/evals/compare/x") or "")
    assert advice(settings, "https://gitlab.com/ada/evals") is None


def test_advice_names_an_api_that_does_not_belong_to_the_remotes_host(tmp_path: Path) -> None:
    settings = load(Options(api_url=ENTERPRISE), tmp_path, {"GITHUB_TOKEN": "t"})
    assert f"{ENTERPRISE} does not belong to git.example" in (advice(settings, "https://git.example/ada/evals") or "")
    assert advice(load(Options(), tmp_path, {"GITHUB_TOKEN": "t"}), "https://git.example/ada/evals") is None


@pytest.mark.parametrize("token", ["ghp_\u00e9", "a\nb"])
def test_error_names_a_token_with_invalid_characters(tmp_path: Path, token: str) -> None:
    with pytest.raises(UsageError, match="GITHUB_TOKEN"):
        load(Options(), tmp_path, {"GITHUB_TOKEN": token}).github()


@pytest.mark.parametrize("place", [".env", "evalscribe.toml"])
def test_workspace_files_cannot_redirect_a_token_from_the_environment(tmp_path: Path, place: str) -> None:
    line = f'[github]\napi_url = "{ENTERPRISE}"\n' if place == "evalscribe.toml" else f"GITHUB_API_URL={ENTERPRISE}\n"
    (tmp_path / place).write_text(line)
    with pytest.raises(UsageError, match="the key is not sent to that host"):
        load(Options(), tmp_path, {"GITHUB_TOKEN": "t"}).github()
    assert load(Options(api_url=ENTERPRISE), tmp_path, {"GITHUB_TOKEN": "t"}).github().url == ENTERPRISE
    (tmp_path / ".env.local").write_text("GITHUB_TOKEN=t\n")
    assert load(Options(), tmp_path, {}).github().url == ENTERPRISE


def test_settings_description_says_that_a_token_is_set_without_its_value(tmp_path: Path) -> None:
    rows = {row.name: row for row in load(Options(), tmp_path, {"GITHUB_TOKEN": "ghp-secret"}).describe()}
    assert (rows["GitHub key"].value, rows["GitHub key"].origin) == ("set", "environment")
    assert rows["GitHub host"].value == "https://api.github.com"
