"""Settings files of an untrusted folder cannot redirect keys, and tracing variables have no effect."""

from dataclasses import replace
from pathlib import Path

import pytest

from support.command import Workspace
from support.convex_server import Deployment
from support.messages_server import MessagesServer

KEY = "sk-ant-test-0000"


@pytest.mark.parametrize("name", [".env", ".env.local"])
def test_dotenv_file_cannot_redirect_an_environment_key(
    name: str, workspace: Workspace, made: Path, anthropic: MessagesServer
) -> None:
    (workspace.folder / name).write_text(f"ANTHROPIC_BASE_URL={anthropic.url}\n")
    ended = workspace.run("analyze", made, code=64, ANTHROPIC_API_KEY=KEY)
    assert name in ended.err
    assert "ANTHROPIC_BASE_URL" in ended.err
    assert KEY not in ended.err
    assert anthropic.calls == []
    assert workspace.reports == []


def test_settings_file_cannot_redirect_a_deploy_key(workspace: Workspace, deployment: Deployment) -> None:
    (workspace.folder / "evalscribe.toml").write_text(f'[sources.convex]\ndeployment = "{deployment.url}"\n')
    ended = workspace.run("analyze", "jn7x", "--judge", "rules", code=64, CONVEX_DEPLOY_KEY="prod:a|b")
    assert "evalscribe.toml" in ended.err
    assert deployment.requests == []


def test_key_and_host_from_the_same_file_are_used_together(
    workspace: Workspace, made: Path, anthropic: MessagesServer
) -> None:
    (workspace.folder / ".env").write_text(f"ANTHROPIC_API_KEY={KEY}\nANTHROPIC_BASE_URL={anthropic.url}\n")
    workspace.run("analyze", made, "--yes", "--quiet")
    assert {call.headers["authorization"] for call in anthropic.calls} == {f"Bearer {KEY}"}


def test_rules_judge_runs_when_the_key_may_not_be_sent(
    workspace: Workspace, made: Path, anthropic: MessagesServer
) -> None:
    (workspace.folder / ".env").write_text(f"ANTHROPIC_BASE_URL={anthropic.url}\n")
    workspace.run("analyze", made, "--judge", "rules", "--quiet", ANTHROPIC_API_KEY=KEY)
    assert anthropic.calls == []


def test_tracing_variables_send_no_traces(workspace: Workspace, made: Path, anthropic: MessagesServer) -> None:
    """`anthropic` plays the tracing service: it records everything that is posted to it."""
    traced = {
        "LANGSMITH_TRACING": "true",
        "LANGCHAIN_TRACING_V2": "true",
        "LANGSMITH_ENDPOINT": anthropic.url,
        "LANGCHAIN_ENDPOINT": anthropic.url,
        "LANGSMITH_API_KEY": "lsv2-none",
        "LANGCHAIN_API_KEY": "lsv2-none",
        "OTEL_EXPORTER_OTLP_ENDPOINT": anthropic.url,
        "LANGSMITH_OTEL_ENABLED": "true",
    }
    with MessagesServer() as judge:
        access = {
            "ANTHROPIC_API_KEY": KEY,
            "ANTHROPIC_BASE_URL": judge.url,
            "EVALSCRIBE_JUDGE": "anthropic/claude-opus-5-5",
        }
        workspace.apart.run("analyze", made, **access, **traced)
        assert len(judge.calls) == 8
    assert anthropic.calls == []


def test_reports_and_store_are_written_to_the_workspace_root(workspace: Workspace, made: Path) -> None:
    (workspace.folder / "evalscribe.toml").write_text("")
    below = workspace.folder / "deep" / "below"
    below.mkdir(parents=True)
    assert workspace.inside
    replace(workspace.inside, folder=below).run("analyze", made, "--judge", "rules", "--quiet")
    assert workspace.report.is_relative_to(workspace.folder / "reports")
    store = workspace.folder / ".evalscribe"
    assert store.stat().st_mode & 0o777 == 0o700
    assert (store / ".gitignore").read_text() == "*\n"
    assert not (below / ".evalscribe").exists()


def test_unwritable_reports_folder_is_reported_without_a_traceback(workspace: Workspace, made: Path) -> None:
    (workspace.folder / "reports").write_text("a file")
    ended = workspace.run("analyze", made, "--judge", "rules", "--quiet", code=65)
    assert "reports" in ended.err
    assert "Traceback" not in ended.err
