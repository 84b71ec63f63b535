"""Room in a SQLite file that nothing takes any more, given back to the disk."""

import sqlite3
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

PAGES = 2_000
"""How many pages are given back at once, so that others wait for moments only."""
INCREMENTAL = 2
"""What SQLite calls a file that can be made smaller page by page."""


def give_back(engine: Engine, path: Path) -> int:
    """Bytes; 0 where another process is at work, which uses the room itself later."""
    before = _size(path)
    raw = engine.raw_connection()
    try:
        cursor = raw.cursor()
        _shrink(cursor)
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    except sqlite3.OperationalError as error:
        if not str(getattr(error, "sqlite_errorname", "")).startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            raise
    finally:
        raw.close()
    return max(0, before - _size(path))


def _shrink(cursor: Any) -> None:
    if _number(cursor, "auto_vacuum") != INCREMENTAL:
        # Made by an earlier evalscribe. Writing all of it anew lets it be made smaller page by page from then on.
        cursor.execute("PRAGMA auto_vacuum=INCREMENTAL")
        cursor.execute("VACUUM")
    while free := _number(cursor, "freelist_count"):
        cursor.execute(f"PRAGMA incremental_vacuum({PAGES})").fetchall()
        if _number(cursor, "freelist_count") >= free:
            return


def _number(cursor: Any, pragma: str) -> int:
    return int(cursor.execute(f"PRAGMA {pragma}").fetchone()[0])


def _size(path: Path) -> int:
    """With the log of what is not in the file yet."""
    files = (path, path.with_name(f"{path.name}-wal"))
    return sum(file.stat().st_size for file in files if file.exists())
