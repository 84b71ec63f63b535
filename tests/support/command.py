"""Run the evalscribe command line in the way that people and programs start it."""

import os
import re
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from evalscribe.cli import run
from support.fork_server import Process, fork_server
from support.waiting import PATIENCE_S

CLOSING = (
    "These are my findings. Would you like me to implement any of these recommendations, "
    "or would you like to discuss specific failures in more detail?"
)
"""Last sentence of the presentation of an analysis in a terminal."""
NEXT = "Next: "
"""Beginning of the last line of the presentation if the output is not a terminal."""


@dataclass(frozen=True)
class CompletedCommand:
    code: int
    out: str
    err: str


@dataclass(frozen=True)
class InProcessCommand:
    """Runs commands in a workspace within this process. This is fast, but does not test processes or environments."""

    folder: Path
    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]

    def run(self, *arguments: str | Path, code: int = 0, **environment: str) -> CompletedCommand:
        with self.monkeypatch.context() as patched:
            patched.chdir(self.folder)
            for name, value in environment.items():
                patched.setenv(name, value)
            ended = run([str(argument) for argument in arguments])
        said = self.capsys.readouterr()
        assert ended == code, f"exit {ended}, not {code}\n{said.out[-2000:]}\n{said.err[-4000:]}"
        return CompletedCommand(ended, said.out, said.err)


@dataclass(frozen=True)
class Workspace:
    """A user's folder, with reports and a store in it."""

    folder: Path
    inside: InProcessCommand | None = None
    """Runs the commands that `run` is given. If None, each command runs in a new process."""

    def run(self, *arguments: str | Path, code: int = 0, **environment: str) -> CompletedCommand:
        """Run one command until it ends. Its exit code must be `code`."""
        if self.inside:
            return self.inside.run(*arguments, code=code, **environment)
        process = self.start(*arguments, **environment)
        out, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == code, f"exit {process.returncode}, not {code}\n{out[-2000:]}\n{err[-4000:]}"
        return CompletedCommand(process.returncode, out, err)

    def start(self, *arguments: str | Path, **environment: str) -> Process:
        environment = {**os.environ, "PYTHONWARNINGS": "error::ResourceWarning", **environment}
        return fork_server.start(["-m", "evalscribe", *arguments], self.folder, environment)

    @property
    def apart(self) -> "Workspace":
        """Return the same workspace with a new process for each command. Tests of processes or environments need it."""
        return Workspace(self.folder)

    @property
    def reports(self) -> list[Path]:
        return sorted((self.folder / "reports").glob("*/**/*.md"))

    @property
    def report(self) -> Path:
        """The only report in the workspace."""
        (path,) = self.reports
        return path

    def holding(self, word: str) -> list[Path]:
        """Return the files of the workspace that contain `word` as bytes."""
        files = (path for path in self.folder.rglob("*") if path.is_file())
        return [path for path in files if word.encode() in path.read_bytes()]


def known(ended: CompletedCommand) -> int:
    """Return how many verdicts of an analysis were cached, according to the last line of its progress."""
    return int(re.findall(r"^\d+ of \d+ judged \((\d+) cached\), ", ended.err, re.MULTILINE)[-1])


def end(process: Process, number: signal.Signals) -> tuple[CompletedCommand, float]:
    """Send a signal to a process. Return how the process ended, and the seconds that it took to end."""
    began = time.monotonic()
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE_S)
    return CompletedCommand(process.returncode, out, err), time.monotonic() - began
