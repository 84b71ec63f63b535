"""What a Postgres server says when it cannot, in our words."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from sqlalchemy.exc import DBAPIError

from evalscribe.errors import AccessError, DataError, EvalscribeError, NotFoundError, UnavailableError
from evalscribe.store.failures import kept, unstorable

FORBIDDEN = ("28", "42501", "25006")
"""How SQLSTATE begins: who we are, what we may do, where nothing may be written."""
FOR_NOW = ("08", "23", "40", "53", "55", "57", "58")
"""Connections, rows that two wrote at once, other transactions, room, locks, stops, and the server's own machine."""
NEVER = "P0001"
"""A trigger of ours keeps what never changes."""
TOO_MUCH = ("22", "54")
"""Values that cannot be."""
REFUSED = ("password", "authentication", "pg_hba.conf", "role ", "permission denied")
"""Words of a refused connection, which comes without a SQLSTATE."""


@contextmanager
def explained(shown: str) -> Iterator[None]:
    """Errors of the database inside become an `EvalscribeError` about the one that is called `shown`."""
    try:
        yield
    except DBAPIError as error:
        raise _explain(shown, error.orig) from error
    except psycopg.Error as error:
        raise _explain(shown, error) from error
    except UnicodeEncodeError as error:
        raise unstorable() from error


def _explain(shown: str, error: BaseException | None) -> EvalscribeError:
    state = getattr(error, "sqlstate", None) or ""
    words = _words(error)
    if not state and isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return _without_state(shown, error, words)
    if state == NEVER:
        return kept(shown, words)
    if state.startswith(FORBIDDEN):
        return _refused(shown, words)
    if state.startswith(FOR_NOW):
        return _gone(shown, words)
    if state.startswith(TOO_MUCH):
        return DataError(f"this cannot be stored: {words}")
    return DataError(
        f"the store {shown} is damaged: {words}.\nRestore it, or start again with a new database: createdb NAME."
    )


def _without_state(shown: str, error: BaseException | None, words: str) -> EvalscribeError:
    """Before a connection stands, libpq has words only; some are the server's, in its language."""
    connection = getattr(error, "pgconn", None)
    if "database" in words and "does not exist" in words:
        return NotFoundError(f"there is no such database: {shown}.\nMake it on that server: createdb NAME.")
    if any(word in words for word in REFUSED) or (connection and connection.needs_password):
        return _refused(shown, words)
    return _gone(shown, words)


def _refused(shown: str, words: str) -> AccessError:
    return AccessError(
        f"the store {shown} refuses: {words}.\n"
        "A password is set in EVALSCRIBE_STORE_URL; PGPASSWORD and ~/.pgpass are for an address of the environment's."
    )


def _gone(shown: str, words: str) -> UnavailableError:
    return UnavailableError(f"the store {shown} does not answer: {words}.\nNothing is lost: try again.")


def _words(error: BaseException | None) -> str:
    """The first line, without the value that it may go on to print."""
    primary = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    line = next(iter((primary or str(error)).splitlines()), "").removeprefix("connection failed: ")
    return line.rsplit("FATAL:", 1)[-1].strip().rstrip(".")
