"""Run a command as a process at a terminal, and type into it."""

import os
import pty
import select
import signal
import time
from collections.abc import Mapping
from pathlib import Path

from support.fork_server import fork_server
from support.waiting import PATIENCE_S, wait_until


class TerminalCommand:
    """A command at a terminal. `shown` contains all of its output so far."""

    def __init__(self, folder: Path, *arguments: str | Path, **environment: str) -> None:
        self.shown = ""
        self._expected = 0
        self._master, slave = pty.openpty()
        self._process = fork_server.start(
            ["-m", "evalscribe", *arguments],
            folder,
            _environment(environment),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            new_session=True,
        )
        os.close(slave)

    def wait_for(self, words: str) -> None:
        """Read output until the command has printed this text."""
        deadline = time.monotonic() + PATIENCE_S
        while words not in self.shown:
            assert time.monotonic() < deadline, f"never printed {words!r}: {self.shown[-2000:]}"
            assert self._read(), f"ended without printing {words!r}: {self.shown[-2000:]}"

    def expect(self, words: str) -> None:
        """Read output until the command has printed this text after the previously expected text."""
        before, self.shown = self.shown[: self._expected], self.shown[self._expected :]
        self.wait_for(words)
        self._expected = len(before) + self.shown.index(words) + len(words)
        self.shown = before + self.shown

    def reads(self) -> None:
        """Return once the command waits for input. All of its output so far has then been printed.

        Without `/proc`, this only waits for half a second.
        """
        status = Path(f"/proc/{self._process.pid}/status")
        if not status.exists():
            time.sleep(0.5)
            return

        def still() -> bool:
            before = status.read_text()
            time.sleep(0.2)
            return "State:\tS" in before and _switches(before) == _switches(status.read_text())

        wait_until(still, "it waits for a line")

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def kill(self, number: signal.Signals = signal.SIGKILL) -> int:
        self._process.send_signal(number)
        return self.ended()

    def ended(self) -> int:
        """Read all output until the command ends, and return its exit code."""
        deadline = time.monotonic() + PATIENCE_S
        while self._read():
            assert time.monotonic() < deadline, self.shown[-2000:]
        code = self._process.wait(timeout=PATIENCE_S)
        os.close(self._master)
        return code

    def _read(self) -> bool:
        """Read available output, and return whether more can follow."""
        ready, _, _ = select.select([self._master], [], [], 0.2)
        if not ready:
            return True
        try:
            piece = os.read(self._master, 65_536)
        except OSError:  # the command has closed its end of the terminal
            return False
        self.shown += piece.decode("utf-8", "replace")
        return bool(piece)


def _switches(status: str) -> list[str]:
    return [line for line in status.splitlines() if "ctxt_switches" in line]


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    return {**os.environ, "TERM": "xterm", "COLUMNS": "120", **more}
