"""Fixtures for command line tests: workspaces, generated runs and loopback servers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from evalscribe.experiments import control
from support import run_snapshots
from support.command import InProcessCommand, Workspace
from support.convex_server import Deployment
from support.messages_server import MessagesServer
from support.waiting import PATIENCE_S


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Workspace:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return Workspace(folder, InProcessCommand(folder, monkeypatch, capsys))


@pytest.fixture
def inside(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> InProcessCommand:
    """Run commands in this process, in the folder of `workspace`."""
    return InProcessCommand(workspace.folder, monkeypatch, capsys)


@pytest.fixture(autouse=True)
def patient_cancel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `cancel` wait longer for its worker, because a worker ends slowly on a busy machine."""
    monkeypatch.setattr(control, "PATIENCE_S", float(PATIENCE_S))


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A generated run snapshot with eight failures."""
    return run_snapshots.write(tmp_path_factory.mktemp("made") / "run", 8)


@pytest.fixture
def deployment() -> Iterator[Deployment]:
    server = Deployment()
    yield server
    server.close()


@pytest.fixture
def anthropic() -> Iterator[MessagesServer]:
    with MessagesServer() as server:
        yield server
