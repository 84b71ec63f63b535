"""Kinds of values, as Postgres calls them. Numbers are of two kinds only, so that both engines count alike."""

from typing import Literal

Kind = Literal["text", "bigint", "double precision", "boolean", "jsonb", "timestamp", "date", "unknown"]
"""`unknown` is a quoted literal or NULL whose use has not told yet what it is."""
Dialect = Literal["sqlite", "postgres"]
NUMBERS = ("bigint", "double precision")
WIDER: dict[tuple[Kind, Kind], Kind] = {
    ("bigint", "double precision"): "double precision",
    ("date", "timestamp"): "timestamp",
}
"""What is turned into what where both meet."""

TYPE_NAMES: dict[str, Kind] = {
    "INT": "bigint",
    "BIGINT": "bigint",
    "SMALLINT": "bigint",
    "DOUBLE": "double precision",
    "FLOAT": "double precision",
    "DECIMAL": "double precision",
    "TEXT": "text",
    "VARCHAR": "text",
    "BOOLEAN": "boolean",
    "JSON": "jsonb",
    "JSONB": "jsonb",
    "TIMESTAMP": "timestamp",
    "TIMESTAMPTZ": "timestamp",
    "DATE": "date",
}
"""What a type's name in CAST stands for."""


def common(kinds: tuple[Kind, ...]) -> Kind | None:
    """What all of them can be turned into; `unknown` where none is known, None where there is nothing."""
    found: Kind = "unknown"
    for kind in kinds:
        if kind in (found, "unknown"):
            continue
        wider = kind if found == "unknown" else WIDER.get((kind, found)) or WIDER.get((found, kind))
        if wider is None:
            return None
        found = wider
    return found
