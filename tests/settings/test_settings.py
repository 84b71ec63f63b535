from pathlib import Path
from typing import Any

import pytest

from evalscribe.errors import AccessError, EvalscribeError, NotFoundError, UsageError
from evalscribe.settings import Options, Settings, load, workspace_root
from evalscribe.settings.access import PROVIDERS

KEY, SECRET = "prod:fabulous-panther-525|dGVzdGtleQ==", "dGVzdGtleQ"
NAMED = "https://fabulous-panther-525.convex.cloud"
SELF_HOSTED = "convex-self-hosted|01abcdef"
ANTHROPIC = "sk-ant-api03-thisIsNoRealKey"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A workspace root, so that no folder above it is taken for the workspace."""
    (tmp_path / ".git").mkdir()
    return tmp_path


def read(folder: Path, environ: dict[str, str] | None = None, **options: Any) -> Settings:
    return load(Options(**options), folder, environ or {})


def message(caught: pytest.ExceptionInfo[EvalscribeError]) -> str:
    text = str(caught.value)
    assert SECRET not in text
    assert ANTHROPIC not in text
    assert len(text.splitlines()) <= 2
    return text


def test_defaults_apply_without_configuration(folder: Path) -> None:
    settings = read(folder)
    assert (settings.judge.value, settings.budget.value, settings.concurrency.value) == (None, 5.0, 4)
    assert settings.reports.value == folder / "reports"
    assert settings.store == folder / ".evalscribe"
    assert settings.judge.origin.where == "default"
    assert settings.provider("anthropic") is None


def test_sources_of_settings_have_a_fixed_precedence(folder: Path) -> None:
    (folder / "evalscribe.toml").write_text('judge = "toml"\n')
    assert (read(folder).judge.value, read(folder).judge.origin.where) == ("toml", "evalscribe.toml")
    (folder / ".env").write_text("EVALSCRIBE_JUDGE=env-file\n")
    assert (read(folder).judge.value, read(folder).judge.origin.where) == ("env-file", ".env")
    (folder / ".env.local").write_text("EVALSCRIBE_JUDGE='local file'\n")
    assert (read(folder).judge.value, read(folder).judge.origin.where) == ("local file", ".env.local")
    environ = {"EVALSCRIBE_JUDGE": "environ"}
    assert (read(folder, environ).judge.value, read(folder, environ).judge.origin.where) == ("environ", "environment")
    assert read(folder, {"EVALSCRIBE_JUDGE": ""}).judge.value == "local file", "an empty value is none"
    judge = read(folder, environ, judge="rules").judge
    assert (judge.value, judge.origin.where) == ("rules", "command line")


def test_settings_are_read_from_evalscribe_toml(folder: Path) -> None:
    (folder / "evalscribe.toml").write_text(
        'judge = "rules"\nbudget = 2\nconcurrency = 3\nmax_tokens = 9\n'
        'context_tokens = 8192\nreports = "docs/reports"\npage_url = "https://p.example/pages/"\n'
        '[sources.convex]\ndeployment = "https://a.example/"\nvisualizer = "https://v.example/"\n'
    )
    settings = read(folder)
    assert (settings.budget.value, settings.concurrency.value, settings.max_tokens.value) == (2.0, 3, 9)
    assert settings.context_tokens.value == 8192
    assert settings.reports.value == folder / "docs" / "reports"
    assert settings.store == folder / "docs" / ".evalscribe"
    assert settings.visualizer.value == "https://v.example"
    assert settings.page_url.value == "https://p.example/pages"
    assert settings.convex().url == "https://a.example"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('judge = "a"\nbugdet = 5\n', "line 2: `bugdet` is not a setting"),
        ('\n[sources.convex]\ndeploy_key = "x"\n', "line 3: `sources.convex.deploy_key` is not a setting"),
        ("judge = \n", "line 1"),
        ('budget = "much"\n', "line 1: `budget`"),
        ("budget = -1\n", "line 1: `budget`"),
        ("budget = nan\n", "`budget`"),
        ("concurrency = 0\n", "line 1: `concurrency`"),
        ("[sources]\nconvex = 3\n", "line 2: `sources.convex`"),
        ('judge = ""\n', "`judge`"),
    ],
)
def test_error_names_the_invalid_setting_in_evalscribe_toml(folder: Path, text: str, says: str) -> None:
    (folder / "evalscribe.toml").write_text(text)
    with pytest.raises(UsageError) as caught:
        read(folder)
    assert says in message(caught)


def test_key_in_evalscribe_toml_is_not_printed(folder: Path) -> None:
    (folder / "evalscribe.toml").write_text(f'anthropic_api_key = "{ANTHROPIC}"\nbudget = "{SECRET}"\n')
    with pytest.raises(UsageError) as caught:
        read(folder)
    assert "anthropic_api_key" in message(caught) or "budget" in message(caught)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("EVALSCRIBE_BUDGET", "five"),
        ("EVALSCRIBE_BUDGET", "nan"),
        ("EVALSCRIBE_BUDGET", "inf"),
        ("EVALSCRIBE_BUDGET", "-1"),
        ("EVALSCRIBE_CONCURRENCY", "0"),
        ("EVALSCRIBE_CONCURRENCY", "1.5"),
        ("EVALSCRIBE_MAX_TOKENS", "0"),
        ("EVALSCRIBE_CONTEXT_TOKENS", "many"),
    ],
)
def test_invalid_number_is_refused_with_its_origin(folder: Path, name: str, value: str) -> None:
    with pytest.raises(UsageError, match=r"\(environment\)"):
        read(folder, {name: value})


def test_workspace_root_is_the_nearest_marked_folder(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    assert workspace_root(inner) == tmp_path
    (tmp_path / "a" / "evalscribe.toml").write_text("")
    assert workspace_root(inner) == tmp_path / "a"
    (tmp_path / ".env").write_text("EVALSCRIBE_JUDGE=outer")
    (tmp_path / "a" / ".env").write_text("EVALSCRIBE_JUDGE=root")
    assert read(inner).judge.value == "root"
    (inner / ".env").write_text("EVALSCRIBE_JUDGE=here")
    assert read(inner).judge.value == "here"
    assert read(inner).reports.value == tmp_path / "a" / "reports"


def test_command_line_path_is_relative_to_the_working_folder(folder: Path) -> None:
    inner = folder / "sub"
    inner.mkdir()
    assert read(inner, reports=Path("r")).reports.value == inner / "r"


@pytest.mark.parametrize("reports", ["/etc/x", "../x", "a/../../x"])
def test_workspace_file_cannot_move_reports_outside_the_workspace(folder: Path, reports: str) -> None:
    (folder / ".env").write_text(f"EVALSCRIBE_REPORTS={reports}\n")
    with pytest.raises(UsageError, match="outside"):
        read(folder)
    assert read(folder, {"EVALSCRIBE_REPORTS": "/tmp/x"}).reports.value == Path("/tmp/x")


def test_missing_deploy_key_error_says_what_to_set_and_where_to_find_it(folder: Path) -> None:
    with pytest.raises(AccessError) as caught:
        read(folder).convex()
    lines = message(caught).splitlines()
    assert len(lines) == 2
    assert "CONVEX_DEPLOY_KEY" in lines[0]
    assert "dashboard" in lines[1]


def test_error_for_a_logged_in_user_names_deploy_key_and_npx(folder: Path) -> None:
    with pytest.raises(AccessError) as caught:
        read(folder, {"CONVEX_DEPLOYMENT": "dev:quick-otter-1"}).convex()
    assert "CONVEX_DEPLOY_KEY" in message(caught)
    assert "`via` npx" in message(caught)


@pytest.mark.parametrize("name", ["CONVEX_DEPLOY_KEY", "CONVEX_DEPLOYMENT_TOKEN"])
def test_deploy_key_determines_the_deployment(folder: Path, name: str) -> None:
    access = read(folder, {name: KEY}).convex()
    assert access.url == NAMED
    assert access.key is not None
    assert access.key.get_secret_value() == KEY, "sent whole"


def test_key_file_option_overrides_the_environment(folder: Path) -> None:
    (folder / "key").write_text(f"\n{KEY}\n")
    access = read(folder, {"CONVEX_DEPLOY_KEY": "prod:other-1|x"}, key_file=Path("key")).convex()
    assert access.url == NAMED
    assert access.key_origin is not None
    assert access.key_origin.where == "command line"
    (folder / "two").write_text(f"{KEY}\n{KEY}\n")
    with pytest.raises(UsageError, match="one line"):
        read(folder, key_file=Path("two"))
    with pytest.raises(NotFoundError, match=r"file .* not found"):
        read(folder, key_file=Path("none"))
    with pytest.raises(UsageError, match="cannot be read"):
        read(folder, key_file=Path())


def test_env_file_option_replaces_all_deployment_settings(folder: Path) -> None:
    (folder / "prod.env").write_text(
        f"CONVEX_SELF_HOSTED_URL=http://127.0.0.1:1\nCONVEX_SELF_HOSTED_ADMIN_KEY={SELF_HOSTED}\n"
    )
    (folder / ".env.local").write_text("CONVEX_DEPLOY_KEY=prod:other-1|x\n")
    environ = {"CONVEX_DEPLOY_KEY": KEY, "ANTHROPIC_API_KEY": ANTHROPIC}
    settings = read(folder, environ, env_file=Path("prod.env"))
    assert settings.convex().url == "http://127.0.0.1:1"
    assert settings.provider("anthropic") is not None
    with pytest.raises(NotFoundError):
        read(folder, env_file=Path("none.env"))


def test_self_hosted_url_and_key_are_used_unless_a_deploy_key_is_set(folder: Path) -> None:
    pair = {"CONVEX_SELF_HOSTED_URL": "http://127.0.0.1:3210/", "CONVEX_SELF_HOSTED_ADMIN_KEY": SELF_HOSTED}
    assert read(folder, pair).convex().url == "http://127.0.0.1:3210"
    assert read(folder, {**pair, "CONVEX_DEPLOY_KEY": KEY}).convex().url == NAMED, "as for npx convex"
    with pytest.raises(UsageError, match="CONVEX_SELF_HOSTED_URL"):
        read(folder, {"CONVEX_SELF_HOSTED_ADMIN_KEY": SELF_HOSTED}).convex()


@pytest.mark.parametrize(
    ("key", "error", "says"),
    [
        ("project:team:proj|s", UsageError, "does not name a deployment"),
        ("preview:team:proj|s", UsageError, "does not name a deployment"),
        ("dGVzdGtleQ==", UsageError, "new deploy key"),
        ("prod:a|b\nc", UsageError, "damaged"),
        (SELF_HOSTED, UsageError, "`deployment`"),
        ("prod:evil.example/x|secret", UsageError, "`deployment`"),
        ("<missing_deploy_key:ask your team>", AccessError, "ask your team"),
        ("<ignore_deploy_key>", AccessError, "no Convex deployment is set"),
    ],
)
def test_deploy_key_without_a_deployment_is_refused(
    folder: Path, key: str, error: type[EvalscribeError], says: str
) -> None:
    with pytest.raises(error) as caught:
        read(folder, {"CONVEX_DEPLOY_KEY": key}).convex()
    assert says in message(caught)


def test_deployment_option_may_receive_any_key(folder: Path) -> None:
    (folder / ".env").write_text(f"CONVEX_DEPLOY_KEY={KEY}\n")
    for environ in ({}, {"CONVEX_DEPLOY_KEY": KEY}, {"CONVEX_SELF_HOSTED_ADMIN_KEY": SELF_HOSTED}):
        access = read(folder, environ, deployment="http://127.0.0.1:9").convex()
        assert access.url == "http://127.0.0.1:9"
        assert access.key is not None


def test_deployment_option_without_a_key_has_no_key(folder: Path) -> None:
    assert read(folder, deployment="http://127.0.0.1:9").convex().key is None


EVIL = "http://evil.example"


@pytest.mark.parametrize(
    ("file", "text", "environ"),
    [
        (".env", f"EVALSCRIBE_DEPLOYMENT={EVIL}", {"CONVEX_DEPLOY_KEY": KEY}),
        (".env.local", f"EVALSCRIBE_DEPLOYMENT={EVIL}", {"CONVEX_DEPLOYMENT_TOKEN": KEY}),
        ("evalscribe.toml", f'[sources.convex]\ndeployment = "{EVIL}"', {"CONVEX_DEPLOY_KEY": KEY}),
        (".env", f"CONVEX_SELF_HOSTED_URL={EVIL}", {"CONVEX_DEPLOY_KEY": KEY}),
        (".env", f"CONVEX_SELF_HOSTED_URL={EVIL}", {"CONVEX_SELF_HOSTED_ADMIN_KEY": SELF_HOSTED}),
        (".env", f"EVALSCRIBE_DEPLOYMENT={EVIL}", {"CONVEX_SELF_HOSTED_ADMIN_KEY": SELF_HOSTED}),
    ],
)
def test_workspace_cannot_redirect_an_environment_deploy_key(
    folder: Path, file: str, text: str, environ: dict[str, str]
) -> None:
    (folder / file).write_text(text)
    with pytest.raises(UsageError) as caught:
        read(folder, environ).convex()
    assert file in message(caught)
    assert "environment" in message(caught)


def test_workspace_may_name_the_deployment_of_the_key(folder: Path) -> None:
    (folder / "evalscribe.toml").write_text(f'[sources.convex]\ndeployment = "{NAMED}"')
    assert read(folder, {"CONVEX_DEPLOY_KEY": KEY}).convex().url == NAMED


def test_self_hosted_pair_in_the_workspace_does_not_override_the_deploy_key(folder: Path) -> None:
    (folder / ".env").write_text(f"CONVEX_SELF_HOSTED_URL={EVIL}\nCONVEX_SELF_HOSTED_ADMIN_KEY=x|y\n")
    assert read(folder, {"CONVEX_DEPLOY_KEY": KEY}).convex().url == NAMED


@pytest.mark.parametrize("name", PROVIDERS)
def test_workspace_cannot_redirect_an_environment_provider_key(folder: Path, name: str) -> None:
    variable = name.upper()
    (folder / ".env").write_text(f"{variable}_BASE_URL={EVIL}\n")
    settings = read(folder, {f"{variable}_API_KEY": ANTHROPIC})
    with pytest.raises(UsageError) as caught:
        settings.provider(name)
    assert f"{variable}_BASE_URL comes from .env but {variable}_API_KEY from environment" in message(caught)


@pytest.mark.parametrize("name", PROVIDERS)
def test_provider_url_is_used_if_it_is_as_trusted_as_the_key(folder: Path, name: str) -> None:
    variable = name.upper()
    both = {f"{variable}_API_KEY": ANTHROPIC, f"{variable}_BASE_URL": "http://127.0.0.1:8000/v1/"}
    assert url_of(read(folder, both), name) == "http://127.0.0.1:8000/v1"
    (folder / ".env").write_text("".join(f"{name}={value}\n" for name, value in both.items()))
    assert url_of(read(folder), name) == "http://127.0.0.1:8000/v1"
    more_trusted = read(folder, {f"{variable}_BASE_URL": "http://127.0.0.1:9"})
    assert url_of(more_trusted, name) == "http://127.0.0.1:9"


@pytest.mark.parametrize("name", PROVIDERS)
def test_provider_key_without_a_url_goes_to_its_vendor(folder: Path, name: str) -> None:
    (folder / ".env").write_text(f"{name.upper()}_API_KEY={ANTHROPIC}\n")
    assert url_of(read(folder), name) == PROVIDERS[name].url
    assert all(read(folder).provider(other) is None for other in PROVIDERS if other != name)


@pytest.mark.parametrize("damaged", ["sk-ant-one\nsk-ant-two", "sk-ant-k\u00e9y", "sk-ant-\u200b"])
def test_damaged_key_is_refused_without_printing_it(folder: Path, damaged: str) -> None:
    with pytest.raises(UsageError, match=r"OPENAI_API_KEY \(environment\) contains invalid characters") as caught:
        read(folder, {"OPENAI_API_KEY": damaged}).provider("openai")
    assert "sk-ant" not in message(caught)


def test_key_of_one_vendor_is_never_used_for_another(folder: Path) -> None:
    environ = {"OPENAI_API_KEY": ANTHROPIC, "OPENROUTER_BASE_URL": EVIL, "GOOGLE_BASE_URL": EVIL}
    settings = read(folder, environ)
    assert url_of(settings, "openai") == "https://api.openai.com/v1"
    assert settings.provider("openrouter") is None
    assert settings.provider("google") is None


def test_openai_compatible_server_needs_no_key(folder: Path) -> None:
    (folder / ".env").write_text("OPENAI_BASE_URL=http://127.0.0.1:11434/v1/\n")
    access = read(folder).provider("openai")
    assert access is not None
    assert (access.url, access.key) == ("http://127.0.0.1:11434/v1", None)
    (folder / ".env").write_text(f"OPENAI_BASE_URL={PROVIDERS['openai'].url}/\n")
    assert read(folder).provider("openai") is None, "the vendor's own address needs one"


def url_of(settings: Settings, name: str) -> str:
    access = settings.provider(name)
    assert access is not None
    assert access.key is not None
    assert access.key.get_secret_value() == ANTHROPIC
    return access.url


def test_env_file_values_are_not_expanded(folder: Path) -> None:
    (folder / ".env").write_text("EVALSCRIBE_DEPLOYMENT=http://evil.example/${CONVEX_DEPLOY_KEY}/$HOME\n")
    url = read(folder, {"HOME": "/home/me"}).convex().url
    assert url == "http://evil.example/${CONVEX_DEPLOY_KEY}/$HOME"


@pytest.mark.parametrize(
    "url", ["evil", "file:///etc", "https://user:pw@a.example", "https://a.example?x=1", "http://", "http://[", "a b"]
)
def test_invalid_url_is_refused(folder: Path, url: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(folder, deployment=url).convex()
    assert "command line" in message(caught)
    with pytest.raises(UsageError):
        read(folder, {"EVALSCRIBE_VISUALIZER": url})


def test_invalid_env_files_and_lines_are_ignored(folder: Path) -> None:
    (folder / ".env").mkdir()
    (folder / ".env.local").write_bytes(b"\xff\xfe\x00= \n=\nnonsense\nEVALSCRIBE_JUDGE=rules\n")
    assert read(folder).judge.value == "rules"


def test_secrets_are_never_printed(folder: Path) -> None:
    settings = read(folder, {"CONVEX_DEPLOY_KEY": KEY, "ANTHROPIC_API_KEY": ANTHROPIC, "OTHER_SECRET": "unrelated"})
    rows = settings.describe()
    everything = (
        repr(settings)
        + str(rows)
        + settings.model_dump_json()
        + repr(settings.convex())
        + str(settings.provider("anthropic"))
    )
    assert SECRET not in everything
    assert ANTHROPIC not in everything
    assert "OTHER_SECRET" not in everything
    shown = {row.name: (row.value, row.origin) for row in rows}
    assert shown["Convex key"] == ("set", "environment")
    assert shown["Convex host"] == (NAMED, "environment")
    assert shown["Anthropic key"] == ("set", "environment")
    assert shown["judge"] == ("anthropic/claude-opus-5-5", "ANTHROPIC_API_KEY is set; not called without consent")


def test_doctor_shows_missing_and_refused_keys(folder: Path) -> None:
    shown = {row.name: row for row in read(folder).describe()}
    assert shown["Anthropic key"].value == "missing"
    assert "CONVEX_DEPLOY_KEY" in shown["Convex key"].value
    (folder / ".env").write_text(f"ANTHROPIC_BASE_URL={EVIL}\n")
    refused = {row.name: row for row in read(folder, {"ANTHROPIC_API_KEY": ANTHROPIC}).describe()}
    assert "not sent" in refused["Anthropic key"].value


def test_doctor_shows_every_provider(folder: Path) -> None:
    environ = {"OPENAI_BASE_URL": "http://127.0.0.1:11434/v1", "OPENROUTER_API_KEY": ANTHROPIC}
    shown = {row.name: (row.value, row.origin) for row in read(folder, environ).describe()}
    assert shown["OpenAI key"] == ("none set", "default")
    assert shown["OpenAI host"] == ("http://127.0.0.1:11434/v1", "environment")
    assert shown["OpenRouter key"] == ("set", "environment")
    assert shown["Google key"] == ("missing", "set GOOGLE_API_KEY")
    assert "Google host" not in shown


STORE = "postgresql://evals@db.example:5433/evals"


def test_store_is_a_folder_unless_a_url_is_set(folder: Path) -> None:
    assert read(folder).store_place == folder / ".evalscribe"
    assert read(folder, {"EVALSCRIBE_STORE_URL": STORE}).store_place == STORE


@pytest.mark.parametrize("file", [".env", ".env.local", "evalscribe.toml"])
def test_store_url_in_the_workspace_gets_no_user_password(folder: Path, file: str) -> None:
    """The URL gets an empty password and no password file, so libpq ignores PGPASSWORD and ~/.pgpass."""
    text = f'store_url = "{STORE}"' if file == "evalscribe.toml" else f"EVALSCRIBE_STORE_URL={STORE}"
    (folder / file).write_text(f"{text}\n")
    assert read(folder).store_place == f"{STORE}?password=&passfile=%2Fdev%2Fnull%2Fnone"
    (row,) = [row for row in read(folder).describe() if row.name == "store"]
    assert (row.value, row.origin) == (STORE, file)


def test_store_url_in_a_named_env_file_is_used_unchanged(folder: Path) -> None:
    (folder / "mine").write_text(f"EVALSCRIBE_STORE_URL={STORE}\n")
    assert read(folder, env_file=Path("mine")).store_place == STORE


def test_password_in_the_store_url_is_used_but_never_shown(folder: Path) -> None:
    (folder / ".env").write_text("EVALSCRIBE_STORE_URL=postgres://u:hid%40den@h/d?sslmode=require\n")
    settings = read(folder)
    assert settings.store_place == "postgres://u:hid%40den@h/d?sslmode=require&passfile=%2Fdev%2Fnull%2Fnone"
    assert "hid" not in "".join(f"{row.value} {row.origin}" for row in settings.describe())
    assert "hid" not in repr(settings)


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("mysql://u@h/d", "does not have the form postgresql://"),
        ("postgresql://u@h", "does not have the form postgresql://"),
        ("postgresql://u:hidd/en@h/d", "does not have the form postgresql://"),
        ("postgresql://u:hidd@en@h/d", "does not have the form postgresql://"),
        ("postgresql://u@h:hidden/d", "does not have the form postgresql://"),
        ("postgresql://u@h1,h2/d", "does not have the form postgresql://"),
        ("postgresql://u@h1%2Ch2/d", "does not have the form postgresql://"),
        ("postgresql://u@h/d?host=h1,hidden", "has several hosts"),
        ("postgresql://u@h/d?host=h1%2Chidden", "has several hosts"),
        ("postgresql://u@h/d#hidden", "does not have the form postgresql://"),
        ("postgresql://u@h/d?passfile=/home/u/hidden", "has an unknown parameter 'passfile'"),
        ("postgresql://u@h/d?service=hidden", "has an unknown parameter 'service'"),
        ("postgresql://u@h/d?options=-chidden", "has an unknown parameter 'options'"),
    ],
)
def test_invalid_store_url_is_refused_without_printing_it(folder: Path, address: str, says: str) -> None:
    settings = read(folder, {"EVALSCRIBE_STORE_URL": address})
    with pytest.raises(UsageError, match=says) as caught:
        settings.store_place  # noqa: B018
    assert message(caught).startswith("EVALSCRIBE_STORE_URL (environment) ")
    assert "hidd" not in str(caught.value)
    (row,) = [row for row in settings.describe() if row.name == "store"]
    assert row.origin == "refused"
    assert "hidd" not in row.value


def test_password_in_evalscribe_toml_is_refused(folder: Path) -> None:
    (folder / "evalscribe.toml").write_text('store_url = "postgresql://u:hidden@h/d"\n')
    with pytest.raises(UsageError, match=r"store_url \(evalscribe.toml\) has a password.*\.env\.local") as caught:
        read(folder).store_place  # noqa: B018
    assert "hidden" not in str(caught.value)
