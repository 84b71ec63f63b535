"""JSON in the columns that users read in SQL."""

import json

from evalscribe.json_data import clean_json

_NUL = "\\u0000"


class Written(str):
    """JSON text that is stored as it is: what was written once is not read to be written again."""

    __slots__ = ()


def json_text(value: object) -> str:
    """The text of a value for a JSON column."""
    return value if isinstance(value, Written) else written(json.dumps(value, ensure_ascii=False))


def written(text: str) -> Written:
    """JSON text without NUL, which Postgres cannot hold."""
    return Written(json.dumps(clean_json(json.loads(text)), ensure_ascii=False) if _NUL in text else text)


def in_order(text: str | bytes) -> object:
    """The value of JSON text, with its names sorted: Postgres tells them in an order of its own."""
    return json.loads(text, object_pairs_hook=lambda pairs: dict(sorted(pairs)))
