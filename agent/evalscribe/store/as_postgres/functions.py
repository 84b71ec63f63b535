"""Every function that statements for SQLite call, by its name."""

import math
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from evalscribe.store.as_postgres import aggregates, json_values, numbers, texts, times

Function = Callable[..., Any]

FUNCTIONS: dict[str, Function] = {
    "bigint": numbers.to_bigint,
    "double_text": numbers.double_text,
    "text_bigint": numbers.text_bigint,
    "text_double": numbers.text_double,
    "text_boolean": numbers.text_boolean,
    "divisor": numbers.divisor,
    "power": numbers.power,
    "round": numbers.rounded,
    "single": numbers.single,
    "greatest": numbers.greatest,
    "least": numbers.least,
    "sqrt": numbers.of_double("sqrt", math.sqrt),
    "ln": numbers.of_double("ln", math.log),
    "exp": numbers.of_double("exp", numbers.exp),
    "trunc": numbers.of_double("trunc", numbers.trunc),
    "floor": numbers.of_double("floor", math.floor),
    "ceil": numbers.of_double("ceil", math.ceil),
    "text_json": json_values.text,
    "json_text": json_values.text,
    "json_scalar": json_values.scalar,
    "json_key": json_values.key,
    "json_get": json_values.get,
    "json_at": json_values.at,
    "json_path": json_values.path,
    "json_has": json_values.has,
    "json_has_any": json_values.has_any,
    "json_has_all": json_values.has_all,
    "json_contains": json_values.contains,
    "json_typeof": json_values.typeof,
    "json_length": json_values.length,
    "json_number": numbers.json_number,
    "json_double": json_values.to_double,
    "json_bigint": json_values.to_bigint,
    "json_boolean": json_values.to_boolean,
    "to_json": json_values.of,
    "json_build_object": json_values.build_object,
    "json_build_array": json_values.build_array,
    "array": json_values.array,
    "object": json_values.object_,
    "each_json": json_values.each,
    "each_text": json_values.each_text,
    "left": texts.left,
    "right": texts.right,
    "substr": texts.substr,
    "split_part": texts.split_part,
    "reverse": texts.reverse,
    "matches": texts.matches,
    "text_timestamp": times.timestamp,
    "text_utc": times.utc,
    "text_date": times.day,
    "date_trunc": times.truncated,
    "extract": times.field,
    "moved": times.moved,
    "day_moved": times.day_moved,
    "days": times.days,
    "elapsed": times.elapsed,
}
AGGREGATES: dict[str, type] = {
    "variance": aggregates.Variance,
    "stddev": aggregates.Deviation,
    "string_agg": aggregates.StringAgg,
    "json_agg": aggregates.JsonAgg,
    "percentile_cont": aggregates.PercentileCont,
    "percentile_disc": aggregates.PercentileDisc,
}
PREFIX = "pg_"
NAMES = frozenset(PREFIX + name for name in (*FUNCTIONS, *AGGREGATES, "sum"))


def add(connection: sqlite3.Connection) -> None:
    for name, function in FUNCTIONS.items():
        connection.create_function(PREFIX + name, -1, function, deterministic=True)
    for name, made in AGGREGATES.items():
        connection.create_aggregate(PREFIX + name, -1, made)
    connection.create_window_function(PREFIX + "sum", 1, aggregates.Sum)


@contextmanager
def overheard() -> Iterator[list[BaseException]]:
    """What goes wrong in a function inside: SQLite only tells that something did."""
    errors: list[BaseException] = []

    def hear(told: "sys.UnraisableHookArgs") -> None:
        if told.exc_value is not None:
            errors.append(told.exc_value)

    before, sys.unraisablehook = sys.unraisablehook, hear
    sqlite3.enable_callback_tracebacks(True)
    try:
        yield errors
    finally:
        sqlite3.enable_callback_tracebacks(False)
        sys.unraisablehook = before
