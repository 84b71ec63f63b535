"""Commands on hostile input, in this process: for what needs none of its own, which takes a second to start."""

from pathlib import Path
from subprocess import CompletedProcess

import pytest

from evalscribe.cli import run
from support.hostile_runs import Command


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Command:
    """Called as `hostile_run.evalscribe` is."""

    def command(folder: Path, *arguments: str) -> CompletedProcess[bytes]:
        with monkeypatch.context() as patched:
            patched.chdir(folder)
            code = run(list(arguments))
        said = capfdbinary.readouterr()
        return CompletedProcess(arguments, code, said.out, said.err)

    return command
