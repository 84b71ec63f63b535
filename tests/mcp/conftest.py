"""One client calls every tool of a real server process in one session, and each test checks some answers."""

import asyncio
import sys
from pathlib import Path

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from evalscribe.mcp.context import ServerWorkspace
from support.mcp_session import Session, environment, everything, workspace


@pytest.fixture(scope="session")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    parent = tmp_path_factory.mktemp("mcp")
    session = Session(workspace(parent))
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "evalscribe", "mcp", "--folder", str(session.folder)],
        env=environment(parent),
        cwd=str(parent),
    )

    async def main() -> None:
        with (parent / "errors.log").open("w") as errors:
            async with Client(stdio_client(server, errors)) as client:
                await everything(client, session)

    asyncio.run(main())
    session.errors = (parent / "errors.log").read_text()
    return session


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ServerWorkspace:
    """An empty workspace, for a server in this process."""
    monkeypatch.chdir(workspace(tmp_path))
    return ServerWorkspace()
