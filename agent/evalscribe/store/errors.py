"""Translate SQLite and file errors into evalscribe's own errors."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import disk_usage

from sqlalchemy.exc import DBAPIError

from evalscribe.errors import AccessError, DataError, EvalscribeError, UnavailableError, write_error

NO_PERMISSION = ("SQLITE_READONLY", "SQLITE_PERM", "SQLITE_CANTOPEN", "SQLITE_AUTH")
TEMPORARY_ERRORS = (
    *("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_FULL", "SQLITE_IOERR", "SQLITE_NOMEM", "SQLITE_INTERRUPT"),
    "SQLITE_CONSTRAINT",
)
"""Names of temporary SQLite errors. SQLITE_CONSTRAINT means that another process wrote the same row first."""
TRIGGER_ERROR = "SQLITE_CONSTRAINT_TRIGGER"
"""Name of the error that a trigger raises to protect a row from changes."""
FULL_DISK_BYTES = 1 << 20
"""Minimum bytes of free space on a disk. A disk with less free space counts as full."""


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Translate database and file errors in the `with` block into an `EvalscribeError` about the database at `path`."""
    try:
        yield
    except DBAPIError as error:
        raise _explain(path, error.orig) from error
    except sqlite3.Error as error:
        raise _explain(path, error) from error
    except UnicodeEncodeError as error:
        raise unstorable() from error
    except OSError as error:
        raise write_error(f"the store {path} cannot be used", error, _ADVICE) from error


_ADVICE = "Make its folder writable, or use another one."


def damaged(path: Path, problem: str) -> DataError:
    return DataError(
        f"the store {path} is damaged: {problem}.\n"
        "Move it away and start again: it contains no reports, and evidence and verdicts will be fetched again;\n"
        "rubric versions restart at 1."
    )


def write_refused(store_name: str, message: str) -> DataError:
    return DataError(f"the store {store_name} refused the change: {message}.\nNothing was changed.")


def unstorable() -> DataError:
    return DataError("the data cannot be stored: a text contains an invalid character (a lone surrogate)")


def _explain(path: Path, error: BaseException | None) -> EvalscribeError:
    name = getattr(error, "sqlite_errorname", "") or ""
    if name == TRIGGER_ERROR:
        return write_refused(str(path), str(error))
    if name.startswith(TEMPORARY_ERRORS):
        return UnavailableError(f"the store {path} did not respond: {error}.\nNothing is lost: {_next(path)}.")
    if name.startswith(NO_PERMISSION):
        return AccessError(f"the store {path} cannot be used: {error}.\n{_ADVICE}")
    return damaged(path, str(error))


def _next(path: Path) -> str:
    """Suggest what the user can do about a temporary error."""
    # SQLite reports a full disk like any other disk error, so the free space is looked up.
    try:
        full = disk_usage(path.parent).free < FULL_DISK_BYTES
    except OSError:
        full = False
    return "make room on its disk and try again" if full else "try again"


def overdue(timeout_s: float) -> EvalscribeError:
    """Return the error for a query that was stopped because it took longer than `timeout_s` seconds."""
    return UnavailableError(f"the query did not end within {timeout_s:g} s: query less data, or raise the timeout")
