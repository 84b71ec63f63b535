"""Run one query of a user on SQLite in this process. Adds functions of Postgres that SQLite lacks.

Imports only the standard library, because every query starts a new process. Numbers and texts follow Python's rules.
"""

import json
import math
import re
import resource
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import datetime, timedelta
from functools import lru_cache, wraps
from pathlib import Path
from statistics import StatisticsError, pstdev, pvariance, stdev, variance
from typing import Any
from urllib.parse import quote

Function = Callable[..., Any]


def _strict(function: Function) -> Function:
    """Make a function return NULL if any argument is NULL, as almost all SQL functions do."""

    @wraps(function)
    def call(*values: Any) -> Any:
        return None if None in values else function(*values)

    return call


@lru_cache(maxsize=32)
def _parse_json(text: str) -> Any:
    """Parse JSON. The result is cached, so callers must not modify it."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f'invalid input syntax for type json: "{text[:60]}"') from None


def _render_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _part(value: Any, step: Any) -> Any:
    if isinstance(value, dict) and isinstance(step, str) and step in value:
        return _render_json(value[step])
    if isinstance(value, list) and isinstance(step, int) and -len(value) <= step < len(value):
        return _render_json(value[step])
    return None


def _path(text: str, *steps: str) -> str | None:
    for step in steps:
        index = step.removeprefix("-").isdecimal() and isinstance(_parse_json(text), list)
        part = _part(_parse_json(text), int(step) if index else step)
        if part is None:
            return None
        text = part
    return text


def _scalar(text: str) -> str | None:
    value = _parse_json(text)
    return value if value is None or isinstance(value, str) else _render_json(value)


def _has(text: str, *keys: str, match_all: bool = True) -> bool:
    value = _parse_json(text)
    members = value if isinstance(value, dict | list) else [value]
    return (all if match_all else any)(key in members for key in keys)


def _contains(outer: Any, inner: Any) -> bool:
    if isinstance(inner, dict):
        return isinstance(outer, dict) and all(
            key in outer and _contains(outer[key], value) for key, value in inner.items()
        )
    if isinstance(inner, list):
        return isinstance(outer, list) and all(
            any(_contains(outer_item, inner_item) for outer_item in outer) for inner_item in inner
        )
    # In Python, True equals 1 and False equals 0. In JSON they are different values.
    same_kind = isinstance(outer, bool) is isinstance(inner, bool)
    return same_kind and not isinstance(outer, dict | list) and bool(outer == inner)


def _contains_text(outer: str, inner: str) -> bool:
    outer_value, inner_value = _parse_json(outer), _parse_json(inner)
    # As an exception in Postgres, an array contains a value that is one of its elements.
    return _contains(
        outer_value,
        [inner_value] if isinstance(outer_value, list) and not isinstance(inner_value, list | dict) else inner_value,
    )


def _type(text: str) -> str:
    kinds = ((bool, "boolean"), (str, "string"), (dict, "object"), (list, "array"), (type(None), "null"))
    return next((name for kind, name in kinds if isinstance(_parse_json(text), kind)), "number")


def _element(kind: str | None, value: Any) -> str | None:
    """Return the value of a row of `json_each` as JSON.

    `kind` is the row's type, or None for the empty row of a LEFT JOIN.
    """
    if kind in ("true", "false", "null"):
        return kind
    return value if kind in ("object", "array", None) else _render_json(value)


def _element_text(kind: str | None, value: Any) -> str | None:
    return None if kind == "null" else value if kind == "text" else _element(kind, value)


def _boolean(value: Any) -> bool:
    if isinstance(value, int | float):
        return bool(value)
    word = str(value).strip().lower()
    if word in ("true", "t", "yes", "y", "on", "1"):
        return True
    if word in ("false", "f", "no", "n", "off", "0"):
        return False
    raise ValueError(f'invalid input syntax for type boolean: "{word[:60]}"')


def _split_part(text: str, separator: str, position: int) -> str:
    if position == 0:
        raise ValueError("field position must not be zero")
    parts = text.split(separator) if separator else [text]
    index = position - 1 if position > 0 else len(parts) + position
    return parts[index] if 0 <= index < len(parts) else ""


@lru_cache
def _compiled(pattern: str, any_case: int) -> re.Pattern[str]:
    # In Postgres, `.` also matches a line break.
    return re.compile(pattern, re.ASCII | re.DOTALL | (re.IGNORECASE if any_case else 0))


def _date_trunc(unit: str, text: str) -> str:
    time, unit = datetime.fromisoformat(text), unit.lower()
    if unit == "week":
        time, unit = time - timedelta(days=time.weekday()), "day"
    if unit == "quarter":
        time, unit = time.replace(month=(time.month - 1) // 3 * 3 + 1), "month"
    starts = {"month": 1, "day": 1, "hour": 0, "minute": 0, "second": 0, "microsecond": 0}
    smaller = [*("year", *starts)][["year", *starts].index(unit) + 1 :]
    return time.replace(**{name: starts[name] for name in smaller}).isoformat(" ")  # type: ignore[arg-type]


def _date_part(field: str, text: str) -> float:
    time, field = datetime.fromisoformat(text), field.lower()
    computed_fields: dict[str, Callable[[], float]] = {
        "epoch": lambda: (time.replace(tzinfo=None) - datetime(1970, 1, 1)).total_seconds(),
        "dow": lambda: time.isoweekday() % 7,
        "isodow": time.isoweekday,
        "doy": lambda: time.timetuple().tm_yday,
        "quarter": lambda: (time.month + 2) // 3,
        "week": lambda: time.isocalendar().week,
    }
    return computed_fields[field]() if field in computed_fields else getattr(time, field)


_STRICT: dict[str, Function] = {
    **{name: getattr(math, name) for name in ("ceil", "exp", "floor", "sqrt", "trunc")},
    "ceiling": math.ceil,
    "ln": math.log,
    # The result has the sign of the first number, as in Postgres. In Python, `%` takes the sign of the second.
    "mod": math.fmod,
    "pow": math.pow,
    "power": math.pow,
    "sign": lambda number: (number > 0) - (number < 0),
    "text_left": lambda text, count: text[:count],
    "text_right": lambda text, count: text[-count:] if count else "",
    "reverse": lambda text: text[::-1],
    "split_part": _split_part,
    "starts_with": lambda text, start: text.startswith(start),
    "matches": lambda text, pattern, any_case: bool(_compiled(pattern, any_case).search(text)),
    "date_trunc": _date_trunc,
    "date_part": _date_part,
    "to_boolean": _boolean,
    "json_boolean": lambda value: "true" if value else "false",
    "json_get": lambda text, step: _part(_parse_json(text), step),
    "json_path": _path,
    "json_text": _scalar,
    "json_has": _has,
    "json_has_all": _has,
    "json_has_any": lambda text, *keys: _has(text, *keys, match_all=False),
    "json_exists": _has,
    "json_contains": _contains_text,
    "json_typeof": _type,
}
FUNCTIONS: dict[str, Function] = {
    **{name: _strict(function) for name, function in _STRICT.items()},
    "concat": lambda *values: "".join(str(value) for value in values if value is not None),
    "greatest": lambda *values: max((value for value in values if value is not None), default=None),
    "least": lambda *values: min((value for value in values if value is not None), default=None),
    "json_element": _element,
    "json_element_text": _element_text,
}


class _SortedValues:
    """Values that an aggregate function collects, with their sort keys.

    `options` begins with `distinct` if duplicates are removed. The other options give the order of each sort key: for
    example, `asc-first` means ascending, with NULL first.
    """

    def __init__(self) -> None:
        self._rows: list[tuple[Any, tuple[Any, ...]]] = []
        self._options: list[str] = []

    def add(self, options: str, value: Any, keys: tuple[Any, ...]) -> None:
        self._options = options.split()
        self._rows.append((value, keys))

    def values(self) -> list[Any]:
        orders = [option for option in self._options if option != "distinct"]
        # Sorting is stable, so the last key is sorted first. NULL is set apart, because Python cannot compare None.
        for position, order in reversed(list(enumerate(orders))):
            empty = [row for row in self._rows if row[1][position] is None]
            non_null = [row for row in self._rows if row[1][position] is not None]
            non_null.sort(key=lambda row: row[1][position], reverse=order.startswith("desc"))
            self._rows = empty + non_null if order.endswith("-first") else non_null + empty
        values = [value for value, _ in self._rows]
        return list(dict.fromkeys(values)) if "distinct" in self._options else values


class _StringAgg(_SortedValues):
    _separator = ""

    def step(self, options: str, separator: str, value: Any, *keys: Any) -> None:
        self._separator = separator
        self.add(options, value, keys)

    def finalize(self) -> str | None:
        values = [str(value) for value in self.values() if value is not None]
        return self._separator.join(values) if values else None


class _JsonAgg(_SortedValues):
    def step(self, options: str, value: str | None, *keys: Any) -> None:
        self.add(options, "null" if value is None else value, keys)

    def finalize(self) -> str | None:
        return f"[{','.join(self.values())}]" if self._rows else None


class _Numbers:
    def __init__(self) -> None:
        self._numbers: list[float] = []

    def step(self, number: float | None) -> None:
        if number is not None:
            self._numbers.append(number)


def _spread(function: Callable[[list[float]], float]) -> type:
    class Spread(_Numbers):
        def finalize(self) -> float | None:
            try:
                return function(self._numbers)
            except StatisticsError:
                return None

    return Spread


def _percentile(*, interpolate: bool) -> type:
    class Percentile(_Numbers):
        _share, _down = 0.0, False

        def step(self, share: float, number: float | None, direction: str) -> None:  # type: ignore[override]
            self._share, self._down = share, direction == "DESC"
            super().step(number)

        def finalize(self) -> float | None:
            numbers = sorted(self._numbers, reverse=self._down)
            if not numbers:
                return None
            if not interpolate:
                return numbers[max(1, math.ceil(self._share * len(numbers))) - 1]
            position = self._share * (len(numbers) - 1)
            low, high = numbers[math.floor(position)], numbers[math.ceil(position)]
            return low + (position - math.floor(position)) * (high - low)

    return Percentile


AGGREGATES: dict[str, type] = {
    "string_agg": _StringAgg,
    "json_agg": _JsonAgg,
    **dict.fromkeys(("stddev", "stddev_samp"), _spread(stdev)),
    **dict.fromkeys(("variance", "var_samp"), _spread(variance)),
    "stddev_pop": _spread(pstdev),
    "var_pop": _spread(pvariance),
    "percentile_cont": _percentile(interpolate=True),
    "percentile_disc": _percentile(interpolate=False),
}
NAMES = frozenset((*FUNCTIONS, *AGGREGATES))


def add(connection: sqlite3.Connection) -> None:
    """Register the additional functions on a connection."""
    for name, function in FUNCTIONS.items():
        connection.create_function(name, -1, function, deterministic=True)
    for name, aggregate in AGGREGATES.items():
        connection.create_aggregate(name, -1, aggregate)


@contextmanager
def collect_function_errors() -> Iterator[list[BaseException]]:
    """Collect the exceptions of our SQL functions, because SQLite reports only that a function failed."""
    errors: list[BaseException] = []

    def add_error(unraisable: "sys.UnraisableHookArgs") -> None:
        if unraisable.exc_value is not None:
            errors.append(unraisable.exc_value)

    previous_hook, sys.unraisablehook = sys.unraisablehook, add_error
    sqlite3.enable_callback_tracebacks(True)
    try:
        yield errors
    finally:
        sqlite3.enable_callback_tracebacks(False)
        sys.unraisablehook = previous_hook


LONGEST_CELL = 1_000_000
"""Maximum number of characters of a value. The rest is cut off."""
MOST_CHARACTERS = 64_000_000
"""Maximum number of characters of all values together."""
MEMORY = 512 * 1024 * 1024
"""Maximum bytes of memory that SQLite may use. The process may use three times as much address space."""
STEPS = 5_000
"""Number of SQLite instructions between two checks of the clock."""
LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: 200_000_000,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 2_000_000,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 1000,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 100,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 2_000_000,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 1000,
    # ATTACH creates and writes new files even if the database itself was opened read-only.
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
"""Pattern of the names that our WITH clauses define. If a query only counts rows, SQLite reports such a name as a
table."""
HIDDEN = frozenset({"body"})
"""Columns that queries must not read."""
ALLOWED_FUNCTIONS = NAMES | _words(
    "-> ->> abs avg coalesce count cume_dist date datetime dense_rank first_value instr json json_array "
    "json_array_length json_extract json_object json_quote json_type julianday lag last_value lead length like lower "
    "ltrim max min nth_value ntile nullif percent_rank rank replace round row_number rtrim substr substring sum total "
    "trim unixepoch upper"
)


def cut(text: str) -> str:
    """If a text is too long, return its beginning with a note about its length."""
    return f"{text[:LONGEST_CELL]}… (cut: {len(text):,} characters in all)"


def main() -> None:
    request = json.load(sys.stdin)
    _bound_memory()
    try:
        answer = selected(request)
    except MemoryError:
        answer = {"error": "unavailable", "message": "the query needs too much memory"}
    json.dump(answer, sys.stdout)


def _bound_memory() -> None:
    # If the user has set a lower limit, it cannot be raised and stays in effect.
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (3 * MEMORY, 3 * MEMORY))


def selected(request: dict[str, Any]) -> dict[str, Any]:
    """Run a query and return `rows` and `truncated`, or `error` and `message`."""
    with closing(_open(Path(request["path"]))) as connection:
        return _run_query(connection, request)


def _run_query(connection: sqlite3.Connection, request: dict[str, Any]) -> dict[str, Any]:
    add(connection)
    deadline = time.monotonic() + request["timeout_s"]
    connection.set_progress_handler(lambda: time.monotonic() > deadline, STEPS)
    # A read-only connection can still read every table of the file, and of all collections.
    connection.set_authorizer(_authorize)
    with collect_function_errors() as function_errors:
        try:
            cursor = connection.execute(request["statement"], request["values"])
            return _rows(cursor, request["most_rows"])
        except sqlite3.Error as error:
            return _error_answer(error, function_errors, overdue=time.monotonic() > deadline)


def _open(path: Path) -> sqlite3.Connection:
    """Open the database read-only.

    A query sees the database in its state at the start of the query, even if other processes write meanwhile.
    """
    # The statement cache is off. Otherwise, a statement that was compiled before the authorizer was set could run later
    # without the authorizer's checks.
    connection = sqlite3.connect(
        f"file:{quote(str(path))}?mode=ro", uri=True, isolation_level=None, cached_statements=0
    )
    for pragma in (
        "query_only=ON",
        "trusted_schema=OFF",
        "temp_store=MEMORY",
        # LIKE distinguishes case in Postgres.
        "case_sensitive_like=ON",
        "busy_timeout=10000",
        "cache_size=-65536",
        f"mmap_size={MEMORY // 2}",
        # This limit applies to all connections of a process. It is one reason why each query has a process of its own.
        f"hard_heap_limit={MEMORY}",
    ):
        connection.execute(f"PRAGMA {pragma}").close()
    for limit, value in LIMITS.items():
        connection.setlimit(limit, value)
    # SQLite declares a table-valued function when it is first used. If it is first used in a query, the authorizer
    # refuses the declaration.
    connection.execute("SELECT key FROM json_each('[]')").close()
    return connection


def _authorize(action: int, first: str | None, second: str | None, _database: str | None, _trigger: str | None) -> int:
    if action == sqlite3.SQLITE_SELECT:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_READ and first in TABLES and second not in HIDDEN:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_READ and not second and OWN_QUERY.fullmatch(str(first)):
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_FUNCTION and str(second).lower() in ALLOWED_FUNCTIONS:
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def _rows(cursor: sqlite3.Cursor, most_rows: int) -> dict[str, Any]:
    rows: list[list[Any]] = []
    size = 0
    for row in cursor:
        cells = [_cell(value) for value in row]
        size += sum(len(cell) for cell in cells if isinstance(cell, str))
        # One row more than wanted is read, to know whether the result is complete.
        if len(rows) == most_rows or size > MOST_CHARACTERS:
            return {"rows": rows, "truncated": True}
        rows.append(cells)
    return {"rows": rows, "truncated": False}


def _cell(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        # JSON has no infinity and no NaN, and Postgres reports an overflow as well.
        raise sqlite3.DataError("value out of range: overflow")
    if isinstance(value, bytes):
        raise sqlite3.DataError("a column has values other than text, numbers and booleans: cast the column to text")
    if isinstance(value, str) and len(value) > LONGEST_CELL:
        return cut(value)
    return value


def _error_answer(error: sqlite3.Error, function_errors: list[BaseException], *, overdue: bool) -> dict[str, Any]:
    if overdue and "interrupted" in str(error):
        return {"error": "overdue", "message": ""}
    if isinstance(function_errors[0] if function_errors else error, MemoryError) or "out of memory" in str(error):
        return {"error": "unavailable", "message": "the query needs too much memory"}
    if isinstance(error, sqlite3.OperationalError) and getattr(error, "sqlite_errorname", "").startswith(
        ("SQLITE_BUSY", "SQLITE_CANTOPEN", "SQLITE_IOERR", "SQLITE_LOCKED")
    ):
        return {"error": "unavailable", "message": str(error)}
    return {"error": "refused", "message": str(function_errors[0] if function_errors else error)}


if __name__ == "__main__":
    main()
