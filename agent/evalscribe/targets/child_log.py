"""What a user's code prints, kept per call. Standard library only: it runs beside the user's code."""

import io
import sys
from contextvars import ContextVar
from typing import TextIO

LONGEST = 20_000
"""Characters kept of what one call printed: its end."""


class Tail:
    """The end of a text that grows."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._size = 0

    def add(self, text: str) -> None:
        self._parts.append(text)
        self._size += len(text)
        if self._size > 2 * LONGEST:
            kept = self.text
            self._parts, self._size = [kept], len(kept)

    @property
    def text(self) -> str:
        return "".join(self._parts)[-LONGEST:]


LOG: ContextVar[Tail | None] = ContextVar("evalscribe_log", default=None)
"""Of the call that is being worked on; a thread that a function starts by itself has none."""


class Routed(io.TextIOBase):
    """Stands for standard output and error: what belongs to a call goes to its log, all else where it went before."""

    encoding = "utf-8"
    errors = "replace"

    def __init__(self, before: TextIO) -> None:
        self._before = before
        self.buffer = before.buffer

    def write(self, text: str) -> int:
        tail = LOG.get()
        if tail is None:
            return self._before.write(text)
        tail.add(text)
        return len(text)

    def flush(self) -> None:
        self._before.flush()

    def fileno(self) -> int:
        return self._before.fileno()

    def writable(self) -> bool:
        return True


def route() -> None:
    """From now on."""
    sys.stdout, sys.stderr = Routed(sys.stdout), Routed(sys.stderr)
