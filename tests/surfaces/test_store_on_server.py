"""Commands with the store on a database server: the same output, and only reports on the local disk."""

import re
from pathlib import Path
from urllib.parse import unquote

import pytest

from support.command import Workspace
from support.messages_server import MessagesServer
from support.postgres_server import PASSWORD
from support.suite_repository import RELAXED, SuiteRepository, patch

ANALYZE = ("analyze", "sample", "--judge", "rules", "--date", "2026-11-02")


@pytest.fixture
def on_server(workspace: Workspace, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setenv("EVALSCRIBE_STORE_URL", postgres_url)
    return workspace


def test_sample_is_analysed_and_fixed_with_the_store_on_a_server(on_server: Workspace, tmp_path: Path) -> None:
    on_server.run(*ANALYZE)
    again = on_server.run(*ANALYZE)
    assert "unchanged" in again.out + again.err
    assert [path.name for path in on_server.folder.iterdir()] == ["reports"]
    suite = SuiteRepository(tmp_path / "suite")
    words = ("apply", "smp7q2ka", "R2", "--repo", suite.suite)
    with MessagesServer(patch()) as server:
        access = {
            "ANTHROPIC_API_KEY": "key",
            "ANTHROPIC_BASE_URL": server.url,
            "EVALSCRIBE_JUDGE": "anthropic/claude-opus-5-5",
        }
        assert "Nothing was changed. After a person has agreed" in on_server.run(*words, **access).out
        assert "\n\nCommitted as " in on_server.run(*words, "--yes", **access).out
        assert len(server.calls) == 1
    assert suite.git("show", "evalscribe/R2-smp7q2ka:ruff.toml").endswith(RELAXED)


def test_report_is_the_same_with_a_local_store_and_a_server(
    on_server: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_server.run(*ANALYZE, "--quiet")
    server_reports = {path.name: path.read_text() for path in on_server.reports}
    monkeypatch.delenv("EVALSCRIBE_STORE_URL")
    on_server.run(*ANALYZE, "--quiet", "--reports", "here/reports")
    local_reports = {path.name: path.read_text() for path in (on_server.folder / "here").glob("reports/*/**/*.md")}
    assert (on_server.folder / "here" / ".evalscribe" / "store.db").is_file()
    assert local_reports == server_reports


def test_doctor_shows_the_server_without_the_password(on_server: Workspace, postgres_url: str) -> None:
    out = on_server.run("doctor").out
    shown = postgres_url.replace(f":{PASSWORD}", "")
    assert re.search(
        rf"{re.escape(shown)} can be written: Postgres \d+\.\d+.*, revision \d{{4}}", " ".join(out.split())
    )
    assert PASSWORD not in out


def test_unreachable_database_exits_with_69(on_server: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVALSCRIBE_STORE_URL", "postgresql://u:hidden@127.0.0.1:1/d")
    error = on_server.run(*ANALYZE, code=69).err
    assert "the store postgresql://u@127.0.0.1:1/d did not respond" in error
    assert on_server.reports == []


def test_wrong_password_exits_with_77_and_is_not_printed(
    on_server: Workspace, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVALSCRIBE_STORE_URL", postgres_url.replace(PASSWORD, "hidden"))
    error = on_server.run(*ANALYZE, code=77).err
    assert "refused access: password authentication failed" in error
    assert "hidden" not in error


def test_user_password_is_not_sent_to_a_store_url_from_the_folder(
    workspace: Workspace, postgres_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Libpq would read the password from the environment or the user's password file."""
    bare, password = postgres_url.replace(f":{PASSWORD}", ""), unquote(PASSWORD)
    (tmp_path / "passwords").write_text(f"*:*:*:*:{password}\n")
    (tmp_path / "passwords").chmod(0o600)
    for name, value in (("PGPASSWORD", password), ("PGPASSFILE", str(tmp_path / "passwords"))):
        with monkeypatch.context() as users:
            users.setenv(name, value)
            assert "can be written" in workspace.run("doctor", EVALSCRIBE_STORE_URL=bare).out
            (workspace.folder / "evalscribe.toml").write_text(f'store_url = "{bare}"\n')
            error = workspace.run(*ANALYZE, code=77).err
            assert "refused access: " in error
            assert "PGPASSWORD and ~/.pgpass are used only if the address comes from the environment" in " ".join(
                error.split()
            )
            (workspace.folder / "evalscribe.toml").unlink()
