"""Search a whole SQLite store for values that evalscribe cannot have written.

SQLite lets any program put any value into any column. Ordinary reads do not check every cell; when a command fails
unexpectedly, this module tells a damaged store from a bug.
"""

import json
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pydantic import ValidationError
from sqlalchemy import JSON, Boolean, Column, Float, Integer, LargeBinary, Table

from evalscribe.model.run import Eval, Step
from evalscribe.store.tables import base, experiments, runs, said

_FOR_NOW = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_IOERR", "SQLITE_CANTOPEN", "SQLITE_NOMEM")


def problem(path: Path) -> str | None:
    """Describe the first problem with its table and row; None if there is none or the store is gone."""
    if not path.is_file():
        return None
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as connection:
            connection.row_factory = sqlite3.Row
            return next(
                (wrong for table in base.metadata.sorted_tables for wrong in _problems(connection, table)), None
            )
    except sqlite3.Error as error:
        return None if (getattr(error, "sqlite_errorname", None) or "").startswith(_FOR_NOW) else str(error)


def _problems(connection: sqlite3.Connection, table: Table) -> Iterator[str]:
    names = [row["name"] for row in connection.execute(f'PRAGMA table_info("{table.name}")')]
    if missing := [column.name for column in table.c if column.name not in names]:
        yield f"the table {table.name} has no {', '.join(missing)}"
        return
    for number, row in enumerate(connection.execute(f'SELECT * FROM "{table.name}"'), 1):  # noqa: S608 (ours)
        for column in table.c:
            if wrong := _wrong(column, row[column.name]):
                yield f"{table.name}.{column.name} of row {number} {wrong}"
        if wrong := _misshapen(table, row):
            yield f"row {number} of {table.name} {wrong}"


def _wrong(column: Column[Any], value: Any) -> str:
    if value is None:
        return "" if column.nullable else "is empty"
    kind = column.type
    if isinstance(kind, LargeBinary):
        return "" if _unpacks(value) else "cannot be unpacked"
    if isinstance(kind, JSON):
        return "" if _is_json(value) else "is not JSON"
    if isinstance(kind, Boolean):
        return "" if value in (0, 1) else "is not a boolean"
    if isinstance(kind, Integer):
        return "" if isinstance(value, int) else "is not an integer"
    if isinstance(kind, Float):
        return "" if isinstance(value, int | float) else "is not a number"
    return "" if isinstance(value, str) else "is not text"


def _unpacks(value: Any) -> bool:
    try:
        zlib.decompress(value)
    except (zlib.error, TypeError):
        return False
    return True


def _is_json(value: Any) -> bool:
    try:
        json.loads(value)
    except (ValueError, TypeError, RecursionError):
        return False
    return isinstance(value, str)


def _misshapen(table: Table, row: sqlite3.Row) -> str:
    """Describe a problem in rows that are not validated when read, because there are very many."""
    try:
        if table is runs.evals:
            Eval(id=row["eval_id"], **{name: row[name] for name in Eval.model_fields if name != "id"})
        elif table is runs.steps:
            Step(**{name: row[name] for name in Step.model_fields})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        return f"cannot be read ({'.'.join(map(str, first['loc']))}: {first['msg']})"
    for name, kind in _SHAPES.get(table.name, {}).items():
        if not isinstance(json.loads(row[name]), kind):
            return f"cannot be read ({name} has another shape)"
    return ""


_SHAPES: dict[str, dict[str, type]] = {
    runs.evals.name: {"metadata_json": dict, "missing": list},
    runs.transcripts.name: {"metadata_json": dict, "messages": list},
    experiments.scores.name: {"metadata_json": dict},
    said.findings.name: {"finding_json": dict},
    said.labels.name: {"label_json": dict},
}
"""Types of the values in JSON columns that are not validated when read."""
