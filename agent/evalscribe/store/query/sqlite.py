"""Run checked queries of users over the store. On SQLite, each query runs in its own process."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from evalscribe.errors import EvalscribeError, NotFoundError, UnavailableError, UsageError
from evalscribe.model.protocols import QueryRows, Tables
from evalscribe.settings.database import without_password
from evalscribe.store.errors import overdue
from evalscribe.store.sqlite import FILE

GRACE_S = 5.0
"""Additional seconds, after the query's own timeout, to wait for the query's process to end."""
_QUIET = ("LD_PRELOAD", "PYTHONSTARTUP", "PYTHONINSPECT", "PYTHONWARNINGS")


class SqliteTables:
    """Tables of a SQLite store. This class implements `Tables`.

    A query sees the database in its state at the start of the query, even if other processes write meanwhile.
    """

    dialect: Literal["sqlite", "postgres"] = "sqlite"

    def __init__(self, path: Path, grace_s: float = GRACE_S) -> None:
        """Open the tables. Raises `NotFoundError` if there is no database."""
        if not path.is_file():
            raise NotFoundError(f"store {path} does not exist: nothing has been imported or analysed here yet")
        self._path = path
        self._grace_s = grace_s

    def select(
        self, statement: str, values: Mapping[str, str | float], *, most_rows: int, timeout_s: float
    ) -> QueryRows:
        request = {
            "path": str(self._path),
            "statement": statement,
            "values": dict(values),
            "most_rows": most_rows,
            "timeout_s": timeout_s,
        }
        answer = _process_answer(request, timeout_s + self._grace_s)
        if "error" in answer:
            raise _error(answer, timeout_s)
        rows = tuple(map(tuple, answer["rows"]))
        return QueryRows(columns=(), rows=rows, truncated=answer["truncated"])

    def close(self) -> None:
        """Do nothing, because nothing stays open between queries."""


def _process_answer(request: dict[str, Any], patience_s: float) -> dict[str, Any]:
    environment = {name: value for name, value in os.environ.items() if name not in _QUIET}
    # With `-P`, Python does not import modules from the current folder, which can be a stranger's.
    command = [sys.executable, "-P", "-m", "evalscribe.store.query.process"]
    try:
        completed = subprocess.run(
            command,
            input=json.dumps(request).encode(),
            capture_output=True,
            timeout=patience_s,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        # SQLite does not check the clock while one of our functions runs. A regular expression that never ends is ended
        # here, with its process.
        return {"error": "overdue"}
    if completed.returncode:
        last_line = completed.stderr.decode(errors="replace").strip().splitlines()[-1:]
        return {"error": "unavailable", "message": f"the query's process ended: {' '.join(last_line)}"}
    answer: dict[str, Any] = json.loads(completed.stdout)
    return answer


def _error(answer: Mapping[str, Any], timeout_s: float) -> EvalscribeError:
    if answer["error"] == "overdue":
        return overdue(timeout_s)
    if answer["error"] == "unavailable":
        return UnavailableError(f"{answer['message']}: query less data, or fewer rows at once")
    return UsageError(f"the query failed: {answer['message']}")


def open_tables(place: Path | str) -> Tables:
    """Open the tables of a store in a folder or at a postgresql:// URL.

    Raises `NotFoundError` if the store does not exist.
    """
    if isinstance(place, Path):
        return SqliteTables(place / FILE)
    from evalscribe.store.query.postgres import PostgresTables

    return PostgresTables(place, without_password(place))
