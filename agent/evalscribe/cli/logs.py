"""Control the output other than a command's result: `--quiet`, `--verbose`, and the log file that `EVALSCRIBE_LOG`
names.

Logs never contain secrets.
"""

import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from shlex import join
from time import monotonic

from evalscribe import __version__
from evalscribe.errors import DataError

log = logging.getLogger(__name__)
VARIABLE = "EVALSCRIBE_LOG"
FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


_quiet = False


def redacted(text: str) -> str:
    from evalscribe.redaction.redact import redact  # loaded here, because only errors and logs need it

    return redact(text)


def set_quiet() -> None:
    """Suppress progress and notes until the command ends."""
    global _quiet
    _quiet = True


def is_quiet() -> bool:
    return _quiet


class Redacted(logging.Formatter):
    """Log formatter that hides secrets and control characters in every message and traceback."""

    def format(self, record: logging.LogRecord) -> str:
        text = redacted(super().format(record))
        return "".join(
            character if character in "\n\t" or character.isprintable() else f"\\u{ord(character):04x}"
            for character in text
        )


def log_to_stderr() -> None:
    """Print log messages on standard error until the command ends."""
    if not any(isinstance(existing, _ToStderr) for existing in logging.getLogger().handlers):
        handler = _ToStderr(sys.stderr)
        handler.setLevel(logging.INFO)  # the log file also gets tracebacks and the commands of git
        _add(handler)  # it writes to the guarded standard error


@contextmanager
def logged(arguments: Sequence[str]) -> Iterator[None]:
    """Log the start of a command, its messages and its end.

    If `EVALSCRIBE_LOG` is set, the log is also written to the file that the variable names. Raises `DataError` if the
    file cannot be written.
    """
    global _quiet
    # A process can run several commands, one after the other.
    _quiet = False
    root = logging.getLogger()
    before, level, start = list(root.handlers), root.level, monotonic()
    try:
        if name := os.environ.get(VARIABLE):
            _add(_file(name))
        log.info("evalscribe %s: %s", __version__, join(arguments))
        yield
        log.info("done after %.1f s", monotonic() - start)
    except BaseException as error:
        log.info("%s after %.1f s: %s", type(error).__name__, monotonic() - start, error)
        log.debug("traceback", exc_info=True)
        raise
    finally:
        for handler in [handler for handler in root.handlers if handler not in before]:
            root.removeHandler(handler)
            handler.close()
        root.setLevel(level)


def _file(name: str) -> logging.Handler:
    try:
        # Only the owner can read the file, because a log reveals more about the user's work than a report does.
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
        return logging.FileHandler(name, encoding="utf-8", errors="backslashreplace")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{VARIABLE}: cannot write the log file {name}: {reason}") from None


class _ToStderr(logging.StreamHandler):  # type: ignore[type-arg]
    """Log handler that writes to standard error."""


def _add(handler: logging.Handler) -> None:
    handler.setFormatter(Redacted(FORMAT))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    # At the level INFO, libraries log every HTTP request. At the level DEBUG, some libraries log whole prompts.
    logging.getLogger("evalscribe").setLevel(logging.DEBUG)
    # When a store is created, alembic logs each revision of its schema. Users do not need these messages.
    logging.getLogger("alembic").setLevel(logging.WARNING)
