from collections.abc import Iterator
from pathlib import Path

import pytest

from evalscribe import AgentRun, AssistantMessage, Client, Transcript, UserMessage
from support.judge_providers import Providers


@pytest.fixture
def providers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Providers]:
    """Providers whose keys and URLs are set in the environment."""
    providers = Providers()
    with providers.anthropic, providers.openai:
        for name, value in providers.environment.items():
            monkeypatch.setenv(name, value)
        yield providers


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty workspace, which is the working folder."""
    folder = tmp_path / "workspace"
    (folder / ".git").mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def client(workspace: Path) -> Iterator[Client]:
    with Client() as client:
        yield client


@pytest.fixture
def agent_run() -> AgentRun:
    messages = (
        UserMessage(content="What is the capital of France?"),
        AssistantMessage(content="The capital of France is Paris."),
    )
    return AgentRun(transcripts=(Transcript(messages=messages),))
