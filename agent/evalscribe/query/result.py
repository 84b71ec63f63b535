"""Values of a result, as plain Python values that JSON can hold."""

import json
from decimal import Decimal
from math import isfinite
from typing import Any

from pydantic import JsonValue

from evalscribe.query.statement import ResultColumn


def value(column: ResultColumn, cell: JsonValue) -> JsonValue:
    """Convert a cell: SQLite returns booleans as numbers and JSON as text."""
    if cell is None:
        return None
    if column.kind == "BOOLEAN":
        return bool(cell)
    return json_value(cell) if column.kind == "JSONB" and isinstance(cell, str) else cell


def json_value(text: str) -> JsonValue:
    """Parse JSON as an engine returns it. Text that was cut is not JSON any more and stays text."""
    try:
        found: JsonValue = json.loads(text, parse_float=_number, parse_constant=str, object_pairs_hook=_in_order)
    except (ValueError, RecursionError):
        return text
    return found


def _number(text: str) -> JsonValue:
    """Read `1e3` as a whole number, as Postgres does; a number that no float can hold stays text."""
    exponent = Decimal(text).as_tuple().exponent
    whole = isinstance(exponent, int) and 0 <= exponent < 400
    if whole:
        return int(Decimal(text))
    return number + 0.0 if isfinite(number := float(text)) else text


def _in_order(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return dict(sorted(pairs))
