"""Standard output and standard error while a command runs: the one place that all printed text passes.

Evidence was written by a model and may hold anything. A terminal obeys control characters, and the runner of a CI job
obeys lines that look like its commands. Both are dealt with here, so that no command has to remember it:

- A terminal gets escapes (`\\u001b`) in place of control, format and bidirectional characters. A file or a pipe gets
  the exact characters.
- In a CI job, a blank breaks whatever the runner would obey. Standard output that is redirected to a regular file stays
  exact, because no runner reads it.
"""

import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from evalscribe.prose import is_visible

CI_VARIABLES = ("CI", "GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION")
"""Set by GitHub, GitLab and most others; by GitHub; by Azure Pipelines; by TeamCity."""
UNSET = ("", "0", "false", "no")
ORDER = re.compile(r"(?:^|(?<=[\r\n]))[^\S\r\n]*::|##\w*\[")
"""What a runner obeys. GitHub: lines that begin with `::`, blanks before it allowed, where a line also ends at a
carriage return. GitHub's older form, Azure (`##vso[`) and TeamCity: `##…[` anywhere in a line."""
JSON_ORDER = re.compile(r"##(?=\w*\[)")
_UNFINISHED = re.compile(r"(?:\A|[\r\n])[^\S\r\n]{0,4096}:?\Z|#{1,2}\w{0,64}\Z")
"""The end of a text that the next piece may turn into an order."""
_SUSPECT = re.compile(r"[^\t\n -~]")


def in_ci() -> bool:
    return any(os.environ.get(name, "").lower() not in UNSET for name in CI_VARIABLES)


def in_log() -> bool:
    """Whether somebody reads standard output as it comes: it is no regular file."""
    return not _is_file(sys.stdout)


def neutral(text: str) -> str:
    """The text with a blank in everything that a CI job's runner would obey."""
    return ORDER.sub(_broken, text)


def neutral_json(text: str) -> str:
    """The same JSON document, without anything that a CI job's runner would obey."""
    return JSON_ORDER.sub(r"#\\u0023", text)


def escaped(text: str) -> str:
    """The text as a terminal may show it. Escapes are those of JSON, so that a JSON document stays the same."""
    return _SUSPECT.sub(_escape, text)


@contextmanager
def guarded() -> Iterator[None]:
    """Guard standard output and standard error as long as the context is open."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _guard(sys.stdout), _guard(sys.stderr, always_neutral=True)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def command(line: str, file: TextIO | None = None) -> None:
    """Print a line that the runner of a CI job is meant to obey."""
    stream = file or sys.stdout
    write = stream.write_command if isinstance(stream, _Guard) else stream.write
    write(f"{line}\n")


def own(stream: TextIO) -> TextIO:
    """The stream for text that holds escape codes of our own, and nobody else's."""
    return cast(TextIO, stream.unescaped()) if isinstance(stream, _Guard) else stream


class _Guard:
    """A text stream that changes what is written to it; in everything else it is the stream that it guards."""

    def __init__(self, stream: TextIO, *, escapes: bool, neutralises: bool) -> None:
        self._stream = stream
        self._escapes = escapes
        self._neutralises = neutralises
        self._unfinished = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        shown = escaped(text) if self._escapes else text
        self._stream.write(self._neutral(shown) if self._neutralises else shown)
        return len(text)

    def writelines(self, lines: Iterator[str]) -> None:
        for line in lines:
            self.write(line)

    def write_command(self, line: str) -> None:
        self._stream.write(escaped(line) if self._escapes else line)
        self._unfinished = ""

    def unescaped(self) -> "_Guard":
        return _Guard(self._stream, escapes=False, neutralises=self._neutralises)

    def _neutral(self, text: str) -> str:
        """An order may come in pieces: what the last piece may have begun is looked at again with this one. A blank
        is only ever put before an order's last character, which is in this piece."""
        whole = neutral(self._unfinished + text)
        shown = whole[len(self._unfinished) :]
        if not text:
            return shown
        open_end = _UNFINISHED.search(whole, max(0, len(whole) - 4200))
        self._unfinished = open_end[0] if open_end else "."
        return shown


def _guard(stream: TextIO, *, always_neutral: bool = False) -> TextIO:
    """The stream itself where nothing has to be guarded, so that large exports cost nothing."""
    neutralises = in_ci() and (always_neutral or not _is_file(stream))
    escapes = stream.isatty()
    if isinstance(stream, _Guard) or not (escapes or neutralises):
        return stream
    return cast(TextIO, _Guard(stream, escapes=escapes, neutralises=neutralises))


def _is_file(stream: TextIO) -> bool:
    try:
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):
        return False


def _broken(order: re.Match[str]) -> str:
    return f"{order[0][:-1]} {order[0][-1]}"


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    if is_visible(character):
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
