"""Run one query on SQLite in this process, which ends with it. Standard library only."""

import json
import math
import re
import resource
import sqlite3
import sys
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from evalscribe.store.sqlite_functions import NAMES, add, overheard

LONGEST_CELL = 1_000_000
"""Maximum characters of a value; the rest is cut."""
MOST_CHARACTERS = 64_000_000
"""Maximum characters of all values together."""
MEMORY = 512 * 1024 * 1024
"""Bytes that SQLite may use; the process may address three times as much."""
STEPS = 5_000
"""SQLite instructions between two checks of the clock."""
LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: 200_000_000,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 2_000_000,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 1000,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 100,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 2_000_000,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 1000,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


TABLES = _words(
    "agent_runs runs evals steps transcripts documents findings reports labels judge_results result_sets "
    "results experiments experiment_runs run_items scores collection_runs json_each "
)
OWN_QUERY = re.compile(r"w\d+|all_[a-z_]+")
"""Names in the statement's own WITH, which SQLite reports where only rows are counted; no table has such a name."""
HIDDEN = frozenset({"body"})
"""Columns that queries must not read."""
FUNCTIONS = NAMES | _words(
    "-> ->> abs avg coalesce count cume_dist date datetime dense_rank first_value instr json json_array "
    "json_array_length json_extract json_object json_quote json_type julianday lag last_value lead length like lower "
    "ltrim max min nth_value ntile nullif percent_rank rank replace round row_number rtrim substr substring sum total "
    "trim unixepoch upper"
)


def cut(text: str) -> str:
    """Return the start of a value that is too long, with a note."""
    return f"{text[:LONGEST_CELL]}… (cut: {len(text):,} characters in all)"


def main() -> None:
    asked = json.load(sys.stdin)
    _bound_memory()
    try:
        told = selected(asked)
    except MemoryError:
        told = {"error": "unavailable", "message": "the query needs too much memory"}
    json.dump(told, sys.stdout)


def _bound_memory() -> None:
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (3 * MEMORY, 3 * MEMORY))


def selected(asked: dict[str, Any]) -> dict[str, Any]:
    """Run a query and return `rows` and `truncated`, or `error` and `message`."""
    with closing(_opened(Path(asked["path"]))) as connection:
        return _selected(connection, asked)


def _selected(connection: sqlite3.Connection, asked: dict[str, Any]) -> dict[str, Any]:
    add(connection)
    deadline = time.monotonic() + asked["timeout_s"]
    connection.set_progress_handler(lambda: time.monotonic() > deadline, STEPS)
    connection.set_authorizer(_allowed)
    with overheard() as said:
        try:
            cursor = connection.execute(asked["statement"], asked["values"])
            return _rows(cursor, asked["most_rows"])
        except sqlite3.Error as error:
            return _explained(error, said, overdue=time.monotonic() > deadline)


def _opened(path: Path) -> sqlite3.Connection:
    """Open the database read-only. Beside writers it reads the state at the start."""
    connection = sqlite3.connect(
        f"file:{quote(str(path))}?mode=ro", uri=True, isolation_level=None, cached_statements=0
    )
    for pragma in (
        "query_only=ON",
        "trusted_schema=OFF",
        "temp_store=MEMORY",
        "case_sensitive_like=ON",
        "busy_timeout=10000",
        "cache_size=-65536",
        f"mmap_size={MEMORY // 2}",
        f"hard_heap_limit={MEMORY}",
    ):
        connection.execute(f"PRAGMA {pragma}").close()
    for limit, value in LIMITS.items():
        connection.setlimit(limit, value)
    # SQLite declares a table-valued function at its first use, which the authorizer would refuse.
    connection.execute("SELECT key FROM json_each('[]')").close()
    return connection


def _allowed(action: int, first: str | None, second: str | None, _database: str | None, _trigger: str | None) -> int:
    if action == sqlite3.SQLITE_SELECT:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_READ and first in TABLES and second not in HIDDEN:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_READ and not second and OWN_QUERY.fullmatch(str(first)):
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_FUNCTION and str(second).lower() in FUNCTIONS:
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def _rows(cursor: sqlite3.Cursor, most: int) -> dict[str, Any]:
    rows: list[list[Any]] = []
    size = 0
    for row in cursor:
        cells = [_cell(value) for value in row]
        size += sum(len(cell) for cell in cells if isinstance(cell, str))
        if len(rows) == most or size > MOST_CHARACTERS:
            return {"rows": rows, "truncated": True}
        rows.append(cells)
    return {"rows": rows, "truncated": False}


def _cell(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        raise sqlite3.DataError("value out of range: overflow")
    if isinstance(value, bytes):
        raise sqlite3.DataError("a column does not contain text")
    if isinstance(value, str) and len(value) > LONGEST_CELL:
        return cut(value)
    return value


def _explained(error: sqlite3.Error, said: list[BaseException], *, overdue: bool) -> dict[str, Any]:
    if overdue and "interrupted" in str(error):
        return {"error": "overdue", "message": ""}
    if isinstance(said[0] if said else error, MemoryError) or "out of memory" in str(error):
        return {"error": "unavailable", "message": "the query needs too much memory"}
    if isinstance(error, sqlite3.OperationalError) and getattr(error, "sqlite_errorname", "").startswith(
        ("SQLITE_BUSY", "SQLITE_CANTOPEN", "SQLITE_IOERR", "SQLITE_LOCKED")
    ):
        return {"error": "unavailable", "message": str(error)}
    return {"error": "refused", "message": str(said[0] if said else error)}


if __name__ == "__main__":
    main()
