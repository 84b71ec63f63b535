"""Run commands on hostile input in this process; starting a process takes a second."""

from pathlib import Path
from subprocess import CompletedProcess

import pytest

from evalscribe.cli import run
from support.hostile_runs import Command


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Command:
    """Takes the same arguments as `hostile_runs.evalscribe`, without environment variables."""

    def command(folder: Path, *arguments: str) -> CompletedProcess[bytes]:
        with monkeypatch.context() as patched:
            patched.chdir(folder)
            code = run(list(arguments))
        captured = capfdbinary.readouterr()
        return CompletedProcess(arguments, code, captured.out, captured.err)

    return command
