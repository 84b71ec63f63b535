"""Guard standard output and standard error while a command runs. All text that is printed passes through this module.

Evidence was written by a model and can contain anything. A terminal executes control characters, and a CI runner
executes lines that look like its commands. This module handles both dangers for all commands:

- In a terminal, control, format and bidirectional characters are replaced by escapes (`\\u001b`). In a file or a pipe,
  they are not changed.
- In a CI job, a space is inserted into the runner's commands. If standard output is a regular file, the output is not
  changed, because no runner reads the file.
"""

import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from evalscribe.text import is_visible

CI_VARIABLES = ("CI", "GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION")
"""Environment variables that CI systems set.

GitHub, GitLab and most others set `CI`; the other variables are set by GitHub, Azure Pipelines and TeamCity.
"""
UNSET = ("", "0", "false", "no")
COMMAND = re.compile(r"(?:^|(?<=[\r\n]))[^\S\r\n]*::|##\w*\[")
"""Matches commands for a CI runner.

GitHub executes lines that begin with `::`, possibly after spaces, and also treats a carriage return as a line end.
GitHub's older form, Azure (`##vso[`) and TeamCity use `##…[` anywhere in a line.
"""
# A line of JSON cannot begin with `::`, so only the other form has to be escaped.
JSON_COMMAND = re.compile(r"##(?=\w*\[)")
_UNFINISHED = re.compile(r"(?:\A|[\r\n])[^\S\r\n]{0,4096}:?\Z|#{1,2}\w{0,64}\Z")
"""Matches the end of an output if it could become a command together with the next output."""
_LONGEST_UNFINISHED = 4200
"""Maximum number of characters that `_UNFINISHED` can match."""
_SUSPECT = re.compile(r"[^\t\n -~]")


def in_ci() -> bool:
    return any(os.environ.get(name, "").lower() not in UNSET for name in CI_VARIABLES)


def in_log() -> bool:
    """Return whether a CI runner might read standard output.

    A runner cannot read standard output that is a regular file.
    """
    return not _is_file(sys.stdout)


def can_ask() -> bool:
    """Return whether a person can be asked a question on standard error. Standard output need not be a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty() and not in_ci()


def neutral(text: str) -> str:
    """Insert a space into every command for a CI runner, so that the runner does not recognise the command."""
    return COMMAND.sub(_broken, text)


def neutral_json(text: str) -> str:
    """Escape commands for a CI runner in a JSON document. The value of the document stays the same."""
    return JSON_COMMAND.sub(r"#\\u0023", text)


def escaped(text: str) -> str:
    """Replace each character that a terminal would execute or hide by its JSON escape.

    If the text is a JSON document, its value stays the same.
    """
    return _SUSPECT.sub(_escape, text)


@contextmanager
def guarded() -> Iterator[None]:
    """Guard standard output and standard error inside a `with` block."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _guard(sys.stdout), _guard(sys.stderr, always_neutral=True)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def command(line: str, file: TextIO | None = None) -> None:
    """Print a command that the CI runner should execute."""
    stream = file or sys.stdout
    write = stream.write_command if isinstance(stream, _Guard) else stream.write
    write(f"{line}\n")


def unescaped(stream: TextIO) -> TextIO:
    """Return a stream that does not escape text. Only use it for text in which all escape codes are our own."""
    return cast(TextIO, stream.unescaped()) if isinstance(stream, _Guard) else stream


class _Guard:
    """A text stream that escapes the text written to it. All other calls are forwarded to the stream that it guards."""

    def __init__(self, stream: TextIO, *, escapes: bool, neutralises: bool) -> None:
        self._stream = stream
        self._escapes = escapes
        self._neutralises = neutralises
        self._unfinished = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        safe_text = escaped(text) if self._escapes else text
        self._stream.write(self._neutral(safe_text) if self._neutralises else safe_text)
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
        """Make commands harmless, even if a command is written in several parts.

        The unfinished end of the previous text is checked together with the new text. The text that was
        already written never has to change: the space that breaks a command goes directly before the command's last
        character, and that character is always in the new text.
        """
        joined = neutral(self._unfinished + text)
        piece = joined[len(self._unfinished) :]
        if not text:
            return piece
        open_end = _UNFINISHED.search(joined, max(0, len(joined) - _LONGEST_UNFINISHED))
        # The dot stands for the text that is already on the line: a following `::` is not at the beginning of the line.
        self._unfinished = open_end[0] if open_end else "."
        return piece


def _guard(stream: TextIO, *, always_neutral: bool = False) -> TextIO:
    """Return a guarded stream.

    If nothing has to be escaped, return the stream itself, because the guard slows down large exports.
    """
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


def _broken(command: re.Match[str]) -> str:
    return f"{command[0][:-1]} {command[0][-1]}"


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    if is_visible(character):
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
